"""Write the pages of the commands from their helps, examples and columns.

python docs/make_commands.py            # write the pages
python docs/make_commands.py --check    # exit status 1 if a page is not up to date
python docs/make_commands.py --run      # run the examples and write their output first

Each command has a page in docs/commands. docs/commands.md is written by hand, except
for its tables: the commands, the options that many commands share, and hidden options.
The examples are in docs/parts/command_examples.md, with the other sections that are
written by hand, such as Columns.
"""

import html
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from copy import copy
from inspect import cleandoc
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import click

from elmo_cli.cli.command import OTHER_OPTIONS, Command, options_by_heading
from elmo_cli.cli.command_list import COMMAND_GROUPS, COMMANDS, find_command
from elmo_cli.cli.main import main
from elmo_cli.cli.option_conditions import Condition, Option
from elmo_cli.options.layers import NAMED_LAYERS

DOCS: Final = Path(__file__).parent
OVERVIEW: Final = DOCS / "commands.md"
PAGES: Final = DOCS / "commands"
EXAMPLES: Final = DOCS / "parts" / "command_examples.md"
BLOCK: Final = re.compile(
    r"^(?P<comment><!-- not run.*? -->\n)?"
    r"```sh\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n.*?^```\n)?",
    re.MULTILINE | re.DOTALL,
)
"""Example with the output after it, and the comment of one that is not run."""
EXAMPLE_SECONDS: Final = 300
"""Maximum time of an example. All of them take a minute or two."""
OPTION: Final = re.compile(
    r"(?<![\w-])(?P<name>--?[a-z][\w-]*)(?: (?P<value>[a-z]\w*|[A-Z]+\b))?"
)
"""Option in a help text, with the word after it, which may be its value."""
NOTE: Final = re.compile(
    r"\s*\[((?:default:|required|at least|above|from \d).*?)\](?=\s*(?:\[|$))"
)
"""Default, range or `required` at the end of a help text."""
SHOWN_DEFAULT: Final = re.compile(r" \*Default: ([^;]+?)(?:;.*)?\.\*$")
"""Default at the end of a description in Markdown."""
COMMENT: Final = (
    "<!-- Made by `python docs/make_commands.py`: "
    "change the help or command_examples.md. -->\n\n"
)
MADE: Final = re.compile(
    r"(?P<begin><!-- made: (?P<name>[\w ]+) -->\n\n).*?(?P<end><!-- end -->)", re.DOTALL
)
"""Part of the overview that is made here."""
SHARED_BY: Final = 4
"""Number of commands that an option needs, to be described once for all of them."""
KINDS: Final = {
    "Options": "vectors",
    "Output": "output",
    "Input": "input",
    "Model": "model",
    "Speed": "speed",
    "Run": "speed",
    "Length and batches": "speed",
    OTHER_OPTIONS: "every command",
}
"""Kind of a shared option, by the heading under which a help shows it."""

SHARED_OPTIONS: Final = (
    "[The overview](../commands.md#shared-options) and `{name} --help` describe these "
    "options:"
)
"""Sentence above the links to the shared options on the page of a command."""

BAR_IN_CODE: Final = re.compile(r"`([^`]*\|[^`]*)`")
"""Code with a bar, which would end the cell of a table."""
HELP_TOPIC: Final = re.compile(r"`elmo help (formats|layers)`")
TOPIC_LINKS: Final = {
    "formats": "[input formats]({docs}input.md)",
    "layers": "[names and shapes of layers]({docs}output.md#shapes)",
}
"""Link that replaces a topic of `elmo help` in the description of an option."""
COMMANDS_WITH: Final = {
    "--device": "every command with [`--device`](#option-device)",
}
"""What all commands with an option are called in a table."""
HIDDEN_KINDS: Final = {
    "Input": "Tables",
    "Model": "Files of a model",
    "AllenNLP's old flags": "AllenNLP",
}
"""Kind of an option that no help shows, by its heading. All others are "Others"."""
LINKS_OF_OPTIONS: Final = {
    "--mix": "[a trained mix]({docs}output.md#a-trained-mix)",
    "--tokenizer": "[tokenizers]({docs}text.md#tokenizers)",
}
"""Link that replaces the topic in the description of one option."""

COMBINATIONS: Final = (
    "## Combinations\n\n| option | requires | cannot be combined with |\n|---|---|---|"
)
"""Beginning of a section, with the header of its table."""
SHARED_COMBINATIONS: Final = (
    "The rules of [shared options](../commands.md#combinations-of-shared-options) also "
    "hold."
)
"""Sentence below the table."""
SHARED_EXCLUSIONS: Final = {
    ("--mix", "--layers"),
    ("--word-column", "--text-column"),
}
"""Options that exclude each other in every command, as the overview says."""
WITH_SHARED_RULES: Final = {"--text-column", "--tokenizer", "--mix"}
"""Options with rules that the overview describes."""

Names = str
"""Names of an option with its value, as its help shows them."""


class HandWritten(NamedTuple):
    """Parts of a page that are written by hand."""

    examples: str
    sections: list[str]
    """Sections after the description, each with its heading."""


class Row(NamedTuple):
    """Row of an option."""

    names: Names
    long_name: str
    heading: str
    text: str
    """Description in Markdown."""


def pages() -> dict[Path, str]:
    """Return the content of every page by its path."""
    by_hand = read_hand_written()
    rows = {name: command_rows(find_command(name)) for name in COMMANDS}
    shared = shared_rows(list(rows.values()))
    made = {OVERVIEW: overview(OVERVIEW.read_text(encoding="utf-8"), shared)}
    for name in COMMANDS:
        text = command_page(name, by_hand[name], rows[name], shared)
        made[PAGES / f"{name}.md"] = text
    return made


def overview(text: str, shared: dict[Names, Row]) -> str:
    """Return the overview with new tables."""
    own = [row for row in command_rows(main) if row.names not in shared]
    tables = {
        "commands": tables_of_commands(),
        "own options": table_of_rows(own),
        "hidden options": hidden_options_tables(),
    }
    for kind in KINDS.values():
        rows = [row for row in shared.values() if KINDS[row.heading] == kind]
        tables[kind] = table_of_rows(rows)

    def replace(match: re.Match[str]) -> str:
        return f"{match['begin']}{tables[match['name']]}\n\n{match['end']}"

    return MADE.sub(replace, text)


def read_hand_written() -> dict[str, HandWritten]:
    """Return the parts of each page that are written by hand.

    A heading of the third level begins a section of the page.
    """
    content = EXAMPLES.read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (.+)\n\n", content, flags=re.MULTILINE)
    by_hand = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        without_comments = re.sub(r"<!--.*?-->\n", "", text).strip()
        # The pages are in a folder, and the pictures beside it.
        text = re.sub(r"(\]\()(\w+\.svg\))", r"\1../\2", without_comments)
        first, *others = re.split(r"^#(?=## )", text, flags=re.MULTILINE)
        sections = [section.strip() for section in others]
        by_hand[name] = HandWritten(first.strip(), sections)
    return by_hand


def tables_of_commands() -> str:
    """Return a table of the commands of each group."""
    tables = []
    for heading, commands in COMMAND_GROUPS.items():
        rows = [f"| {heading} | description |", "|---|---|"]
        for name, text in commands.items():
            rows.append(f"| [`{name}`](commands/{name}.md) | {text} |")
        tables.append("\n".join(rows))
    return "\n\n".join(tables)


def command_page(
    name: str, by_hand: HandWritten, rows: list[Row], shared: dict[Names, Row]
) -> str:
    """Return the page of a command: usage, examples, description, columns, options."""
    command = find_command(name)
    full_name = f"elmo {name}"
    ctx = click.Context(command, info_name=full_name)
    usage = " ".join([full_name, *command.collect_usage_pieces(ctx)])
    if isinstance(command, Command):
        for other in command.other_usages:
            usage += f"\n{full_name} [OPTIONS] {other}"
    summary, *description = paragraphs(command.help or "")
    parts = [f"# {full_name}", summary, f"```text\n{usage}\n```"]
    parts += ["## Examples", by_hand.examples]
    # The examples above, which say what they are for, replace those of the help.
    description = [text for text in description if not text.startswith("```sh")]
    if description:
        parts += ["## Description", *description]
    parts += with_combinations(by_hand.sections, command)
    common = [row for row in rows if is_shared(row, shared)]
    own = [row for row in rows if not is_shared(row, shared)]
    parts.append("## Options")
    if own:
        parts += [*tables_of_rows(own), "### Shared options"]
    parts.append(SHARED_OPTIONS.format(name=full_name))
    parts.append(table_of_shared(common))
    return COMMENT + "\n\n".join(parts) + "\n"


def with_combinations(sections: list[str], command: click.Command) -> list[str]:
    """Return the sections, and a table of the options that need or exclude others.

    The rows that are written by hand come first. The others follow from the options.
    Rules of all commands are in the overview only.
    """
    others = []
    table = COMBINATIONS
    for section in sections:
        if section.startswith(COMBINATIONS):
            table = section
        else:
            others.append(section)
    described = set()
    for row in table.splitlines():
        first_cell, _, _ = row.removeprefix("| ").partition(" | ")
        described.update(re.findall(r"`(--[\w-]+)`", first_cell))
    rows = combination_rows(command, described)
    if table == COMBINATIONS and not rows:
        return others
    combinations = "\n".join([table, *rows])
    if names_of_options(command) & WITH_SHARED_RULES:
        combinations += f"\n\n{SHARED_COMBINATIONS}"
    return [*others, combinations]


def names_of_options(command: click.Command) -> set[str]:
    """Return all names of the options of a command."""
    names: set[str] = set()
    for option in command.params:
        if isinstance(option, Option):
            names.update(option.opts)
    return names


def combination_rows(command: click.Command, described: set[str]) -> list[str]:
    """Return the rows of the options that need or exclude others the help shows.

    Options that are `described` already get no row, and neither do the rules that the
    overview has for all commands.
    """
    names_by_cells: dict[str, list[str]] = {}
    for option in command.params:
        if not isinstance(option, Option) or option.hidden:
            continue
        name = long_name(option)
        if name in described:
            continue
        required = " or ".join(shown_conditions(command, option.requires))
        excludes = [
            other for other in option.excludes if (name, other) not in SHARED_EXCLUSIONS
        ]
        excluded = ", ".join(shown_conditions(command, excludes))
        if required or excluded:
            names_by_cells.setdefault(f"{required} | {excluded}", []).append(name)
    rows = []
    for cells, names in names_by_cells.items():
        shown = ", ".join(f"`{name}`" for name in names)
        rows.append(f"| {shown} | {cells} |".replace("  ", " "))
    return rows


def shown_conditions(
    command: click.Command, conditions: Sequence[Condition]
) -> list[str]:
    """Return conditions in Markdown, without those on options that no help shows."""
    hidden = {
        name
        for option in command.params
        if isinstance(option, Option) and option.hidden
        for name in option.opts
    }
    shown = []
    for condition in conditions:
        text = condition if isinstance(condition, str) else " ".join(condition)
        if text in hidden:
            continue
        is_option = text.startswith("--")
        shown.append(f"`{text}`" if is_option else text)
    return shown


def paragraphs(text: str) -> list[str]:
    r"""Return the paragraphs of a help text in Markdown. \b keeps their lines."""
    found = []
    for paragraph in re.split(r"\n\s*\n", cleandoc(text)):
        lines = cleandoc(paragraph).splitlines()
        if lines[0].strip() != "\b":
            found.append(prose(" ".join(line.strip() for line in lines)))
            continue
        block = cleandoc("\n".join(lines[1:]))
        if block.startswith("$ "):
            code = re.sub(r"^\$ ", "", block, flags=re.MULTILINE)
            found.append(f"```sh\n{code}\n```")
        else:
            found.append(f"```text\n{block}\n```")
    return found


def command_rows(command: click.Command) -> list[Row]:
    """Return the rows of the options that the help of a command shows."""
    help_names = ["-h", "--help"]
    ctx = click.Context(command, info_name=command.name, help_option_names=help_names)
    rows = []
    for heading, options in options_by_heading(command, ctx).items():
        for option in options:
            rows.append(row_of(option, heading, ctx))
    return rows


def row_of(option: click.Option, heading: str, ctx: click.Context) -> Row:
    """Return the row of an option."""
    record = option.get_help_record(ctx)
    assert record is not None, option.name  # Only a hidden option has none.
    names, text = record
    values = ""
    if isinstance(option.type, click.Choice) and names.endswith("]"):
        names, _, listed = names.rpartition(" [")
        choices = [f"`{choice}`" for choice in listed.removesuffix("]").split("|")]
        values = " · ".join(choices) + ". "
    return Row(
        names=names,
        long_name=long_name(option),
        heading=heading,
        text=values + prose(text),
    )


def shared_rows(rows_of_commands: list[list[Row]]) -> dict[Names, Row]:
    """Return the rows that many commands share, by the names of their options.

    If the commands describe an option in several ways, the most frequent way is shared.
    """
    rows: dict[Names, list[Row]] = {}
    for command in rows_of_commands:
        for row in command:
            if row.heading in KINDS:
                rows.setdefault(row.names, []).append(row)
    shared = {}
    for names, same_names in rows.items():
        if len(same_names) >= SHARED_BY:
            (text, _), *_ = Counter(row.text for row in same_names).most_common()
            shared[names] = next(row for row in same_names if row.text == text)
    return shared


def is_shared(row: Row, shared: dict[Names, Row]) -> bool:
    """Return whether the overview describes an option as this command does."""
    other = shared.get(row.names)
    return other is not None and row.heading in KINDS and row.text == other.text


def tables_of_rows(rows: list[Row]) -> list[str]:
    """Return a table for each heading, in the order of the help.

    The heading "Options" gets none of its own, because it is that of all tables.
    """
    by_heading: dict[str, list[Row]] = {}
    for row in rows:
        by_heading.setdefault(row.heading, []).append(row)
    parts = []
    for heading, own in by_heading.items():
        if heading != "Options":
            parts.append(f"### {heading}")
        parts.append(table_of_rows(own, docs="../"))
    return parts


def table_of_rows(rows: list[Row], docs: str = "") -> str:
    """Return a table of options. A name is a link to itself, to be copied.

    `docs` leads from the page to the folder of the docs.
    """
    lines = ["| option | description |", "|---|---|"]
    for row in rows:
        shown = ""
        for part in re.split(r"(, | )", html.escape(row.names).replace("|", "&#124;")):
            shown += part if part in (", ", " ") else f"<code>{part}</code>"
        anchor = anchor_of(row)
        link = f'<a id="{anchor}" href="#{anchor}">{shown}</a>'
        text = with_links(row.text, row.long_name, docs)
        lines.append(f"| {link} | {BAR_IN_CODE.sub(escape_bars, text)} |")
    return "\n".join(lines)


def escape_bars(code: re.Match[str]) -> str:
    """Return code with bars in HTML, where they do not end a cell."""
    return f"<code>{html.escape(code[1]).replace('|', '&#124;')}</code>"


def with_links(text: str, option: str, docs: str = "") -> str:
    """Return the description of an option with a link to the topic that it names."""

    def link(match: re.Match[str]) -> str:
        template = LINKS_OF_OPTIONS.get(option, TOPIC_LINKS[match[1]])
        return template.format(docs=docs)

    return HELP_TOPIC.sub(link, text)


def table_of_shared(rows: list[Row]) -> str:
    """Return a table of links to the options that the overview describes."""
    lines = [
        "| kind | options (default in brackets) |",
        "|---|---|",
    ]
    by_kind: dict[str, list[str]] = {}
    for row in rows:
        link = f"[`{row.long_name}`](../commands.md#{anchor_of(row)}){default_of(row)}"
        by_kind.setdefault(KINDS[row.heading], []).append(link)
    for kind, links in by_kind.items():
        lines.append(f"| {kind} | {' · '.join(links)} |")
    return "\n".join(lines)


def default_of(row: Row) -> str:
    """Return the default of an option in brackets, after a space, or ""."""
    found = SHOWN_DEFAULT.search(row.text)
    return f" ({found[1]})" if found is not None else ""


def anchor_of(row: Row) -> str:
    """Return the part of a link after # that leads to an option."""
    return f"option-{row.long_name.lstrip('-')}"


def hidden_options_tables() -> str:
    """Return a table of each kind of options, and names of options, no help shows.

    Each row has the commands whose help leaves it out.
    """
    commands_of: dict[tuple[str, str], list[str]] = {}
    rows_of: dict[str, list[tuple[str, str]]] = {
        kind: [] for kind in [*HIDDEN_KINDS.values(), "Others"]
    }
    for name in COMMANDS:
        command = find_command(name)
        for option in command.params:
            if not isinstance(option, Option):
                continue
            for row in hidden_rows(command, option):
                if row not in commands_of:
                    rows_of[HIDDEN_KINDS.get(option.heading, "Others")].append(row)
                commands_of.setdefault(row, []).append(name)
    tables = []
    for kind, rows in rows_of.items():
        lines = [f"| {kind} | description | commands |", "|---|---|---|"]
        for row in sorted(rows):
            names, text = row
            lines.append(f"| {names} | {text} | {shown_commands(commands_of[row])} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def shown_commands(commands: list[str]) -> str:
    """Return the names of commands, or what they have in common if they are many."""
    for option, text in COMMANDS_WITH.items():
        if commands == commands_with(option):
            return text
    return ", ".join(f"`{name}`" for name in commands)


def commands_with(option: str) -> list[str]:
    """Return the commands that take an option, even if their help leaves it out."""
    return [name for name in COMMANDS if option in names_of_options(find_command(name))]


def hidden_rows(command: click.Command, option: Option) -> list[tuple[str, str]]:
    """Return the names and descriptions of what the help leaves out of an option."""
    ctx = click.Context(command, info_name=command.name)
    rows = []
    if option.hidden:
        shown = copy(option)
        shown.hidden = False
        record = shown.get_help_record(ctx)
        assert record is not None
        names, text = record
        description = with_links(prose(text), long_name(option))
        rows.append((f"`{names}`".replace("|", "&#124;"), description))
    for alias in option.aliases:
        rows.append((f"`{alias}`", f"Another name for `{long_name(option)}`."))
    return rows


def long_name(option: click.Option) -> str:
    """Return the first name of an option that begins with two dashes, if it has one."""
    for name in option.opts:
        if name.startswith("--"):
            return name
    return option.opts[0]


def prose(text: str) -> str:
    """Return text in Markdown: backticks, options and defaults have a form, no more."""
    text, *notes = NOTE.split(text)
    shown = ""
    for part in re.split(r"(`[^`]*`)", text):
        shown += part if part.startswith("`") else mark_options(escape(part))
    if not notes:
        return shown
    # The parts between the notes are empty.
    note = "; ".join(notes[::2])
    note = escape(note)
    note = mark_options(note[0].upper() + note[1:])
    return f"{shown} *{note}.*"


def mark_options(text: str) -> str:
    """Put backticks around options, each with a value that follows."""

    def mark(match: re.Match[str]) -> str:
        name = match["name"]
        value = match["value"]
        if value is None:
            return f"`{name}`"
        if value.isupper() or value in OPTION_VALUES.get(name, []):
            return f"`{name} {value}`"
        return f"`{name}` {value}"

    return OPTION.sub(mark, text)


def option_values() -> dict[str, list[str]]:
    """Return the values that a help may name with an option, by its name."""
    values: dict[str, list[str]] = {"--layers": [*NAMED_LAYERS]}
    for command in COMMANDS:
        for option in find_command(command).params:
            if isinstance(option.type, click.Choice):
                for name in option.opts:
                    values.setdefault(name, []).extend(option.type.choices)
    return values


OPTION_VALUES: Final = option_values()


def escape(text: str) -> str:
    """Escape what has a meaning in Markdown and in its tables."""
    text = re.sub(r"([*\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", text)
    return text.replace("|", "&#124;").replace("<", "&lt;")


def run_examples() -> str:
    """Return the examples with what they print now."""
    with TemporaryDirectory() as folder:
        copytree(DOCS.parent / "examples", Path(folder, "examples"))
        environment = os.environ | {"COLUMNS": "80"}  # the width without a terminal
        beginning = (
            "set -e -o pipefail\n"
            f'elmo() {{ "{sys.executable}" -m elmo_cli "$@"; }}\n'
            f'python() {{ "{sys.executable}" "$@"; }}\n'
        )

        def run(match: re.Match[str]) -> str:
            if match["comment"] is not None:
                return match[0]
            finished = subprocess.run(
                ["bash", "-c", beginning + match["code"]],
                cwd=folder,
                env=environment,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                timeout=EXAMPLE_SECONDS,
            )
            shown = f"```sh\n{match['code']}```\n"
            if finished.stdout:
                shown += f"\n```text\n{finished.stdout}```\n"
            return shown

        return BLOCK.sub(run, EXAMPLES.read_text(encoding="utf-8"))


@click.command()
@click.option(
    "--check", is_flag=True, help="Write nothing; fail if a page would change."
)
@click.option(
    "--run", is_flag=True, help="Run the examples and write their output first."
)
def make(check: bool, run: bool) -> None:
    """Write the pages of the commands from their helps."""
    if run:
        EXAMPLES.write_text(run_examples(), encoding="utf-8")
    made = pages()
    outdated = [path for path in PAGES.glob("*.md") if path not in made]
    changed = []
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            changed.append(path)
    if check and (changed or outdated):
        names = ", ".join(path.name for path in [*changed, *outdated])
        raise click.ClickException(
            f"{names}: not up to date; run `python docs/make_commands.py`"
        )
    PAGES.mkdir(exist_ok=True)
    for path in changed:
        path.write_text(made[path], encoding="utf-8")
    for path in outdated:
        path.unlink()


if __name__ == "__main__":
    make()
