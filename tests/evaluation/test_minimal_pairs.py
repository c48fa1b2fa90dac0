"""Minimal pairs: planted answers give the accuracies that were planted."""

import json
from pathlib import Path
from typing import NamedTuple

import minimal_pairs
import pytest
from minimal_pairs import Pair

from elmo_cli import LanguageModel


class Planted(NamedTuple):
    """Result of a pair; see `minimal_pairs.Measured`."""

    correct: list[float]
    n_unknown_good: int = 0
    n_unknown_bad: int = 0


PAIRS = [*[Pair("It is good.", "It is bad.", "agreement")] * 4, Pair("fine", "good", "islands")]
MEASURED = [
    Planted([1, 0.5, 1]),
    Planted([0, 0.5, 0]),
    Planted([1, 0.5, 1], n_unknown_bad=1),
    Planted([0.5, 0.5, 0.5]),
    Planted([0, 1, 1]),
]


def test_the_table_has_a_row_per_phenomenon() -> None:
    table = minimal_pairs.evaluate(PAIRS, MEASURED)
    assert list(table.rows)[:3] == ["all", "agreement", "islands"]
    assert table.columns[:5] == [
        *("forward", "backward", "both", "pairs with unknown words", "both, all words known")
    ]
    for row, expected in (
        ("all", [50, 60, 70, 20, 62.5, 20]),
        ("agreement", [62.5, 50, 62.5, 25, 50, 0]),
        ("islands", [0, 100, 100, 0, 100, 100]),
    ):
        assert [cell.value for cell in table.rows[row] if cell] == pytest.approx(expected)
    # A phenomenon without known words has no figure for them.
    table = minimal_pairs.evaluate(PAIRS[2:3], MEASURED[2:3])
    assert table.rows["all"][4] is None
    assert "|  | 0.0 (0.0 to 0.0) |" in table.to_markdown()


def test_pairs_are_measured_in_both_directions() -> None:
    pairs = [
        Pair("The cats sleep.", "The cats sleeps.", "agreement"),
        Pair("Same words.", "Same words.", "agreement"),
        Pair("Odd qwzx words.", "Odd words.", "agreement"),
    ]
    results = list(minimal_pairs.measure(LanguageModel(model="mini"), pairs))
    assert [result.correct for result in results[:2]] == [[1, 1, 1], [0.5, 0.5, 0.5]]
    assert [result.n_unknown_good > result.n_unknown_bad for result in results] == [0, 0, 1]


def test_the_first_pairs_of_each_set_are_read(tmp_path: Path) -> None:
    for name, term in (("b", "s-selection"), ("a", "island_effects")):
        line = {"sentence_bad": "x", "linguistics_term": term}
        lines = [json.dumps({**line, "sentence_good": f"{name} {k}"}) for k in range(3)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    pairs = list(minimal_pairs.read_pairs(tmp_path.iterdir(), 2))
    assert pairs == [
        Pair(f"{name} {k}", "x", phenomenon)
        for name, phenomenon in (("a", "island effects"), ("b", "argument structure"))
        for k in (0, 1)
    ]
    assert len(list(minimal_pairs.read_pairs(tmp_path.iterdir()))) == 6
