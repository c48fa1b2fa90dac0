"""Write docs/commands.md from the help of every command.

python docs/make_commands.py            # write the page
python docs/make_commands.py --check    # exit status 1 if the page is not up to date
"""

from pathlib import Path

import click
from click.testing import CliRunner

from elmo_cli.cli import COMMANDS, main

PAGE = Path(__file__).parent / "commands.md"
WIDTH = 90

INTRODUCTION = """\
# Commands

This page is made from `--help` by `python docs/make_commands.py`. Change the help, not the page.

Data goes to standard output, everything else to standard error. Exit status: 0 for success;
1 for a failure, also for a value that turns out to be wrong when it is used; 2 for wrong usage;
130 after Ctrl-C, 143 after SIGTERM. A pipe whose reader has gone (`| head`) ends a command quietly
with status 1.
"""


def page() -> str:
    """Return the whole page in Markdown."""
    sections = [INTRODUCTION, _section("elmo", [])]
    sections += [_section(f"elmo {name}", [name]) for name in COMMANDS]
    return "\n".join(sections)


def _section(title: str, arguments: list[str]) -> str:
    result = CliRunner().invoke(
        main,
        [*arguments, "--help"],
        prog_name="elmo",
        terminal_width=WIDTH,
        catch_exceptions=False,
    )
    return f"## {title}\n\n```text\n{result.output.rstrip()}\n```\n"


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if the page would change.")
def make(check: bool) -> None:
    """Write docs/commands.md from the help of every command."""
    text = page()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        raise click.ClickException(
            f"{PAGE.name} is not up to date; run `python docs/make_commands.py`"
        )


if __name__ == "__main__":
    make()
