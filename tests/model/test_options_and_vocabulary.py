"""The architecture of a model, its vocabulary, and the character ids of tokens."""

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmo_cli import batch_to_ids
from elmo_cli.errors.exceptions import InputError, ModelError
from elmo_cli.model.architecture import CharacterArchitecture, LstmArchitecture
from elmo_cli.model.characters import character_ids
from elmo_cli.model.options_json import parse_architecture, read_architecture
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.model.vocabulary_files import read_vocabulary, read_words
from tests.support import reference
from tests.support.golden import GOLDEN
from tests.support.strategies import batches, odd_tokens, small_architecture


def replaced(name: str, value: Any) -> dict[str, Any]:
    """Return a valid architecture with the value under a dotted name replaced."""
    section, _, key = name.partition(".")
    content = small_architecture()
    content[section] = {**content[section], key: value} if key else value
    return content


def test_every_key_of_a_golden_file_is_read() -> None:
    architecture = read_architecture(GOLDEN / "tanh-clip" / "options.json")
    assert architecture.lstm == LstmArchitecture(
        24, 10, 1, 0.4, 0.25, use_skip_connections=True
    )
    assert architecture.char_cnn == CharacterArchitecture(
        5, ((1, 6), (3, 9), (7, 12)), 1, "tanh", 50
    )
    assert architecture.char_cnn.n_filters == 27
    assert architecture.n_layers == 2
    assert architecture.width == 20


@pytest.mark.parametrize("is_null", [True, False])
def test_missing_and_null_keys_have_bilm_tfs_defaults(is_null: bool) -> None:
    content = small_architecture()
    lstm = {"n_layers": 1, "use_skip_connections": False}
    char_cnn = {"n_highway": 0, "max_characters_per_token": 50}
    for section, defaults in (("lstm", lstm), ("char_cnn", char_cnn)):
        for key in defaults:
            content[section].pop(key, None)
        content[section] |= dict.fromkeys(defaults) if is_null else {}
    architecture = parse_architecture(content)
    assert architecture.char_cnn is not None
    assert vars(architecture.lstm).items() >= lstm.items()
    assert vars(architecture.char_cnn).items() >= char_cnn.items()
    assert parse_architecture({"lstm": content["lstm"]}).char_cnn is None


def test_keys_that_only_training_uses_are_ignored() -> None:
    content = {
        **small_architecture(),
        "n_epochs": 10,
        "bidirectional": True,
        "dropout": "?",
    }
    content["lstm"]["n_negative_samples_batch"] = 8192
    assert parse_architecture(content) == parse_architecture(small_architecture())


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("lstm.dim", 0, "expected a whole number, 1 to 100,000, found 0"),
        ("lstm.dim", True, "expected a whole number, 1 to 100,000, found true"),
        (
            "lstm.projection_dim",
            1.5,
            "expected a whole number, 1 to 100,000, found 1.5",
        ),
        ("lstm.n_layers", "2", 'expected a whole number, 1 to 1,000, found "2"'),
        (
            "lstm.n_layers",
            1000000,
            "expected a whole number, 1 to 1,000, found 1000000",
        ),
        ("lstm.cell_clip", -1, "expected a number, 0 to 1e+38, or null, found -1"),
        (
            "lstm.proj_clip",
            1e300,
            "expected a number, 0 to 1e+38, or null, found 1e+300",
        ),
        ("lstm.use_skip_connections", "x", 'expected true or false, found "x"'),
        (
            "char_cnn.embedding",
            {},
            'expected {"dim": a whole number, 1 to 100,000}, found {}',
        ),
        ("char_cnn.n_highway", -1, "expected a whole number, 0 to 1,000, found -1"),
        ("char_cnn.activation", "gelu", 'expected "relu" or "tanh", found "gelu"'),
        (
            "char_cnn.max_characters_per_token",
            2,
            "expected a whole number, 3 to 1,000, found 2",
        ),
        ("char_cnn.filters", [], "expected a list of [width, count] pairs, found []"),
        (
            "char_cnn.filters",
            [[1, 0]],
            "expected a list of [width, count] pairs, found [[1, 0]]",
        ),
        ("char_cnn.filters", [[60, 4], [2, 8]], "expected widths up to 50, found 60"),
        ("lstm", [], "expected an object, found []"),
        ("char_cnn", "x", 'expected an object, found "x"'),
    ],
)
def test_an_invalid_value_is_reported(name: str, value: Any, problem: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_architecture(replaced(name, value))
    assert str(caught.value) == f"the options: {name}: {problem}"


def test_all_errors_are_reported_together() -> None:
    content = replaced("lstm.dim", 0)
    del content["lstm"]["projection_dim"]
    content["char_cnn"] = {
        "embedding": {"dim": 2},
        "activation": "gelu",
        "n_highway": 1,
    }
    message = (
        "the options: lstm.dim: expected a whole number, 1 to 100,000, found 0; "
        "lstm.projection_dim: expected a whole number, 1 to 100,000, found no value; "
        "char_cnn.filters: expected a list of [width, count] pairs, found no value; "
        'char_cnn.activation: expected "relu" or "tanh", found "gelu"'
    )
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        parse_architecture(content)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            b'{\n "lstm": }',
            "not valid JSON, line 2, column 10. Correct it, or copy it again.",
        ),
        (
            b"\x89HDF\r\n",
            "not valid UTF-8 (byte 0x89). Correct it, or copy it again.",
        ),
        (b"[]", "expected a JSON object, found []"),
        (b'{"lstm": {"dim": 0}}', "lstm.dim: expected a whole number"),
    ],
)
def test_an_error_in_a_file_names_the_file(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    path = tmp_path / "options.json"
    with pytest.raises(ModelError, match=f"^{path}: no such file"):
        read_architecture(path)
    path.write_bytes(content)
    with pytest.raises(ModelError, match="^" + re.escape(f"{path}: {fault}")):
        read_architecture(path)


WORDS = ["<S>", "</S>", "<UNK>", "the", "東京", "naïve"]


def test_words_have_line_numbers_and_unknown_words_unks() -> None:
    ids = Vocabulary(WORDS).indices(["naïve", "The", "<S>", "東京", "", "</S>"])
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
)
def test_files_of_other_editors_are_read(content: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(content.encode())
    (tmp_path / "vocab.txt.gz").write_bytes(gzip.compress(content.encode()))
    for path in tmp_path.iterdir():
        assert read_vocabulary(path).words == ["<S>", "</S>", "<UNK>", "the"]


def test_all_special_words_that_are_missing_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    with pytest.raises(InputError, match=f"^{path}: no such file"):
        read_vocabulary(path)
    path.write_text("the\n</S>\n")
    with pytest.raises(
        InputError, match=f"^{path}: the vocabulary lacks the words <S>, <UNK>. A"
    ):
        read_vocabulary(path)


def test_words_that_do_not_fit_on_a_line_are_recognized(tmp_path: Path) -> None:
    words = [
        "the",
        "New York",
        "a\tb",
        "c\nd",
        " e",
        "f\u3000",
        "",
        "!!!MAXTERMID",
        "g\rh",
        "<S>",
    ]
    lines = [word for word in words if Vocabulary.has_line_for(word)]
    assert lines == ["the", "New York", "a\tb", "g\rh"]
    path = tmp_path / "words.txt"
    path.write_bytes("\n".join(["", *lines, "", "cat\n"]).encode())
    assert read_words(path) == ["", *lines, "", "cat"]


def test_an_endless_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.files.text_files.MAX_TEXT_BYTES", 1000)
    with pytest.raises(
        InputError, match=r"/dev/zero: cannot read the vocabulary: more than 1,000"
    ):
        read_vocabulary("/dev/zero")


@given(odd_tokens, st.integers(3, 60))
@example("", 50)
@example("</S>", 50)
@example("x" * 49, 50)
@example("a\ud800b", 50)
def test_every_token_has_the_row_of_the_reference(token: str, n: int) -> None:
    expected = [1 + i for i in reference.character_row(token, n)]
    assert character_ids([token], max_characters=n).tolist() == [expected]


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
