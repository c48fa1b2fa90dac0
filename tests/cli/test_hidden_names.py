"""Names and options that no help shows, so that it is short. They work all the same."""

import re
from pathlib import Path

import click
import pytest

from elmo_cli.cli.command_list import COMMANDS, find_command
from tests.support.commands import TINY, elmo

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"

SHOWN = {
    "--all": {"models"},
    "--average": set(),
    "--batch-size": {"train"},
    "--delimiter": set(),
    "--file-friendly-logging": set(),
    "--forget-sentences": set(),
    "--gamma": set(),
    "--json": {"distribute", "info", "models", "train"},
    "--options-file": {"embed", "train"},
    "--no-header": set(),
    "--quotes": set(),
    "--softmax-file": set(),
    "--top": {"neighbours", "predict"},
    "--use-sentence-keys": set(),
    "--vocabulary-file": {"convert", "embed", "train"},
    "--weight-file": {"embed"},
}
"""Commands whose help shows an option that others hide."""
HAS_A_DEVICE = "every command with [`--device`](#option-device)"
EVERY_COMMAND = {
    "--cuda": HAS_A_DEVICE,
    "--cuda-device": HAS_A_DEVICE,
}
"""What the page calls the commands that hide an option, if it does not list them."""


def options_of(command: str, *, hidden: bool) -> set[str]:
    """Return the names of a command's options that its help shows, or hides."""
    names: set[str] = set()
    for parameter in find_command(command).params:
        if isinstance(parameter, click.Option) and parameter.hidden == hidden:
            names.update(parameter.opts)
    return names


@pytest.mark.parametrize("option", SHOWN)
def test_a_rare_option_is_shown_where_it_is_needed(option: str) -> None:
    shown = {
        command for command in COMMANDS if option in options_of(command, hidden=False)
    }
    assert shown == SHOWN[option]
    for command in COMMANDS:
        has_row = re.search(
            rf"^ +(-\w, )?{option} ", elmo("help", command).stdout, re.M
        )
        assert bool(has_row) == (command in shown)


def test_the_page_lists_every_hidden_option() -> None:
    _, _, listed = PAGE.read_text(encoding="utf-8").partition(
        "<!-- made: hidden options -->"
    )
    for command in COMMANDS:
        for name in options_of(command, hidden=True):
            rows = re.findall(rf"^\| `{name}[ `].*$", listed, re.MULTILINE)
            everywhere = f"| {EVERY_COMMAND.get(name, command)} |"
            assert any(f"`{command}`" in row or everywhere in row for row in rows), name


@pytest.mark.parametrize(
    ("topic", "names"),
    [
        ("formats", ["--delimiter", "--quotes", "--no-header"]),
        ("layers", ["--mix", "--gamma"]),
    ],
)
def test_a_topic_explains_what_helps_leave_out(topic: str, names: list[str]) -> None:
    page = elmo("help", topic).stdout
    for name in names:
        assert f"{name} " in page.replace(",", " ")
    assert f"`elmo help {topic}`" in " ".join(elmo("help", "embed").stdout.split())


@pytest.mark.usefixtures("folder")
def test_cosine_reads_a_table_with_its_delimiter_and_quotes() -> None:
    Path("pairs.csv").write_text('word:sentence1:sentence2\nbank:a "bank:bank\n')
    options = ["--delimiter", ":", "--quotes", "none", "-m", str(TINY), "-q"]
    result = elmo("cosine", "--pairs", "pairs.csv", *options)
    assert result.exit_code == 0
    assert '\tbank\t"a ""bank"\tbank\n' in result.stdout


@pytest.mark.usefixtures("folder")
def test_gamma_scales_a_mix() -> None:
    Path("text.txt").write_text("the cat\n")
    arguments = ["embed", "text.txt", "-", "--format", "jsonl", "-m", str(TINY), "-q"]
    one = elmo(*arguments, "--mix", "0,0,0").stdout
    double = elmo(*arguments, "--mix", "0,0,0", "--gamma", "2").stdout
    first = float(re.findall(r"-?\d\.\d+", one)[0])
    assert float(re.findall(r"-?\d\.\d+", double)[0]) == pytest.approx(2 * first)


# Another spelling of a command


@pytest.mark.usefixtures("folder")
def test_neighbours_is_also_spelled_neighbors() -> None:
    Path("text.txt").write_text("The cat sat .\nA cat ran .\n")
    assert elmo("embed", "text.txt", "v.hdf5", "-m", str(TINY)).exit_code == 0
    query = ["cat", "The cat slept .", "v.hdf5"]
    assert elmo("neighbors", *query).stdout == elmo("neighbours", *query).stdout != ""
    assert elmo("neighbors", "--help").stdout.startswith("Usage: elmo neighbours ")
    assert elmo("help", "neighbors").exit_code == 0
    assert " neighbors " not in elmo("--help").stdout
