"""`EmbedBatch`: a column of vectors for tables of pyarrow and pandas, and arrays."""

import pickle
import re

import numpy as np
import pyarrow
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from elmo_cli import ElmoEmbedder, EmbedBatch, InputError, SettingsError
from tests.support.commands import TINY

TEXTS = ["The cat", None, "", "a b c"]


def test_a_table_and_arrays_get_a_column() -> None:
    embed = EmbedBatch(TINY, layers="top", column="vectors")
    table = embed(pyarrow.table({"text": TEXTS}))
    vectors = table.column("vectors").to_pylist()
    assert [len(row) for row in vectors] == [2, 0, 0, 3]
    expected = ElmoEmbedder(TINY).embed_sentence(["a", "b", "c"])[-1]
    assert_allclose(vectors[3], expected, atol=1e-6)
    arrays = embed({"text": np.array(TEXTS, object)})
    assert_array_equal(arrays["vectors"][3], vectors[3])


def test_pooled_vectors_of_arrays_are_one_array() -> None:
    embed = EmbedBatch(TINY, layers="top", pooling="mean")
    assert embed({"text": TEXTS})["activations"].shape == (4, 32)


def test_a_missing_text_of_pandas_has_no_tokens() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"review": ["The cat", None, float("nan"), "a b c"]})
    embed = EmbedBatch(TINY, layers="top", pooling="mean", text_column="review")
    rows = embed(frame)["activations"]
    assert [len(row) for row in rows] == [32] * 4
    assert [any(row) for row in rows] == [True, False, False, True]


def test_it_can_be_pickled_for_the_workers() -> None:
    embed = EmbedBatch(TINY, layers="average", pooling="max", dtype="float16")
    copy = pickle.loads(pickle.dumps(embed))
    [vector] = copy({"text": ["The cat"]})["activations"]
    assert vector.dtype == np.float16
    assert_array_equal(vector, embed({"text": ["The cat"]})["activations"][0])


def test_its_repr_names_the_model_before_it_is_loaded() -> None:
    embed = EmbedBatch("original", layers=[0, 2], pooling="mean", column="vectors")
    assert repr(embed) == (
        "EmbedBatch(model='original', layers='0,2', pooling='mean', column='vectors')"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "auto"}, "tokenizer='auto' has no effect on a batch"),
        ({"pooling": "sum"}, "pooling: expected mean, max, first or last, found 'sum'"),
        ({"dtype": "int8"}, "dtype: expected float32 or float16, found 'int8'"),
        ({"state": "carry"}, "state: expected zero or warm, found 'carry'"),
        ({"gamma": 2.0}, "gamma: requires mix"),
    ],
)
def test_a_wrong_option_is_an_error_before_the_first_batch(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError, match=f"^{re.escape(message)}"):
        EmbedBatch(TINY, **options)  # type: ignore[arg-type]


def test_a_batch_without_the_column_is_an_error() -> None:
    embed = EmbedBatch(TINY, text_column="review")
    with pytest.raises(InputError, match=r"^the batch: no column 'review'"):
        embed({"text": ["The cat"]})
