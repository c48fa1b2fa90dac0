"""Write docs/commands.md from the help of every command and from the examples.

python docs/make_commands.py            # write the page
python docs/make_commands.py --check    # exit status 1 if the page is not up to date
python docs/make_commands.py --run      # run the examples and write their output first

The examples are in docs/parts/command_examples.md.
"""

import html
import re
import subprocess
import sys
from copy import copy
from inspect import cleandoc
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Final

import click

from elmo_cli.cli import COMMAND_GROUPS, COMMANDS, find_command, main
from elmo_cli.cli.command import options_by_heading
from elmo_cli.cli.option import Option
from elmo_cli.options.selection import NAMED_LAYERS

DOCS: Final = Path(__file__).parent
PAGE: Final = DOCS / "commands.md"
EXAMPLES: Final = DOCS / "parts" / "command_examples.md"
BLOCK: Final = re.compile(
    r"^(?P<comment><!-- not run.*? -->\n)?"
    r"```sh\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n.*?^```\n)?",
    re.MULTILINE | re.DOTALL,
)
"""Example with the output after it, and the comment of one that is not run."""
OPTION: Final = re.compile(
    r"(?<![\w-])(?P<name>--?[a-z][\w-]*)(?: (?P<value>[a-z]\w*))?"
)
"""Option in a help text, with the word after it, which may be its value."""
NOTE: Final = re.compile(
    r"\s*\[((?:default:|required|[^\[\]]*x\b).*?)\](?=\s*(?:\[|$))"
)
"""Default, range or `required` at the end of a help text."""
INTRODUCTION: Final = """\
# Commands

`elmo COMMAND --help` prints the same text. Each option is also a variable of the environment:
`--precision` of `elmo embed` is `ELMO_EMBED_PRECISION`. The exit status and all other variables are
on the page [environment](environment.md).

Data goes to standard output, everything else to standard error.
"""
HIDDEN_OPTIONS: Final = """\
## Options that the help leaves out

These options work, but few people need them."""
COMMENT: Final = (
    "<!-- Made by `python docs/make_commands.py`: "
    "change the help or command_examples.md. -->\n\n"
)


def page() -> str:
    """Return the whole page in Markdown."""
    examples = read_examples()
    sections = [COMMENT + INTRODUCTION, table_of_commands()]
    for name in COMMANDS:
        sections.append(command_section(name, examples.get(name)))
    options = options_tables(main, "elmo")
    sections.append("\n\n".join(["## Options of elmo itself", *options]) + "\n")
    sections.append(hidden_options_section())
    return "\n".join(sections)


def read_examples() -> dict[str, str]:
    """Return the example of each command, with its output."""
    content = EXAMPLES.read_text(encoding="utf-8")
    _, *parts = re.split(r"^## (.+)\n\n", content, flags=re.MULTILINE)
    examples = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        examples[name] = re.sub(r"<!--.*?-->\n", "", text).strip()
    return examples


def table_of_commands() -> str:
    """Return a table of the commands of each group."""
    tables = []
    for heading, commands in COMMAND_GROUPS.items():
        rows = [f"| {heading} | description |", "|---|---|"]
        for name, text in commands.items():
            rows.append(f"| [`{name}`](#elmo-{name}) | {text} |")
        tables.append("\n".join(rows))
    return "\n\n".join(tables) + "\n"


def command_section(name: str, example: str | None) -> str:
    """Return the section of a command: usage, an example, description, options."""
    command = find_command(name)
    full_name = f"elmo {name}"
    ctx = click.Context(command, info_name=full_name)
    usage = " ".join([full_name, *command.collect_usage_pieces(ctx)])
    summary, *description = paragraphs(command.help or "")
    parts = [f"## {full_name}", summary, f"```text\n{usage}\n```"]
    if example is not None:
        parts += ["Example with its output:", example]
    parts += description
    parts += options_tables(command, full_name)
    return "\n\n".join(parts) + "\n"


def paragraphs(text: str) -> list[str]:
    r"""Return the paragraphs of a help text in Markdown. Those with \b keep their lines."""
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


def options_tables(command: click.Command, full_name: str) -> list[str]:
    """Return the tables of the options of a command, one per heading."""
    help_names = ["-h", "--help"]
    ctx = click.Context(command, info_name=full_name, help_option_names=help_names)
    tables = []
    for heading, options in options_by_heading(command, ctx).items():
        rows = [f"| {heading} | description |", "|---|---|"]
        for option in options:
            rows.append(option_row(full_name, option, ctx))
        tables.append("\n".join(rows))
    return tables


def hidden_options_section() -> str:
    """Return the section of the options, and names of options, that no help shows.

    Each row has the commands whose help leaves it out.
    """
    commands_of: dict[tuple[str, str], list[str]] = {}
    for name in COMMANDS:
        command = find_command(name)
        for option in command.params:
            if isinstance(option, Option):
                for row in hidden_rows(command, option):
                    commands_of.setdefault(row, []).append(f"`{name}`")
    rows = ["| option | description | commands |", "|---|---|---|"]
    for (names, text), commands in sorted(commands_of.items()):
        rows.append(f"| {names} | {text} | {', '.join(commands)} |")
    return "\n\n".join([HIDDEN_OPTIONS, "\n".join(rows)]) + "\n"


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
        rows.append((f"`{names}`".replace("|", "&#124;"), prose(text)))
    if option.aliases:
        names = ", ".join(f"`{alias}`" for alias in option.aliases)
        rows.append((names, f"Another name for `{long_name(option)}`."))
    return rows


def option_row(full_name: str, option: click.Option, ctx: click.Context) -> str:
    """Return the row of an option. Its name is a link to itself, to be copied."""
    record = option.get_help_record(ctx)
    assert record is not None, option.name  # Only a hidden option has none.
    names, text = record
    values = ""
    if isinstance(option.type, click.Choice) and names.endswith("]"):
        names, _, listed = names.rpartition(" [")
        choices = [f"`{choice}`" for choice in listed.removesuffix("]").split("|")]
        values = " · ".join(choices) + ". "
    shown = ""
    for part in re.split(r"(, | )", html.escape(names).replace("|", "&#124;")):
        shown += part if part in (", ", " ") else f"<code>{part}</code>"
    anchor = f"{full_name} {long_name(option).lstrip('-')}".replace(" ", "-")
    link = f'<a id="{anchor}" href="#{anchor}">{shown}</a>'
    return f"| {link} | {values}{prose(text)} |"


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
    note = escape(note.replace("x>=", "at least ").replace("x>", "above "))
    note = mark_options(note[0].upper() + note[1:])
    return f"{shown} *{note}.*"


def mark_options(text: str) -> str:
    """Put backticks around options, each with a value that follows."""

    def mark(match: re.Match[str]) -> str:
        name = match["name"]
        value = match["value"]
        if value is None:
            return f"`{name}`"
        if value in OPTION_VALUES.get(name, []):
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
                check=True,
                stdout=subprocess.PIPE,
                encoding="utf-8",
            )
            shown = f"```sh\n{match['code']}```\n"
            if finished.stdout:
                shown += f"\n```text\n{finished.stdout}```\n"
            return shown

        return BLOCK.sub(run, EXAMPLES.read_text(encoding="utf-8"))


@click.command()
@click.option(
    "--check", is_flag=True, help="Write nothing; fail if the page would change."
)
@click.option(
    "--run", is_flag=True, help="Run the examples and write their output first."
)
def make(check: bool, run: bool) -> None:
    """Write docs/commands.md from the help of every command."""
    if run:
        EXAMPLES.write_text(run_examples(), encoding="utf-8")
    text = page()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        raise click.ClickException(
            f"{PAGE.name} is not up to date; run `python docs/make_commands.py`"
        )


if __name__ == "__main__":
    make()
