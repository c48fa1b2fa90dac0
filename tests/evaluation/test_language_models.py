"""Language models: n-gram models to compare with, initial states, and minimal pairs."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from elmo_cli import LanguageModel
from evaluation import kneser_ney, minimal_pairs, start_states
from evaluation.minimal_pairs import Pair

VOCABULARY = {"<S>", "</S>", "<UNK>", "the", "cat", "<s>"}


def test_unknown_words_are_one_word_to_kenlm() -> None:
    sentences = [["the", "cat", "sat"], ["<s>", "the"], [], ["the", "cat", "ate"]] * 2
    lines = ["the cat @unknown@", "@unknown@ the", "the cat @unknown@"]
    assert list(kneser_ney.mapped_lines(sentences, VOCABULARY)) == lines * 2
    # Sentences that differ in unknown words are distinct.
    assert list(kneser_ney.mapped_lines(sentences, VOCABULARY, distinct=True)) == lines


def test_the_perplexity_counts_the_end_of_sentences() -> None:
    answers = ["a=b=5 2 -1\t@unknown@=3 1 -4\t</s>=2 2 -1\tTotal: -6 OOV: 0"]
    answers += ["c=6 2 -2\t</s>=2 2 -2\tTotal: -4 OOV: 0"]
    assert kneser_ney.perplexities(["a=b @unknown@", "c"], answers) == {
        "perplexity": pytest.approx(10 ** (10 / 5)),
        "known_words_perplexity": pytest.approx(10 ** (6 / 4)),
        "predictions": 5,
        "unknown": pytest.approx(1 / 3),
    }
    with pytest.raises(ValueError, match="expected 'a'"):
        kneser_ney.perplexities(["a"], ["b=5 2 -1\t</s>=2 2 -1\tTotal: -2 OOV: 0"])


def test_a_uniform_model_has_the_perplexity_of_its_size() -> None:
    assert start_states.in_order(2, 3) == [
        0,
        3,
        1,
        4,
        2,
        5,
    ]  # A batch holds a line per stretch.
    n_predictions = np.array([3, 5, 2, 7])
    log_p = -np.log([[10.0], [20.0]]) * n_predictions
    estimate = start_states.perplexities(log_p, n_predictions, 2)
    assert estimate.values == pytest.approx([10, 20])
    assert estimate.errors == pytest.approx([0, 0], abs=1e-9)


# Minimal pairs


class Planted(NamedTuple):
    """Result of a pair, as `minimal_pairs.Measured` describes it."""

    correct: list[float]
    n_unknown_good: int = 0
    n_unknown_bad: int = 0


PAIRS = [
    *[Pair("It is good.", "It is bad.", "agreement")] * 4,
    Pair("fine", "good", "islands"),
]
MEASURED = [
    Planted([1, 0.5, 1]),
    Planted([0, 0.5, 0]),
    Planted([1, 0.5, 1], n_unknown_bad=1),
]
MEASURED += [Planted([0.5, 0.5, 0.5]), Planted([0, 1, 1])]


def test_the_table_has_a_row_per_phenomenon() -> None:
    table = minimal_pairs.evaluate(PAIRS, MEASURED)
    assert list(table.rows)[:3] == ["all", "agreement", "islands"]
    assert table.columns[:5] == [
        "forward",
        "backward",
        "both",
        "pairs with unknown words",
        "both, all words known",
    ]
    rows = [[cell.value for cell in row if cell] for row in [*table.rows.values()][:3]]
    assert rows[0] == pytest.approx([50, 60, 70, 20, 62.5, 20])
    assert rows[1] == pytest.approx([62.5, 50, 62.5, 25, 50, 0])
    assert rows[2] == pytest.approx([0, 100, 100, 0, 100, 100])
    # A phenomenon without known words has no figure for them.
    table = minimal_pairs.evaluate(PAIRS[2:3], MEASURED[2:3])
    assert table.rows["all"][4] is None
    assert "|  | 0.0 (0.0 to 0.0) |" in table.to_markdown()


def test_pairs_are_measured_in_both_directions() -> None:
    pairs = [
        Pair("The cats sleep.", "The cats sleeps.", ""),
        Pair("The same.", "The same.", ""),
    ]
    pairs += [Pair("Odd qwzx words.", "Odd words.", "")]
    results = list(minimal_pairs.measure(LanguageModel(model="mini"), pairs))
    assert [result.correct for result in results[:2]] == [[1, 1, 1], [0.5, 0.5, 0.5]]
    assert [result.n_unknown_good > result.n_unknown_bad for result in results] == [
        0,
        0,
        1,
    ]


def test_the_first_pairs_of_each_set_are_read(tmp_path: Path) -> None:
    for name, term in (("b", "s-selection"), ("a", "island_effects")):
        line = {"sentence_bad": "x", "linguistics_term": term}
        lines = [json.dumps({**line, "sentence_good": f"{name} {k}"}) for k in range(3)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    pairs = list(minimal_pairs.read_pairs(tmp_path.iterdir(), 2))
    first = [Pair(f"a {k}", "x", "island effects") for k in (0, 1)]
    assert pairs == [
        *first,
        *(Pair(f"b {k}", "x", "argument structure") for k in (0, 1)),
    ]
    assert len(list(minimal_pairs.read_pairs(tmp_path.iterdir()))) == 6
