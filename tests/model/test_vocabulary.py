"""Words and their numbers, and the character ids of tokens."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import reference
from hypothesis import example, given
from strategies import batches, odd_tokens

from elmo_cli import batch_to_ids
from elmo_cli.errors import InputError
from elmo_cli.model.vocabulary import Vocabulary, character_ids, read_vocabulary, read_words

WORDS = ["<S>", "</S>", "<UNK>", "the", "東京", "naïve"]


def test_words_have_line_numbers_and_unknown_words_unks() -> None:
    vocabulary = Vocabulary(WORDS)
    ids = vocabulary.indices(["naïve", "The", "<S>", "東京", "", "</S>"])
    assert ids.tolist() == [5, 2, 0, 4, 2, 1]


def test_files_of_other_editors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    for content in (
        "<S>\n</S>\n<UNK>\nthe",
        "<S>\r\n</S>\r\n<UNK>\r\nthe\r\n",
        "\ufeff<S>\n</S>\n<UNK>\nthe\n",
        "<S>\n</S>\n<UNK>\nthe\n\n",
        "<S>\n</S>\n!!!MAXTERMID\n<UNK>\nthe\n",
        "<S>\n</S>\n<UNK>\nthe\n!!!MAXTERMID",
    ):
        path.write_bytes(content.encode())
        assert read_vocabulary(path).words == ["<S>", "</S>", "<UNK>", "the"]


def test_a_vocabulary_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt.gz"
    path.write_bytes(gzip.compress("\n".join(WORDS).encode()))
    assert read_vocabulary(path).words == WORDS


def test_all_special_words_that_are_missing_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    with pytest.raises(InputError, match=f"^{path}: no such file"):
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


def test_words_that_do_not_fit_on_a_line_are_recognized(tmp_path: Path) -> None:
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


@given(token=odd_tokens)
@example("")
@example("</S>")
@example("x" * 49)
def test_every_token_has_the_row_of_the_reference(token: str) -> None:
    expected = [1 + i for i in reference.character_row(token)]
    assert character_ids([token])[0].tolist() == expected


def test_a_lone_surrogate_is_skipped() -> None:
    np.testing.assert_array_equal(character_ids(["a\ud800b"]), character_ids(["ab"]))


def test_rows_have_the_given_length() -> None:
    assert character_ids(["abcdef"], max_characters=5).tolist() == [[259, 98, 99, 100, 260]]


@given(batch=batches())
def test_a_batch_pads_each_sentence_with_zeros(batch: list[list[str]]) -> None:
    ids = batch_to_ids(batch)
    assert ids.shape == (len(batch), max(map(len, batch)), 50)
    for row, sentence in zip(ids, batch, strict=True):
        np.testing.assert_array_equal(row[: len(sentence)], character_ids(sentence))
        assert not row[len(sentence) :].any()


def test_no_sentences_and_no_tokens_have_no_rows() -> None:
    assert character_ids([]).shape == (0, 50)
    assert batch_to_ids([]).shape == (0, 0, 50)
