"""Windows to batches: every step once, and the same batches from any position."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training.corpus import (
    Piece,
    Position,
    Row,
    TrainingText,
    blocks,
    make_batch,
    n_steps,
    n_tokens,
    portions,
)
from elmo_cli.training.options import TrainingOptions

VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
ZERO = TrainingOptions(state="zero", batch_tokens=9, max_length=5)
CARRY = TrainingOptions(state="carry", batch_size=3, unroll=4)


@pytest.fixture
def text(tmp_path: Path) -> TrainingText:
    lines = ["a b c", "b", "c c c c c c c", "a a", "", "c b a b", "b b"]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return TrainingText((tmp_path / "text.txt",))


def one_pass(text: TrainingText, options: TrainingOptions) -> Iterator[list[Row]]:
    for rows, position in portions(text, options, Position()):
        yield rows
        if position.epoch:
            return


def read(row: Row) -> list[str]:
    """What the forward direction reads in a row."""
    return [
        token for sentence, start, stop in row for token in ["<S>", *sentence, "</S>"][start:stop]
    ]


# A batch.


def test_a_batch_is_what_each_direction_reads_and_predicts() -> None:
    sentence = ["a", "b", "x"]
    batch = make_batch([[Piece(sentence, 0, 4)], [Piece(["c"], 1, 2)]], VOCABULARY)
    words = [[batch.tokens[index] for index in row] for row in batch.steps[:, 0]]
    assert words == [
        ["<S>", "a", "b", "x"],
        ["a", "b", "x", "</S>"],
        ["</S>", "x", "b", "a"],
        ["x", "b", "a", "<S>"],
    ]
    assert [batch.tokens[index] for index in batch.steps[:, 1, 0]] == ["c", "</S>", "c", "<S>"]
    assert batch.lengths.tolist() == [4, 1]
    assert [VOCABULARY.words[index] for index in batch.words] == [
        *("<S>", "</S>", "a", "b", "<UNK>", "c")
    ]


def test_pieces_of_a_stream_follow_one_another_in_a_row() -> None:
    batch = make_batch([[Piece(["a", "b"], 1, 3), Piece(["c"], 0, 2)]], VOCABULARY)
    words = [[batch.tokens[index] for index in row] for row in batch.steps[:, 0]]
    assert words == [
        ["a", "b", "<S>", "c"],
        ["b", "</S>", "c", "</S>"],
        ["b", "a", "</S>", "c"],
        ["a", "<S>", "c", "<S>"],
    ]


def test_boundaries_are_steps_but_no_tokens() -> None:
    rows = [[Piece(["a", "b"], 1, 3), Piece(["c"], 0, 2)], [Piece(["c"], 0, 1)]]
    assert (n_steps(rows), n_tokens(rows)) == (5, 3)


# The zero state.


def test_a_pass_of_small_batches_has_every_step_once(text: TrainingText) -> None:
    batches = list(one_pass(text, ZERO))
    assert all(n_steps(rows) <= 9 for rows in batches)
    found = [piece for rows in batches for row in rows for piece in row]
    steps = Counter(
        (" ".join(sentence), step) for sentence, start, stop in found for step in range(start, stop)
    )
    expected = ["a b c", "b", "c c c c c c c", "a a", "c b a b", "b b"]
    assert steps == {(s, n): 1 for s in expected for n in range(len(s.split()) + 1)}


# The carried state.


def as_bilm_tf(sentences: Iterator[list[str]], n_streams: int, unroll: int) -> Iterator[list[str]]:
    """The words that each stream reads in each block, as bilm-tf's loader deals them out."""
    left: list[list[str]] = [[] for _ in range(n_streams)]
    while True:
        for number in range(n_streams):
            block: list[str] = []
            while len(block) < unroll:
                if len(left[number]) <= 1:  # the last one is only predicted
                    left[number] = ["<S>", *next(sentences), "</S>"]
                n = min(len(left[number]) - 1, unroll - len(block))
                block += left[number][:n]
                left[number] = left[number][n:]
            yield block


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), min_size=40, max_size=40),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_blocks_are_dealt_out_as_bilm_tf_does(
    sentences: list[list[str]], n_streams: int, unroll: int
) -> None:
    expected = as_bilm_tf(iter(sentences), n_streams, unroll)
    options = TrainingOptions(state="carry", batch_size=n_streams, unroll=unroll)
    taken = ((sentence, Position()) for sentence in sentences)
    for rows, _ in islice(blocks(taken, options, Position()), 3):
        assert [read(row) for row in rows] == list(islice(expected, n_streams))


# Going on.


@pytest.mark.parametrize("options", [ZERO, CARRY], ids=lambda options: options.state)
def test_batches_go_on_from_any_position_over_several_passes(
    text: TrainingText, options: TrainingOptions
) -> None:
    whole = list(islice(portions(text, options, Position()), 40))
    for number, (_, position) in enumerate(whole[:30], start=1):
        assert list(islice(portions(text, options, position), 8)) == whole[number : number + 8]
    assert whole[-1][1].epoch > 1
