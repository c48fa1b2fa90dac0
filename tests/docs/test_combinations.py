"""The tables of combinations on the pages of commands say what the program refuses.

Each command reads a table with one option, and with two. The model is never loaded.
"""

import re
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import pytest

from elmo_cli.cli.command_list import find_command
from elmo_cli.cli.option_conditions import Option
from elmo_cli.cli.parameter_types import NameChoice
from elmo_cli.errors.exceptions import ElmoError
from tests.support.commands import ROOT, elmo

TABLE = "id,text,good,bad,kind\n1,the cat,a cat,cat a,x\n2,a cat,the cat,cat the,y\n"
ARGUMENTS = {
    "embed": "table.csv out.parquet",
    "occurrences": "table.csv out.parquet --words words.txt",
    "perplexity": "table.csv",
    "surprisal": "table.csv",
    "predict": "table.csv",
    "word-vectors": "table.csv out.vec",
}
VALUES = {
    "--layers": "1",
    "--mix": "0,1,2",
    "--compression": "gzip",
    "--keep-columns": "kind",
    "--tokenizer": "whitespace",
    "--language": "fr",
    "--input-format": "csv",
    "--text-column": "text",
    "--id-column": "id",
    "--word-column": "text",
    "--shard": "1/2",
    "--at-most": "9",
    "--regions": "text",
    "--pair-columns": "good,bad",
    "--group-by": "kind",
    "--frequencies": "words.txt",
    "--plot": "out.svg",
}
"""Values of options. Others have the last of their choices, or are the number 3."""
NOT_TRIED = {"--words", "--model", "--options-file", "--weight-file"}
NOT_TRIED |= {"--vocabulary-file", "--device", "--split-sentences"}
"""Options of models, one that is required, and one that needs another package."""


class Row(NamedTuple):
    """Options in the cells of a row."""

    options: list[str]
    required: list[str]
    excluded: list[str]
    has_requirement: bool
    is_plain: bool
    """True if it names options that exclude others, without further words."""


def rows_of(command: str) -> Iterator[Row]:
    """Yield the rows of the table of a command, and those of all commands."""
    for path in (f"docs/commands/{command}.md", "docs/commands.md"):
        text = (ROOT / path).read_text(encoding="utf-8")
        _, _, section = text.partition("# Combinations")
        for line in section.partition("\n#")[0].splitlines():
            if line.startswith("| ") and not line.startswith("| option"):
                _, *cells, _ = line.split("|")
                options, required, excluded = (
                    re.findall(r"`(--[\w-]+)", cell) for cell in cells
                )
                other_words = re.sub("`[^`]*`", "", cells[0] + cells[2]).strip(" ,")
                yield Row(
                    options,
                    required,
                    excluded,
                    has_requirement=bool(cells[1].strip()),
                    is_plain=not other_words,
                )


def tried_options(command: str) -> dict[str, list[str]]:
    """Return each option that the help shows, with its value."""
    tried = {}
    for option in find_command(command).params:
        if not isinstance(option, Option) or option.hidden:
            continue
        name = next(name for name in option.opts if name.startswith("--"))
        value = VALUES.get(name, "3")
        if name not in VALUES and isinstance(option.type, NameChoice):
            value = option.type.choices[-1]
        if name not in NOT_TRIED:
            tried[name] = [name] if option.is_flag else [name, value]
    return tried


@pytest.mark.parametrize("command", ARGUMENTS)
def test_tables_say_which_options_are_refused(
    command: str, folder: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_engine(*_: object) -> None:
        raise ElmoError("all options are accepted")

    monkeypatch.setattr("elmo_cli.engine.load_engine", load_engine)
    (folder / "table.csv").write_text(TABLE)
    (folder / "words.txt").write_text("cat 3\n")
    start = [command, *ARGUMENTS[command].split(), "--model", str(model_folder)]
    tried = tried_options(command)
    rows = list(rows_of(command))

    def is_refused(*names: str) -> bool:
        options = [each for name in names for each in tried[name]]
        return elmo(*start, *options).exit_code == 2

    refused = {name for name in tried if is_refused(name)}
    requiring = {name for row in rows if row.has_requirement for name in row.options}
    assert refused <= requiring
    for pair in combinations(sorted(tried.keys() - refused), 2):
        told = [
            row
            for row in rows
            if {*pair} <= {*row.options, *row.required, *row.excluded}
        ]
        if is_refused(*pair):
            assert told, f"{pair}: refused, but in no row"
    for row in rows:
        for pair in product(row.options, row.excluded):
            if row.is_plain and tried.keys() >= {*pair}:
                assert is_refused(*pair), f"{pair}: in a row, but accepted"
