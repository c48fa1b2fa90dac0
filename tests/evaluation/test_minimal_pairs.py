"""Minimal pairs: planted probabilities give the accuracies that were planted."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import minimal_pairs
import numpy as np
import pytest
from minimal_pairs import Pair
from numpy.typing import NDArray


class PlantedScore(NamedTuple):
    known: NDArray[np.bool_]
    forward: NDArray[np.float64]
    backward: NDArray[np.float64]


class PlantedScorer:
    """Forward likes the word `good`, backward `fine` much more. `odd` is unknown."""

    def score(self, sentences: Iterable[list[str]], /) -> Iterator[PlantedScore]:
        for tokens in sentences:
            forward = [float(token == "good") for token in tokens]
            backward = [3.0 * (token == "fine") for token in tokens]
            known = [token != "odd" for token in tokens]
            yield PlantedScore(np.array(known), np.array(forward), np.array(backward))


PAIRS = [
    Pair("It is good.", "It is bad.", "agreement"),
    Pair("It is bad.", "It is good.", "agreement"),
    Pair("good odd", "bad odd", "agreement"),
    Pair("It is bad.", "It is bad.", "agreement"),
    Pair("fine", "good", "islands"),
]


def test_each_direction_is_scored() -> None:
    right, known = minimal_pairs.score_pairs(PlantedScorer(), PAIRS)
    assert right.tolist() == [
        [1, 0.5, 1],
        [0, 0.5, 0],
        [1, 0.5, 1],
        [0.5, 0.5, 0.5],
        [0, 1, 1],
    ]
    assert known.tolist() == [True, True, False, True, True]


def test_the_table_has_a_row_per_phenomenon() -> None:
    table = minimal_pairs.evaluate(PlantedScorer(), PAIRS)
    assert list(table.rows)[:3] == ["all", "agreement", "islands"]
    rows = {
        row: [cell.value for cell in cells if cell]
        for row, cells in table.rows.items()
        if not row.startswith("published")
    }
    assert table.columns[:5] == [
        *("forward", "backward", "both", "pairs with unknown words", "both, all words known")
    ]
    assert rows["all"] == pytest.approx([50, 60, 70, 20, 62.5, 20])
    assert rows["agreement"] == pytest.approx([62.5, 50, 62.5, 25, 50, 0])
    assert rows["islands"] == pytest.approx([0, 100, 100, 0, 100, 100])


def test_a_phenomenon_without_known_words_has_no_figure() -> None:
    table = minimal_pairs.evaluate(PlantedScorer(), PAIRS[2:3])
    assert table.rows["all"][4] is None
    assert "|  | 0.0 (0.0 to 0.0) |" in table.to_markdown()


def test_the_first_pairs_of_each_set_are_read(tmp_path: Path) -> None:
    for name, term in (("b", "s-selection"), ("a", "island_effects")):
        lines = [
            {"sentence_good": f"{name} {k}", "sentence_bad": "x", "linguistics_term": term}
            for k in range(3)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    pairs = list(minimal_pairs.read_pairs(tmp_path.iterdir(), 2))
    assert [pair.good for pair in pairs] == ["a 0", "a 1", "b 0", "b 1"]
    assert [pairs[0].phenomenon, pairs[2].phenomenon] == ["island effects", "argument structure"]
    assert len(list(minimal_pairs.read_pairs(tmp_path.iterdir()))) == 6
