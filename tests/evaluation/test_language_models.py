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
    sentences = [
        ["the", "cat", "sat"],
        ["<s>", "the"],
        [],
        ["the", "cat", "ate"],
    ]
    expected = ["the cat @unknown@", "@unknown@ the", "the cat @unknown@"]
    lines = kneser_ney.mapped_lines(sentences * 2, VOCABULARY)
    assert list(lines) == expected * 2
    # Sentences that differ in unknown words are distinct.
    lines = kneser_ney.mapped_lines(sentences * 2, VOCABULARY, distinct=True)
    assert list(lines) == expected


def test_the_perplexity_counts_the_end_of_sentences() -> None:
    lines = ["a=b @unknown@", "c"]
    answers = [
        "a=b=5 2 -1\t@unknown@=3 1 -4\t</s>=2 2 -1\tTotal: -6 OOV: 0",
        "c=6 2 -2\t</s>=2 2 -2\tTotal: -4 OOV: 0",
    ]
    assert kneser_ney.perplexities(lines, answers) == {
        "perplexity": pytest.approx(10 ** (10 / 5)),
        "known_words_perplexity": pytest.approx(10 ** (6 / 4)),
        "predictions": 5,
        "unknown": pytest.approx(1 / 3),
    }
    with pytest.raises(ValueError, match="expected 'a'"):
        kneser_ney.perplexities(["a"], ["b=5 2 -1\t</s>=2 2 -1\tTotal: -2 OOV: 0"])


def test_a_uniform_model_has_the_perplexity_of_its_size() -> None:
    n_predictions = np.array([3, 5, 2, 7])
    log_p = np.stack([-np.log(10) * n_predictions, -np.log(20) * n_predictions])
    estimate = start_states.perplexities(log_p, n_predictions, 2)
    assert estimate.values == pytest.approx([10, 20])
    assert estimate.errors == pytest.approx([0, 0], abs=1e-9)


def test_a_batch_holds_a_line_of_each_stretch() -> None:
    assert start_states.in_order(2, 3) == [0, 3, 1, 4, 2, 5]


# Minimal pairs


class Planted(NamedTuple):
    """Result of a pair, as `minimal_pairs.Measured` describes it."""

    correct: list[float]
    n_unknown_good: int = 0
    n_unknown_bad: int = 0


AGREEMENT = Pair("It is good.", "It is bad.", "agreement")
ISLANDS = Pair("fine", "good", "islands")
PAIRS = [AGREEMENT, AGREEMENT, AGREEMENT, AGREEMENT, ISLANDS]
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
        "forward",
        "backward",
        "both",
        "pairs with unknown words",
        "both, all words known",
    ]
    for name, expected in (
        ("all", [50, 60, 70, 20, 62.5, 20]),
        ("agreement", [62.5, 50, 62.5, 25, 50, 0]),
        ("islands", [0, 100, 100, 0, 100, 100]),
    ):
        figures = [cell.value for cell in table.rows[name] if cell]
        assert figures == pytest.approx(expected)


def test_a_phenomenon_without_known_words_has_no_figure_for_them() -> None:
    measured = Planted([1, 0.5, 1], n_unknown_bad=1)
    table = minimal_pairs.evaluate([AGREEMENT], [measured])
    assert table.rows["all"][4] is None
    assert "|  | 0.0 (0.0 to 0.0) |" in table.to_markdown()


def test_pairs_are_measured_in_both_directions() -> None:
    pairs = [
        Pair("The cats sleep.", "The cats sleeps.", ""),
        Pair("The same.", "The same.", ""),
        Pair("Odd qwzx words.", "Odd words.", ""),
    ]
    model = LanguageModel(model="mini")
    sleep, same, odd = minimal_pairs.measure(model, pairs)
    assert sleep.correct == [1, 1, 1]
    assert same.correct == [0.5, 0.5, 0.5]
    assert sleep.n_unknown_good <= sleep.n_unknown_bad
    assert same.n_unknown_good <= same.n_unknown_bad
    assert odd.n_unknown_good > odd.n_unknown_bad


def test_the_first_pairs_of_each_set_are_read(tmp_path: Path) -> None:
    for name, term in (("b", "s-selection"), ("a", "island_effects")):
        lines = []
        for number in range(3):
            pair = {
                "sentence_good": f"{name} {number}",
                "sentence_bad": "x",
                "linguistics_term": term,
            }
            lines.append(json.dumps(pair))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    pairs = minimal_pairs.read_pairs(tmp_path.iterdir(), 2)
    assert list(pairs) == [
        Pair("a 0", "x", "island effects"),
        Pair("a 1", "x", "island effects"),
        Pair("b 0", "x", "argument structure"),
        Pair("b 1", "x", "argument structure"),
    ]
    all_pairs = minimal_pairs.read_pairs(tmp_path.iterdir())
    assert len(list(all_pairs)) == 6
