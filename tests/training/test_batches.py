"""Files to windows and batches, each prediction once, resumable anywhere."""

import gzip
import itertools
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmo_cli.errors.exceptions import InputError
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.training.batches import (
    Piece,
    count_predictions,
    count_tokens,
    make_batch,
    read_batches,
    split_into_blocks,
)
from elmo_cli.training.find_text_files import find_text_files
from elmo_cli.training.text_counts import count_text
from elmo_cli.training.training_settings import TrainingSettings
from elmo_cli.training.training_text import TextProgress, TrainingText


def write_files(
    folder: Path, texts: list[str], *, compressed: bool = False
) -> tuple[Path, ...]:
    suffix = ".txt.gz" if compressed else ".txt"
    paths = []
    for index, text in enumerate(texts):
        path = folder / f"{index}{suffix}"
        content = text.encode()
        path.write_bytes(gzip.compress(content) if compressed else content)
        paths.append(path)
    return tuple(paths)


def some_windows(
    text: TrainingText, start: TextProgress, n: int, max_tokens: int = 3
) -> list[Any]:
    """Return n windows and where each ends: pairs (sentences, progress)."""
    return list(islice(text.windows(start, max_tokens), n))


line_lists = st.lists(
    st.sampled_from(["", "a b", "c", "d é f", " ", "東 g"]), max_size=6
)


@given(
    texts=st.lists(line_lists, min_size=1, max_size=3),
    compressed=st.booleans(),
    seed=st.integers(0, 3),
    max_tokens=st.integers(1, 8),
)
def test_passes_have_every_sentence_once_and_resume_anywhere(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[list[str]],
    compressed: bool,
    seed: int,
    max_tokens: int,
) -> None:
    texts[0].append("one more")  # There is at least one sentence.
    folder = tmp_path_factory.mktemp("text")
    contents = ["\n".join(lines) + "\n" for lines in texts]
    paths = write_files(folder, contents, compressed=compressed)
    text = TrainingText(paths, seed=seed)
    windows = some_windows(text, TextProgress(), 30, max_tokens)
    for number in range(1, 6):
        _, end = windows[number - 1]
        resumed = some_windows(text, end, 4, max_tokens)
        assert resumed == windows[number : number + 4]

    first_pass = []
    for sentences, end in windows:
        first_pass += sentences
        if end.epoch:
            break
    else:
        pytest.fail("the first pass does not end")
    expected = []
    for lines in texts:
        expected += [line.split() for line in lines if line.strip()]
    assert sorted(first_pass) == sorted(expected)


def test_sentences_of_a_line_stay_in_one_window(tmp_path: Path) -> None:
    pytest.importorskip("sentencex")
    tokenizer = make_tokenizer("moses", split_sentences=True)
    paths = write_files(tmp_path, ["Ab cd. He ef! Oh?\n\nFo go.\n"])
    text = TrainingText(paths, tokenizer=tokenizer)
    first, second = some_windows(text, TextProgress(), 2)
    assert first[0] == [["Ab", "cd", "."], ["He", "ef", "!"], ["Oh", "?"]]
    assert second[0] == [["Fo", "go", "."]]
    assert some_windows(text, first[1], 1) == [second]
    assert count_text(text, None).n_tokens == 11


def test_each_pass_shuffles_the_files(tmp_path: Path) -> None:
    text = TrainingText(write_files(tmp_path, [f"{n}\n" for n in range(8)]))
    passes = [sentences for sentences, _ in some_windows(text, TextProgress(), 3, 100)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(passes[2])
    assert passes[0] != passes[1] or passes[1] != passes[2]


def test_validation_lines_are_in_no_window(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(400)]
    paths = write_files(tmp_path, ["\n".join(lines * 2)])
    text = TrainingText(paths, validation_share=0.1)
    counts = count_text(text, None)
    validation = counts.validation_lines
    [(sentences, _)] = some_windows(text, TextProgress(), 1, 10_000)
    trained = {" ".join(sentence) for sentence in sentences}
    assert trained.isdisjoint(validation)
    assert trained | set(validation) == set(lines)
    assert 20 <= len(set(validation)) <= 60  # 40 expected, of 400
    assert len(validation) == 2 * len(set(validation))
    assert len(sentences) == 800 - len(validation)
    assert counts.n_tokens == 2 * len(sentences)


def test_vocabulary_has_the_most_frequent_words(tmp_path: Path) -> None:
    text = TrainingText(write_files(tmp_path, ["a b a\n\n", "b  b\tc <S>"]))
    counts = count_text(text, 5)
    assert counts.n_tokens == 7
    assert counts.words == ["<S>", "</S>", "<UNK>", "b", "a"]


def test_patterns_give_each_file_once_in_order(tmp_path: Path) -> None:
    one, two = write_files(tmp_path, ["a", "b"])
    assert find_text_files([str(tmp_path / "*.txt"), one]) == (one, two)
    brackets = tmp_path / "a[1].txt"
    brackets.write_text("x\n")
    assert find_text_files([brackets]) == (brackets,)


def test_a_pattern_without_files_is_an_error() -> None:
    message = "^missing: no such file. Name a file or a pattern of files.$"
    with pytest.raises(FileNotFoundError, match=message):
        find_text_files(["missing"])


def test_text_without_a_sentence_is_an_error(tmp_path: Path) -> None:
    text = TrainingText(write_files(tmp_path, [""]))
    with pytest.raises(InputError, match=r"0\.txt: no sentence to train on"):
        some_windows(text, TextProgress(), 1)


def test_errors_name_their_line_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "0.txt"
    path.write_bytes(b"a\nb\nc\n\xff\n")
    text = TrainingText((path,))
    after_first_line = TextProgress(offset=2, n_records=1)
    windows = text.windows(after_first_line, 1)
    assert next(windows)[0] == [["b"]]
    with pytest.raises(InputError, match=r"0\.txt, line 4, column 1: not valid UTF-8"):
        next(windows)


VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c"])
ZERO = TrainingSettings(state="zero", batch_tokens=9, max_length=5)
CARRY = TrainingSettings(state="carry", batch_size=3, unroll=4)


@pytest.fixture
def text(tmp_path: Path) -> TrainingText:
    lines = ["a b c", "b", "c c c c c c c", "a a", "", "c b a b", "b b"]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return TrainingText((tmp_path / "text.txt",))


def test_batch_has_tokens_read_and_predicted() -> None:
    rows = [
        [Piece(["a", "b", "x"], start=0, stop=4)],
        [Piece(["a", "b"], start=1, stop=3), Piece(["c"], start=0, stop=1)],
    ]
    batch = make_batch(rows, VOCABULARY)

    def words_of(steps: NDArray[np.int64]) -> list[str]:
        """Return the tokens of each row, without what fills it."""
        found = []
        for row, length in zip(steps, batch.lengths, strict=True):
            found.append(" ".join(batch.tokens[i] for i in row[:length]))
        return found

    assert words_of(batch.forward.read) == ["<S> a b x", "a b <S>"]
    assert words_of(batch.forward.predicted) == ["a b x </S>", "b </S> c"]
    assert words_of(batch.backward.read) == ["</S> x b a", "b a </S>"]
    assert words_of(batch.backward.predicted) == ["x b a <S>", "a <S> c"]
    predicted = [VOCABULARY.words[index] for index in batch.words]
    assert predicted == ["<S>", "</S>", "a", "b", "<UNK>", "c"]
    assert count_predictions(rows) == 7
    assert count_tokens(rows) == 5


def test_pass_has_every_prediction_once(text: TrainingText) -> None:
    steps: Counter[tuple[str, int]] = Counter()
    for rows, progress in read_batches(text, ZERO, TextProgress()):
        assert count_predictions(rows) <= 9
        for sentence, start, stop in itertools.chain(*rows):
            line = " ".join(sentence)
            steps.update((line, step) for step in range(start, stop))
        if progress.epoch:
            break
    expected = Counter[tuple[str, int]]()
    for line in ("a b c", "b", "c c c c c c c", "a a", "c b a b", "b b"):
        n_predictions = len(line.split()) + 1
        expected.update((line, step) for step in range(n_predictions))
    assert set(expected.values()) == {1}
    assert steps == expected


def as_bilm_tf(
    sentences: Iterator[list[str]], n_streams: int, unroll: int
) -> Iterator[list[str]]:
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


short_sentences = st.lists(st.sampled_from("abc"), min_size=1, max_size=9)


@given(
    sentences=st.lists(short_sentences, min_size=40, max_size=40),
    n_streams=st.integers(1, 4),
    unroll=st.integers(1, 6),
)
def test_blocks_match_bilm_tf(
    sentences: list[list[str]], n_streams: int, unroll: int
) -> None:
    expected = as_bilm_tf(iter(sentences), n_streams, unroll)
    settings = TrainingSettings(state="carry", batch_size=n_streams, unroll=unroll)
    taken = ((sentence, TextProgress()) for sentence in sentences)
    blocks = split_into_blocks(taken, settings, TextProgress())
    for rows, _ in islice(blocks, 3):
        for row in rows:
            read = []
            for words, start, stop in row:
                read += ["<S>", *words, "</S>"][start:stop]
            assert read == next(expected)
        assert len(rows) == n_streams


@pytest.mark.parametrize("settings", [ZERO, CARRY], ids=lambda settings: settings.state)
def test_batches_resume_from_any_progress(
    text: TrainingText, settings: TrainingSettings
) -> None:
    whole = list(islice(read_batches(text, settings, TextProgress()), 40))
    for number, (_, progress) in enumerate(whole[:30], start=1):
        resumed = list(islice(read_batches(text, settings, progress), 8))
        assert resumed == whole[number : number + 8]
    assert whole[-1][1].epoch > 1
