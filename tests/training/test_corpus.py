"""Files to windows of sentences, resumable anywhere."""

import gzip
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.errors import InputError
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.training.corpus import TextProgress, TextWindow, TrainingText, find_text_files
from elmo_cli.training.start import count_text


def write_files(folder: Path, texts: list[str], *, compressed: bool = False) -> tuple[Path, ...]:
    paths = [folder / f"{n}.txt{'.gz' * compressed}" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    return tuple(paths)


def some_windows(
    text: TrainingText, start: TextProgress, n: int, max_tokens: int = 3
) -> list[TextWindow]:
    return list(islice(text.windows(start, max_tokens), n))


lines = st.lists(st.sampled_from(["", "a b", "c", "d é f", " ", "東 g"]), max_size=6)


@given(st.lists(lines, min_size=1, max_size=3), st.booleans(), st.integers(0, 3), st.integers(1, 8))
def test_passes_have_every_sentence_once_and_resume_anywhere(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[list[str]],
    compressed: bool,
    seed: int,
    max_tokens: int,
) -> None:
    texts[0].append("one more")  # There is at least one sentence.
    folder = tmp_path_factory.mktemp("text")
    paths = write_files(folder, ["\n".join(text) + "\n" for text in texts], compressed=compressed)
    text = TrainingText(paths, seed=seed)
    windows = some_windows(text, TextProgress(), 30, max_tokens)
    for number in range(1, 6):
        _, end = windows[number - 1]
        assert some_windows(text, end, 4, max_tokens) == windows[number : number + 4]
    n_windows = 1 + next(n for n, (_, end) in enumerate(windows) if end.epoch)
    first_pass = [sentence for sentences, _ in windows[:n_windows] for sentence in sentences]
    expected = [line.split() for lines in texts for line in lines if line.strip()]
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
    assert count_text(text, tmp_path, None)[0] == 11


def test_each_pass_shuffles_the_files(tmp_path: Path) -> None:
    text = TrainingText(write_files(tmp_path, [f"{n}\n" for n in range(8)]))
    passes = [sentences for sentences, _ in some_windows(text, TextProgress(), 3, 100)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(passes[2])
    assert passes[0] != passes[1] or passes[1] != passes[2]


def test_validation_lines_are_in_no_window(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(400)]
    text = TrainingText(write_files(tmp_path, ["\n".join(lines * 2)]), validation_share=0.1)
    n_tokens, _ = count_text(text, tmp_path, None)
    validation = (tmp_path / "validation.txt").read_text().splitlines()
    [(sentences, _)] = some_windows(text, TextProgress(), 1, 10_000)
    trained = {" ".join(sentence) for sentence in sentences}
    assert trained.isdisjoint(validation)
    assert trained | set(validation) == set(lines)
    assert 20 <= len(set(validation)) <= 60  # 40 expected, of 400
    assert len(validation) == 2 * len(set(validation))
    assert n_tokens == 2 * len(sentences) == 2 * (800 - len(validation))


def test_vocabulary_has_the_most_frequent_words(tmp_path: Path) -> None:
    text = TrainingText(write_files(tmp_path, ["a b a\n\n", "b  b\tc <S>"]))
    assert count_text(text, tmp_path, 5) == (7, ["<S>", "</S>", "<UNK>", "b", "a"])


def test_patterns_give_each_file_once_in_order(tmp_path: Path) -> None:
    one, two = write_files(tmp_path, ["a", "b"])
    assert find_text_files([str(tmp_path / "*.txt"), one]) == (one, two)
    (tmp_path / "a[1].txt").write_text("x\n")
    assert find_text_files([tmp_path / "a[1].txt"]) == (tmp_path / "a[1].txt",)


def test_text_without_a_sentence_is_an_error(tmp_path: Path) -> None:
    text = TrainingText(write_files(tmp_path, [""]))
    with pytest.raises(InputError, match=r"0\.txt: no sentence to train on"):
        some_windows(text, TextProgress(), 1)


def test_errors_name_their_line_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "0.txt"
    path.write_bytes(b"a\nb\nc\n\xff\n")
    text = TrainingText((path,))
    windows = text.windows(TextProgress(0, 0, 2, 1), 1)
    assert next(windows)[0] == [["b"]]
    with pytest.raises(InputError, match=r"0\.txt, line 4, column 1: not valid UTF-8"):
        next(windows)
