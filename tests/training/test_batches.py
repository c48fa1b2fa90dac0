"""Windows to batches: each prediction once, and equal batches after a resume."""

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
    TextProgress,
    TrainingText,
    count_predictions,
    count_tokens,
    make_batch,
    read_batches,
    split_into_blocks,
)
from elmo_cli.training.training_options import TrainingOptions

VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
ZERO = TrainingOptions(state="zero", batch_tokens=9, max_length=5)
CARRY = TrainingOptions(state="carry", batch_size=3, unroll=4)


@pytest.fixture
def text(tmp_path: Path) -> TrainingText:
    lines = ["a b c", "b", "c c c c c c c", "a a", "", "c b a b", "b b"]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return TrainingText((tmp_path / "text.txt",))


def test_batch_has_tokens_read_and_predicted() -> None:
    rows = [[Piece(["a", "b", "x"], 0, 4)], [Piece(["a", "b"], 1, 3), Piece(["c"], 0, 1)]]
    batch = make_batch(rows, VOCABULARY)
    words = [
        [" ".join(batch.tokens[i] for i in steps[:length]) for steps in batch.steps[:, row]]
        for row, length in enumerate(batch.lengths)
    ]
    # Read and predicted by the forward direction, then by the backward direction.
    assert words == [
        ["<S> a b x", "a b x </S>", "</S> x b a", "x b a <S>"],
        ["a b <S>", "b </S> c", "b a </S>", "a <S> c"],
    ]
    predicted = [VOCABULARY.words[index] for index in batch.words]
    assert predicted == ["<S>", "</S>", "a", "b", "<UNK>", "c"]
    assert (count_predictions(rows), count_tokens(rows)) == (7, 5)


def test_pass_has_every_prediction_once(text: TrainingText) -> None:
    steps: Counter[tuple[str, int]] = Counter()
    for rows, progress in read_batches(text, ZERO, TextProgress()):
        assert count_predictions(rows) <= 9
        for sentence, start, stop in (piece for row in rows for piece in row):
            steps.update((" ".join(sentence), step) for step in range(start, stop))
        if progress.epoch:
            break
    expected = ["a b c", "b", "c c c c c c c", "a a", "c b a b", "b b"]
    assert steps == {(s, n): 1 for s in expected for n in range(len(s.split()) + 1)}


def as_bilm_tf(sentences: Iterator[list[str]], n_streams: int, unroll: int) -> Iterator[list[str]]:
    """Yield the words that each stream reads in each block, as in bilm-tf's loader."""
    left: list[list[str]] = [[] for _ in range(n_streams)]
    while True:
        for number in range(n_streams):
            block: list[str] = []
            while len(block) < unroll:
                if len(left[number]) <= 1:  # The last token is only predicted.
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
def test_blocks_equal_bilm_tfs(sentences: list[list[str]], n_streams: int, unroll: int) -> None:
    expected = as_bilm_tf(iter(sentences), n_streams, unroll)
    options = TrainingOptions(state="carry", batch_size=n_streams, unroll=unroll)
    taken = ((sentence, TextProgress()) for sentence in sentences)
    for rows, _ in islice(split_into_blocks(taken, options, TextProgress()), 3):
        read = [
            [token for words, a, b in row for token in ["<S>", *words, "</S>"][a:b]] for row in rows
        ]
        assert read == list(islice(expected, n_streams))


@pytest.mark.parametrize("options", [ZERO, CARRY], ids=lambda options: options.state)
def test_batches_resume_from_any_progress(text: TrainingText, options: TrainingOptions) -> None:
    whole = list(islice(read_batches(text, options, TextProgress()), 40))
    for number, (_, progress) in enumerate(whole[:30], start=1):
        assert list(islice(read_batches(text, options, progress), 8)) == whole[number : number + 8]
    assert whole[-1][1].epoch > 1
