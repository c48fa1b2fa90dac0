import numpy as np
import reference
from hypothesis import example, given
from strategies import batches, odd_tokens

from elmo_cli import batch_to_ids
from elmo_cli.model.vocabulary import character_ids


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
