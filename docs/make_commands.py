"""Write docs/commands.md from the help of every command and from docs/parts/command_examples.md.

python docs/make_commands.py            # write the page
python docs/make_commands.py --check    # exit status 1 if the page is not up to date
python docs/make_commands.py --run      # run the examples and write their output first
"""

import html
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import click

from elmo_cli.cli import COMMAND_GROUPS, COMMANDS, find_command, main

DOCS = Path(__file__).parent
PAGE = DOCS / "commands.md"
EXAMPLES = DOCS / "parts" / "command_examples.md"
BLOCK = re.compile(
    r"^(?P<comment><!-- not run.*? -->\n)?```sh\n(?P<code>.*?)^```\n(?:\n```text\n.*?^```\n)?",
    re.M | re.S,
)
OPTION = re.compile(
    r"(?<![\w-])(--?[a-z][\w-]*"
    r"(?: (?:all|average|carry|conllu|jsonl|none|packed|parquet|tokens|top|word)\b)?)"
)
"""Option in a help text, with a value that may follow."""
NOTE = re.compile(r"\s*\[((?:default:|required|[^\[\]]*x\b).*?)\](?=\s*(?:\[|$))")
"""Default, range or `required` at the end of a help text."""
INTRODUCTION = """\
# Commands

`elmo COMMAND --help` prints the same text. Each option is also a variable of the environment:
`--precision` of `elmo embed` is `ELMO_EMBED_PRECISION`. The exit status and all other variables are
on the page [environment](environment.md).

Data goes to standard output, everything else to standard error.
"""
COMMENT = (
    "<!-- Made by `python docs/make_commands.py`: "
    "change the help or command_examples.md. -->\n\n"
)


def page() -> str:
    """Return the whole page in Markdown."""
    examples = read_examples()
    sections = [COMMENT + INTRODUCTION, _index()]
    sections += [_section(name, examples.get(name, "")) for name in COMMANDS]
    sections.append(_options_section("## Options of elmo itself", main, "elmo"))
    return "\n".join(sections)


def read_examples() -> dict[str, str]:
    """Return the example of each command, with its output."""
    parts = re.split(r"^## (.+)\n\n", EXAMPLES.read_text(encoding="utf-8"), flags=re.M)
    texts = [re.sub(r"<!--.*?-->\n", "", text).strip() for text in parts[2::2]]
    return dict(zip(parts[1::2], texts, strict=True))


def _index() -> str:
    """Return a table of the commands, group by group."""
    rows = ["| command | description |", "|---|---|"]
    for heading, commands in COMMAND_GROUPS.items():
        rows.append(f"| **{heading}** | |")
        rows += [
            f"| [`{name}`](#elmo-{name}) | {text} |" for name, text in commands.items()
        ]
    return "\n".join(rows) + "\n"


def _section(name: str, example: str) -> str:
    """Return the section of a command: usage, an example, description, options."""
    command = find_command(name)
    usage = _usage(command, f"elmo {name}")
    summary, *rest = list(_paragraphs(command.help or ""))
    shown = ["Example with its output:", example] if example else []
    parts = [f"## elmo {name}", summary, usage, *shown, *rest]
    return _options_section("\n\n".join(parts), command, f"elmo {name}")


def _usage(command: click.Command, name: str) -> str:
    pieces = command.collect_usage_pieces(click.Context(command, info_name=name))
    return f"```text\n{' '.join([name, *pieces])}\n```"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text in Markdown. Those with \\b keep their lines."""
    for paragraph in re.split(r"\n\s*\n", cleandoc(text)):
        lines = cleandoc(paragraph).splitlines()
        if lines[0].strip() != "\b":
            yield _prose(" ".join(line.strip() for line in lines))
            continue
        block = cleandoc("\n".join(lines[1:]))
        if block.startswith("$ "):
            block = "\n".join(line.removeprefix("$ ") for line in block.splitlines())
            yield f"```sh\n{block}\n```"
        else:
            yield f"```text\n{block}\n```"


def _options_section(beginning: str, command: click.Command, name: str) -> str:
    """Return a section that ends with the options of a command, a table per heading."""
    parts = [beginning]
    ctx = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    groups: dict[str, list[str]] = {}
    for option in command.get_params(ctx):
        record = option.get_help_record(ctx)
        if record is not None and isinstance(option, click.Option):
            heading = getattr(option, "heading", "Other options")
            groups.setdefault(heading, []).append(_row(name, option, *record))
    if "Other options" in groups:
        groups["Other options"] = groups.pop("Other options")
    for heading, rows in groups.items():
        parts.append("\n".join([f"| {heading} | description |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _row(command: str, option: click.Option, names: str, text: str) -> str:
    """Return the row of an option. Its name is a link to itself, to be copied."""
    values = ""
    if isinstance(option.type, click.Choice) and names.endswith("]"):
        names, _, listed = names.rpartition(" [")
        values = " · ".join(f"`{value}`" for value in listed[:-1].split("|")) + ". "
    anchor = f"{command} {max(option.opts, key=_is_long).lstrip('-')}".replace(" ", "-")
    parts = re.split(r"(, | )", html.escape(names).replace("|", "&#124;"))
    shown = "".join(
        part if part in (", ", " ") else f"<code>{part}</code>" for part in parts
    )
    link = f'<a id="{anchor}" href="#{anchor}">{shown}</a>'
    return f"| {link} | {values}{_prose(text)} |"


def _is_long(name: str) -> bool:
    return name.startswith("--")


def _prose(text: str) -> str:
    """Return text in Markdown: nothing but backticks, options and defaults has a form."""
    text, *notes = NOTE.split(text)
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [OPTION.sub(r"`\1`", _escaped(part)) for part in parts[::2]]
    if not notes:
        return "".join(parts)
    note = _escaped(
        "; ".join(notes[::2]).replace("x>=", "at least ").replace("x>", "above ")
    )
    note = OPTION.sub(r"`\1`", note[0].upper() + note[1:])
    return f"{''.join(parts)} *{note}.*"


def _escaped(text: str) -> str:
    text = re.sub(r"([*\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", text)
    return text.replace("|", "&#124;").replace("<", "&lt;")


def run_examples() -> str:
    """Return the examples with what they print now."""
    with TemporaryDirectory() as folder:
        copytree(DOCS.parent / "examples", Path(folder, "examples"))
        beginning = (
            f'set -e -o pipefail; elmo() {{ "{sys.executable}" -m elmo_cli "$@"; }}\n'
        )
        beginning += f'python() {{ "{sys.executable}" "$@"; }}\n'

        def run(match: re.Match[str]) -> str:
            if match["comment"]:
                return match[0]
            shell = ["bash", "-c", beginning + match["code"]]
            printed = subprocess.run(
                shell, cwd=folder, check=True, stdout=subprocess.PIPE, encoding="utf-8"
            ).stdout
            shown = f"\n```text\n{printed}```\n" if printed else ""
            return f"```sh\n{match['code']}```\n{shown}"

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
