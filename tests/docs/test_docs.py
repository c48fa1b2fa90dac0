"""The documentation says what the program does: the command page, links, commands, the example."""

import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from commands import elmo
from conftest import GOLDEN

from elmo_cli.cli import COMMANDS, find_command, main
from elmo_cli.pretrained.registry import MODELS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]
OPERATORS = {"|", "||", "&&", ";", "<", ">", ">>", "&", "2>"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the empty current folder of each test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def fenced(text: str, language: str) -> str:
    """Return the fenced blocks of a language, one after the other."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def elmo_commands(shell: str) -> Iterator[list[str]]:
    """Yield the arguments of every `elmo` in lines of shell, up to a pipe or redirection."""
    for line in shell.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, ";"]:
            if word not in OPERATORS:
                command.append(word)
                continue
            while command and re.fullmatch(r"[A-Z_]+=.*", command[0]):
                del command[0]
            if command and command[0] == "elmo":
                yield command[1:]
            # The word after < or > is a file, and starts no command.
            command = ["a file"] if word in ("<", ">", ">>", "2>") else []


def parse(arguments: list[str]) -> None:
    """Parse a command line as click does, with its text files at hand, and run nothing."""
    name, *rest = arguments
    assert name in COMMANDS, f"no command elmo {name}"
    for word in rest:
        if Path(word).suffix in (".txt", ".json"):
            Path(word).parent.mkdir(parents=True, exist_ok=True)
            Path(word).touch()
    with click.Context(main, info_name="elmo") as parent:
        find_command(name).make_context(name, rest, parent=parent)


# The command page.


def test_the_command_page_is_up_to_date() -> None:
    script = [sys.executable, str(DOCS / "make_commands.py"), "--check"]
    subprocess.run(script, check=True, timeout=60)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_a_valid_example(command: str) -> None:
    help_text = find_command(command).help
    assert help_text
    examples = [
        arguments
        for line in help_text.splitlines()
        if re.match(r"(\$ .*|elmo .*)", line.strip())
        for arguments in elmo_commands(line)
    ]
    assert any(arguments[0] == command for arguments in examples)
    for arguments in examples:
        parse(arguments)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text_or_a_name_that_says_it(command: str) -> None:
    options = [p for p in find_command(command).params if isinstance(p, click.Option)]
    silent = {p.name for p in options if not p.help and not p.hidden}
    assert silent <= {"batch_tokens", "learning_rate", "seed"}


# The pages.


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} is not there"
        if heading:
            assert heading in headings(linked), f"{target} has no such heading"


def headings(page: Path) -> set[str]:
    """Return the headings of a page, as links spell them."""
    texts = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in texts}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_printed_parses(page: Path) -> None:
    for arguments in elmo_commands(fenced(page.read_text(encoding="utf-8"), "sh")):
        parse(arguments)


def test_the_page_of_models_names_them_all() -> None:
    text = (DOCS / "models.md").read_text(encoding="utf-8")
    assert [model.name for model in MODELS if f"`{model.name}`" not in text] == []


def test_the_page_for_allennlps_users_names_every_option_it_had() -> None:
    text = (DOCS / "allennlp.md").read_text(encoding="utf-8")
    old = (
        *("--all", "--top", "--average", "--vocab-path", "--options-file", "--weight-file"),
        *("--batch-size", "--file-friendly-logging", "--cuda-device", "--forget-sentences"),
        *("--use-sentence-keys", "--include-package"),
    )
    options = {name for parameter in find_command("embed").params for name in parameter.opts}
    assert [name for name in old if name not in text or name not in options] == []


def test_the_page_of_promises_names_tests_that_exist() -> None:
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    names = re.findall(r"`(tests/\S+\.py)::(\w+)`", text)
    promises = re.findall(r"^- \*\*(.+?)\.?\*\*", text, flags=re.M)
    assert sorted(promises) == sorted(re.findall(r"^\| ([^|]+) \| `tests/", text, flags=re.M))
    missing = [
        f"{path}::{name}"
        for path, name in names
        if f"\ndef {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_pages_have_at_most_two_thousand_words() -> None:
    pages = [page for page in DOCS.glob("*.md") if page.name != "commands.md"]
    long = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert {name: number for name, number in long.items() if number > 2000} == {}


def sentences(page: Path) -> list[str]:
    """Return the sentences of a page, without code, tables and headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = [line for line in text.splitlines() if not re.match(r"\s*(\||#|<|!\[|    )", line)]
    prose = re.sub(r"`[^`]*`", "x", " ".join(lines))
    return [each for each in re.split(r"(?<=[.!?:])\s+", prose) if len(each.split()) > 3]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sentences_of_pages_are_short(page: Path) -> None:
    if page.name == "commands.md":
        pytest.skip("made from the help texts")
    texts = sentences(page)
    assert [each for each in texts if len(each.split()) > 35] == []
    assert sum(len(each.split()) for each in texts) <= 20 * len(texts)
    assert sum(each.count(";") for each in texts) <= 2


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = re.findall(r": ([\w/.-]+\.md)$", navigation, re.MULTILINE)
    others = [page for page in pages if (ROOT / page).exists()]
    assert sorted({*pages} - {*others}) == sorted(page.name for page in DOCS.glob("*.md"))


# The checks themselves.


def test_commands_are_found_in_shell() -> None:
    shell = (
        "$ elmo cosine bank 'a b' \"c; d\"\n"
        "A=1 elmo info mini && cat x | elmo embed - y \\\n  --top > z\n"
        "python elmo.py\nwc < elmo models\n"
    )
    assert list(elmo_commands(shell)) == [
        ["cosine", "bank", "a b", "c; d"],
        ["info", "mini"],
        ["embed", "-", "y", "--top"],
    ]


# The example.


def read_example(monkeypatch: pytest.MonkeyPatch, text: str, *options: str) -> None:
    """Embed a text, and run the example that reads activations."""
    written = elmo("embed", "-", "out.hdf5", "--model", GOLDEN / "relu", *options, stdin=text)
    assert written.exit_code == 0
    script = str(ROOT / "examples" / "read_activations.py")
    monkeypatch.setattr(sys, "argv", [script, "out.hdf5"])
    runpy.run_path(script, run_name="__main__")


def test_the_example_reads_lines_in_their_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_example(monkeypatch, "".join(f"{word} .\n" for word in "abcdefghijk") + "\nb .\n")
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [int(number) for number, _, _ in lines] == list(range(13))
    assert lines[10] == ["10", "(3, 2, 32)", "k ."]
    assert lines[11] == ["11", "(3, 0, 32)", ""]
    # Of equal sentences the last one has its sentence.
    assert (lines[1][2], lines[12][2]) == ("", "b .")


def test_the_example_reads_one_layer_without_sentences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_example(monkeypatch, "a b\n", "--top", "--forget-sentences")
    assert capsys.readouterr().out == "0\t(2, 32)\t\n"
