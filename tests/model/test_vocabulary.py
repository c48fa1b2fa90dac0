import gzip
from pathlib import Path

import pytest

from elmo_cli.errors import InputError
from elmo_cli.model.vocabulary import Vocabulary, read_vocabulary, read_words

WORDS = ["<S>", "</S>", "<UNK>", "the", "東京", "naïve"]


def test_words_have_line_numbers_and_unknown_words_unks() -> None:
    vocabulary = Vocabulary(WORDS)
    ids = vocabulary.indices(["naïve", "The", "<S>", "東京", "", "</S>"])
    assert ids.tolist() == [5, 2, 0, 4, 2, 1]


@pytest.mark.parametrize(
    "content",
    [
        "<S>\n</S>\n<UNK>\nthe",
        "<S>\r\n</S>\r\n<UNK>\r\nthe\r\n",
        "\ufeff<S>\n</S>\n<UNK>\nthe\n",
        "<S>\n</S>\n<UNK>\nthe\n\n",
        "<S>\n</S>\n!!!MAXTERMID\n<UNK>\nthe\n",
        "<S>\n</S>\n<UNK>\nthe\n!!!MAXTERMID",
    ],
    ids=["no last line end", "CR LF", "byte order mark", "blank last line", "mark", "last mark"],
)
def test_files_of_other_editors_are_read(tmp_path: Path, content: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(content.encode())
    assert read_vocabulary(path).words == ["<S>", "</S>", "<UNK>", "the"]


def test_a_vocabulary_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt.gz"
    path.write_bytes(gzip.compress("\n".join(WORDS).encode()))
    assert read_vocabulary(path).words == WORDS


def test_all_special_words_that_are_missing_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    with pytest.raises(InputError, match=f"^{path}: cannot read the vocabulary: No such file or"):
        read_vocabulary(path)
    path.write_text("the\n</S>\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=f"^{path}: the vocabulary lacks the words <S>, <UNK>. Add"
    ):
        read_vocabulary(path)


def test_a_row_is_a_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\nthe\n\ncat\n", encoding="utf-8")
    assert read_words(path) == ["", "the", "", "cat"]


def test_words_that_are_no_lines_are_known(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    words = ["the", "New York", "a\tb", "c\nd", " e", "f\u3000", "", "!!!MAXTERMID", "g\rh", "<S>"]
    lines = [word for word in words if Vocabulary.has_line_for(word)]
    assert lines == ["the", "New York", "a\tb", "g\rh"]
    path.write_bytes("".join(f"{word}\n" for word in lines).encode())
    assert read_words(path) == lines


def test_an_endless_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.text.sources.MAX_TEXT_BYTES", 1000)
    with pytest.raises(InputError, match=r"/dev/zero: cannot read the vocabulary: more than 1,000"):
        read_vocabulary("/dev/zero")
