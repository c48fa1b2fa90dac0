"""Messages, as Python and the command line spell them."""

import ast
import math
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import elmo_cli
from elmo_cli.cli.command_list import COMMANDS, find_command
from elmo_cli.errors.checks import check_at_least, check_choice
from elmo_cli.errors.exceptions import InputError, OutputError, SettingsError
from elmo_cli.errors.messages import (
    ARGUMENT_OF_OPTION,
    Message,
    PipedCommand,
    Template,
    TypedCommand,
    joined,
    literal,
    option_named,
    option_of,
    problem_of,
    spelled_as_options,
)
from elmo_cli.options.fields import info_of, option_fields
from elmo_cli.options.selection import SelectionSettings
from tests.support.commands import elmo
from tests.support.settings import ALL_SETTINGS

QUOTES = Message(
    "{name}: the cell {cell} is in quotes",
    remedy="If quotes are text, use {--quotes none}.",
    name="run--top.hdf5",
    cell="'--layers {a}'",
)


@pytest.mark.parametrize(
    ("template", "in_python", "as_options"),
    [
        ("{--gamma} requires {--mix}", "gamma requires mix", "--gamma requires --mix"),
        ("Use {--layers top}.", "Use layers='top'.", "Use --layers top."),
        ("Use {--overwrite True}.", "Use overwrite=True.", "Use --overwrite."),
        ("Use {--format hdf5}.", "Use file_format='hdf5'.", "Use --format hdf5."),
        ("Use {--id-column}.", "Use id_column.", "Use --id-column."),
        ('Use {--id-column ""}.', "Use id_column=''.", 'Use --id-column "".'),
        ("Use {--batch-size 1}.", "Use batch_size=1.", "Use --batch-size 1."),
        ("Use {--alpha 0.5}.", "Use alpha=0.5.", "Use --alpha 0.5."),
        ("Use {--shard 1/2}.", "Use shard='1/2'.", "Use --shard 1/2."),
    ],
)
def test_an_option_is_an_argument_in_python(
    template: str, in_python: str, as_options: str
) -> None:
    message = Message(Template(template))
    assert str(message) == in_python
    assert message.as_options() == as_options


@pytest.mark.parametrize("options", ALL_SETTINGS)
def test_each_option_has_the_name_of_its_field_in_python(options: Any) -> None:
    for name in option_fields(options):
        option = info_of(options, name).name or f"--{name.replace('_', '-')}"
        assert str(option_named(option)) == name
        assert option_of(name).as_options() == option


def test_a_value_in_python_has_the_type_of_its_option() -> None:
    types: dict[str, set[type[click.ParamType[Any]]]] = {}
    for command in COMMANDS:
        for parameter in find_command(command).params:
            for name in parameter.opts:
                types.setdefault(name, set()).add(type(parameter.type))
    numbers = (click.types.IntParamType, click.types.FloatParamType)
    n_values = 0
    for path, text in strings_of_package():
        for name, value in re.findall(r"\{(--[a-z-]+) ([^{} ]+)\}", text):
            if value not in ("True", '""'):
                spelled = str(option_named(f"{name} {value}")).partition("=")[2]
                is_number = isinstance(ast.literal_eval(spelled), (int, float))
                is_of_number = any(issubclass(kind, numbers) for kind in types[name])
                assert is_number == is_of_number, f"{path}: {text}"
                n_values += 1
    assert n_values > 50


def test_flags_alone_are_true_in_messages() -> None:
    flags: set[str] = set()
    others: set[str] = set()
    for command in COMMANDS:
        for parameter in find_command(command).params:
            if isinstance(parameter, click.Option):
                names = flags if parameter.is_flag else others
                names.update(parameter.opts)
    for path, text in strings_of_package():
        for name, value in re.findall(r"\{(--[a-z-]+) ?([^{}]*)\}", text):
            if value == "True":
                assert name in flags - others, f"{path}: {text}"
            elif text != f"{{{name}}}":  # the name alone, which stands for a value
                assert name not in flags - others, f"{path}: {text}"


def names_in_python() -> set[str]:
    """Return the names that the options of all commands have in Python."""
    names = set()
    for command in COMMANDS:
        for parameter in find_command(command).params:
            if isinstance(parameter, click.Option):
                names.add(str(parameter.name))
                names.update(each[2:].replace("-", "_") for each in parameter.opts)
    return names


IN_PYTHON_ONLY = {
    "analysis/search/word_neighbours.py",
    "analysis/word_vectors/file_formats.py",
    "analysis/word_vectors/write_word_vectors.py",
    "elmo.py",
    "embedder.py",
    "integrations/vectorizer.py",
    "options/encode_arguments.py",
}
"""Modules with messages about arguments that no command passes on."""


def test_no_message_for_a_command_names_an_option_as_an_argument() -> None:
    names = names_in_python()
    for place, text in literals_of_messages():
        if place.partition(":")[0] in IN_PYTHON_ONLY:
            continue
        # What is in braces has two spellings, or is a value.
        words = re.findall(r"[a-z_]+", re.sub(r"\{[^{}]+\}", "", text))
        arguments = [word for word in words if "_" in word and word in names]
        assert not arguments, f"{place}: {text}"
        thing = re.match(r"([a-z]+)( \{\w*\})?: ", text)
        assert thing is None or thing[1] not in names, f"{place}: {text}"


@pytest.mark.parametrize(
    ("check", "in_python", "as_options"),
    [
        pytest.param(
            lambda: check_choice("pooling", "sum", ["mean", "max"]),
            "pooling: expected mean or max, found 'sum'",
            "--pooling: expected mean or max, found 'sum'",
            id="choice",
        ),
        pytest.param(
            lambda: check_at_least("batch_size", 0, 1),
            "batch_size: expected 1 or more, found 0",
            "--batch-size: expected 1 or more, found 0",
            id="number",
        ),
        pytest.param(
            lambda: check_choice("file_format", "xml", ["hdf5", "npz"]),
            "file_format: expected hdf5 or npz, found 'xml'",
            "--format: expected hdf5 or npz, found 'xml'",
            id="other name",
        ),
        pytest.param(
            lambda: SelectionSettings(mix=(math.nan,)),
            "mix: expected finite float32 numbers, found nan",
            "--mix: expected finite float32 numbers, found nan",
            id="mix",
        ),
    ],
)
def test_a_wrong_value_is_reported_in_two_spellings(
    check: Callable[[], object], in_python: str, as_options: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        check()
    assert str(raised.value) == in_python
    assert spelled_as_options(raised.value) == as_options


def test_messages_know_the_arguments_that_are_not_called_like_their_option() -> None:
    arguments = {}
    for options in ALL_SETTINGS:
        for field_name in option_fields(options):
            option_name = info_of(options, field_name).name
            if option_name:
                arguments[option_name] = field_name
    assert arguments == ARGUMENT_OF_OPTION


def test_an_option_may_be_a_value() -> None:
    message = Message(
        "{option} has no effect",
        remedy="Remove {option}.",
        option=option_named("--quotes"),
    )
    assert str(message) == "quotes has no effect. Remove quotes."
    assert message.as_options() == "--quotes has no effect. Remove --quotes."
    typed = {"--quotes": "-q"}
    assert (
        message.as_options(TypedCommand(typed)) == "-q has no effect. Remove --quotes."
    )
    assert message.as_options(TypedCommand({})) == "--quotes has no effect"


def test_a_piped_command_is_the_typed_one_with_a_hyphen() -> None:
    message = Message("a: no such file. {piped}", piped=PipedCommand("a b.txt"))
    typed = TypedCommand({}, words=["elmo", "embed", "a b.txt", "out 1.hdf5"])
    assert str(message) == "a: no such file. elmo ... -"
    assert message.as_options() == str(message)
    assert message.as_options(TypedCommand({}, words=["elmo", "info"])) == str(message)
    assert message.as_options(typed) == "a: no such file. elmo embed - 'out 1.hdf5'"


def test_braces_of_a_user_stay_as_they_are() -> None:
    error = InputError(f"{'{a} {b}.txt'}: empty", remedy="Use {--quotes none}.")
    assert str(error) == "{a} {b}.txt: empty. Use quotes='none'."


@pytest.mark.parametrize("path", ["{--overwrite True}.h5", "{--nosuch}", "{{}", "{a}"])
def test_a_path_is_never_read_as_a_template(path: str) -> None:
    error = OutputError(f"{path}: a file", remedy="Use {--overwrite True}.")
    assert str(error) == f"{path}: a file. Use overwrite=True."
    assert spelled_as_options(error) == f"{path}: a file. Use --overwrite."
    typed = TypedCommand({"--overwrite": "--overwrite"})
    for message in (
        Message(f"{path}: a file", remedy=f"Remove {literal(path)}."),
        Message("{path}: a file", remedy="Remove {path}.", path=path),
    ):
        assert str(message) == f"{path}: a file. Remove {path}."
        assert message.as_options(typed) == str(message)


def test_files_named_like_options_are_shown_as_they_are(folder: Path) -> None:
    Path("{--overwrite True}").write_text("a\n", encoding="utf-8")
    result = elmo("embed", "{--nosuch}.txt", "out.h5")
    assert result.stderr == "Error: {--nosuch}.txt: no such file\n"
    result = elmo("embed", "{--overwrite True}", "{--overwrite True}")
    assert "Error: {--overwrite True}: the output is also an input" in result.stderr


def test_an_error_takes_the_arguments_of_its_message() -> None:
    error = SettingsError("{--mix}: {n}", remedy="Use {--layers top}.", n=3)
    assert str(error) == "mix: 3. Use layers='top'."
    assert spelled_as_options(error) == "--mix: 3. Use --layers top."
    assert str(InputError("a: empty", remedy="")) == "a: empty"


def test_values_are_inserted_as_they_are() -> None:
    problem = (
        "run--top.hdf5: the cell '--layers {a}' is in quotes. If quotes are text, "
    )
    assert str(QUOTES) == f"{problem}use quotes='none'."
    assert QUOTES.as_options() == f"{problem}use --quotes none."


def test_a_remedy_whose_option_a_command_lacks_is_left_out() -> None:
    problem = "run--top.hdf5: the cell '--layers {a}' is in quotes"
    assert QUOTES.as_options(TypedCommand({"--layers": "--layers"})) == problem
    assert "--quotes" in QUOTES.as_options(
        TypedCommand({"--layers": "--layer", "--quotes": "-q"})
    )


def test_a_remedy_for_the_shell_is_shown_on_the_command_line_alone() -> None:
    both = Message("a: no such file", remedy="Name a file.", shell_remedy="Pipe it.")
    assert str(both) == "a: no such file. Name a file."
    assert both.as_options() == "a: no such file. Pipe it."
    alone = Message("{path}: no such file", shell_remedy="Pipe it.", path="{a}")
    assert str(alone) == "{a}: no such file"
    assert alone.as_options() == "{a}: no such file. Pipe it."


def test_a_message_may_contain_another_message_or_error() -> None:
    for inner in (QUOTES, InputError(QUOTES)):
        outer = Message("{number}: {problem}", number=3, problem=inner)
        assert str(outer) == f"3: {QUOTES}"
        assert outer.as_options() == f"3: {QUOTES.as_options()}"
        assert (
            outer.as_options(TypedCommand({"--a": "-a"}))
            == f"3: {QUOTES.as_options(TypedCommand({}))}"
        )


def test_a_problem_has_no_remedy_but_keeps_its_options() -> None:
    message = Message("{--gamma}: not {value}", remedy="Omit {--gamma}.", value=0)
    problem = Message("{problem}", problem=problem_of(InputError(message)))
    assert str(problem) == "gamma: not 0"
    assert problem.as_options() == "--gamma: not 0"
    # A path may have a full stop before a space, so a problem stays whole.
    assert str(problem_of(InputError("vol. 1.csv: empty"))) == "vol. 1.csv: empty"


def test_joined_messages_keep_their_options() -> None:
    message = joined(
        [Message(Template("{--layers} (all)")), InputError(QUOTES), "a {b}"]
    )
    assert str(message) == f"layers (all), {QUOTES}, a {{b}}"
    assert message.as_options() == f"--layers (all), {QUOTES.as_options()}, a {{b}}"
    assert str(joined([])) == ""


def test_an_error_shows_its_message() -> None:
    error = SettingsError(QUOTES)
    assert str(error) == str(QUOTES)
    assert spelled_as_options(error) == QUOTES.as_options()
    assert spelled_as_options(ValueError("a", "b")) == "('a', 'b')"


def test_errors_with_messages_can_be_pickled() -> None:
    copied = pickle.loads(pickle.dumps(SettingsError(QUOTES)))
    assert type(copied) is SettingsError
    assert spelled_as_options(copied) == QUOTES.as_options()


def test_a_problem_has_the_typed_name_of_an_option_and_a_remedy_its_own() -> None:
    message = Message(Template("{--device}: no GPU"), remedy="Use {--device cpu}.")
    typed = {"--device": "--cuda", "--cuda": "--cuda"}
    assert (
        message.as_options(TypedCommand(typed)) == "--cuda: no GPU. Use --device cpu."
    )


def calls_of_messages() -> Iterator[tuple[ast.Call, str]]:
    """Yield each call that makes a message, an error or a warning, and its place."""
    package = Path(elmo_cli.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            if called == "Message" or called.endswith(("Error", "_error", "warning")):
                yield node, f"{path.relative_to(package)}:{node.lineno}"


def literals_of_messages() -> Iterator[tuple[str, str]]:
    """Yield the place and text of each literal of a message, error or warning.

    Values in it are written as `{}`.
    """
    for call, place in calls_of_messages():
        yield place, text_of(call.args[0])


def strings_of_package() -> Iterator[tuple[str, str]]:
    """Yield the file and text of each string of the package."""
    package = Path(elmo_cli.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield str(path.relative_to(package)), node.value


def text_of(node: ast.expr) -> str:
    """Return the text of a literal, with `{}` for values; empty for anything else."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Template":
        return text_of(node.args[0])
    if isinstance(node, ast.JoinedStr):
        parts = [text_of(part) for part in node.values]
        return "".join(part or "{}" for part in parts)
    return ""


def test_a_problem_contains_no_remedy() -> None:
    # A second sentence of a problem gives details: "The columns are ...".
    second_sentence = re.compile(r"[.?!] (?!The |These |Each )[A-Z`{]")
    for call, place in calls_of_messages():
        text = text_of(call.args[0])
        is_log = ast.unparse(call.func).endswith("warning")
        if not is_log and not text.startswith("Stopped "):
            assert second_sentence.search(text) is None, f"{place}: {text}"


def test_an_error_makes_its_message_itself() -> None:
    for call, place in calls_of_messages():
        called = ast.unparse(call.func)
        first = call.args[0]
        if called.endswith("Error") and isinstance(first, ast.Call):
            is_private = called.startswith("_")
            assert is_private or ast.unparse(first.func) != "Message", place


def test_each_name_in_braces_has_a_value() -> None:
    for call, place in calls_of_messages():
        names = {keyword.arg for keyword in call.keywords}
        if None in names:
            continue
        strings = [call.args[0]]
        for keyword in call.keywords:
            if keyword.arg in ("remedy", "shell_remedy"):
                strings += getattr(keyword.value, "elts", [keyword.value])
        for string in strings:
            # Values of an f-string are not written in braces.
            text = text_of(string).replace("{}", "")
            assert set(re.findall(r"{([a-z]\w*)}", text)) <= names, f"{place}: {text}"


def test_templates_and_data_are_separate() -> None:
    """A problem without values is text, and what a user wrote is not in a template."""
    for call, place in calls_of_messages():
        called = ast.unparse(call.func).rpartition(".")[2]
        names = {keyword.arg for keyword in call.keywords}
        problem = call.args[0]
        if called.endswith("_error"):
            continue
        if names <= {"remedy", "shell_remedy"}:
            assert "{--" not in text_of(problem) or isinstance(problem, ast.Call), place
        else:
            assert not isinstance(problem, ast.JoinedStr), place


def test_a_message_of_one_sentence_has_no_full_stop() -> None:
    for place, text in literals_of_messages():
        is_one_sentence = re.search(r"[.?!] |[.?!]{", text) is None
        if is_one_sentence and not text.endswith("..."):
            assert not text.endswith("."), f"{place}: {text}"
