"""ElmoVectorizer keeps scikit-learn's rules, and has the vectors of ElmoEmbedder."""

import pickle
import re
import sys
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmo_cli
from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import ElmoError, InputError
from elmo_cli.errors.optional_imports import install_command
from elmo_cli.text.choose_tokenizer import tokenize
from tests.support.golden import GOLDEN

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from elmo_cli import ElmoVectorizer

MODEL = str(GOLDEN / "relu")
TEXTS = ["It's good, very good.", "So bad!", "", "The end of it all is near (or not)"]
A_TABLE = (
    'found a table. Choose a column: in a ColumnTransformer, "text" and not ["text"].'
)


@pytest.fixture
def layers(tiny: ElmoEmbedder) -> list[Any]:
    """Return the layers of each text, float32, shape (3, T, 32)."""
    return [tiny.embed_sentence(tokenize(text)) for text in TEXTS]


def vectors(texts: Any = TEXTS, **parameters: Any) -> Any:
    return ElmoVectorizer(MODEL, **parameters).fit_transform(texts)


def test_a_row_is_the_mean_over_layers_and_tokens(layers: list[Any]) -> None:
    rows = vectors()
    assert rows.shape == (4, 32)
    assert rows.dtype == np.float32
    for row, values in zip(rows, layers, strict=True):
        has_tokens = values.shape[1] > 0
        expected = values.mean(axis=(0, 1)) if has_tokens else np.zeros(32)
        assert_allclose(row, expected, atol=1e-6)


def test_layers_stand_side_by_side(layers: list[Any]) -> None:
    rows = vectors(layers="0,2", pooling="max")
    bottom, _, top = layers[1].max(axis=1)
    assert len(rows) == 4
    assert_allclose(rows[1], np.concatenate([bottom, top]), atol=1e-6)
    assert vectors(layers="word_emb").shape == (4, 16)


def test_a_mix_takes_the_place_of_the_layers(layers: list[Any]) -> None:
    mix = [0.2, 0.3, 0.5]
    weights = 1.5 * np.exp(mix) / np.exp(mix).sum()
    mixed = np.einsum("l,ltw->tw", weights, layers[0])
    rows = vectors(mix=mix, gamma=1.5)
    assert_allclose(rows[0], mixed.mean(axis=0), atol=1e-6)


def test_strings_are_tokenized_and_lists_are_tokens() -> None:
    expected = vectors()
    assert_array_equal(vectors([tokenize(text) for text in TEXTS]), expected)
    assert_array_equal(vectors(np.array(TEXTS)), expected)
    split = [" ".join(tokenize(text)) for text in TEXTS]
    assert_array_equal(vectors(split, tokenizer="whitespace"), expected)


def test_strings_are_tokenized_in_their_language() -> None:
    expected = vectors([["L'", "eau", "est", "froide", "."]])
    rows = vectors(["L'eau est froide."], tokenizer="moses", language="fr")
    assert_array_equal(rows, expected)


@pytest.mark.filterwarnings("default")
def test_a_vectorizer_is_a_step_of_a_pipeline() -> None:
    texts = ["good film", "a good one", "bad film", "a bad one"] * 3
    labels = ["+", "+", "-", "-"] * 3
    classifier = LogisticRegression(C=1e4, max_iter=1000)
    pipeline = make_pipeline(ElmoVectorizer(MODEL), classifier)
    assert pipeline.fit(texts, labels).score(texts, labels) == 1.0
    pipeline.set_params(elmovectorizer__layers="top")
    assert pipeline.fit(texts, labels).predict(["bad film"]) == ["-"]
    names = [f"elmovectorizer{column}" for column in range(32)]
    assert list(pipeline[:-1].get_feature_names_out()) == names


def test_a_column_of_texts_in_a_column_transformer() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS, "n": range(4)}, index=list("abcd"))
    for output in ("default", "pandas"):
        steps = make_column_transformer(
            (ElmoVectorizer(MODEL), "text"), remainder="passthrough"
        )
        transformed = steps.set_output(transform=output).fit_transform(table)
        assert_array_equal(np.asarray(transformed, np.float32)[:, :32], vectors())
        assert steps.get_feature_names_out()[-1] == "remainder__n"
    assert list(transformed.index) == list("abcd")
    of_a_table = make_column_transformer((ElmoVectorizer(MODEL), ["text"]))
    message = r"found a value of type DataFrame\. Choose one"
    with pytest.raises(InputError, match=message):
        of_a_table.fit_transform(table)


def test_a_clone_and_a_pickle_have_the_parameters_and_no_model() -> None:
    vectorizer = ElmoVectorizer(MODEL, layers="top", pooling="max")
    expected = vectorizer.transform(TEXTS)
    pickled = pickle.dumps(vectorizer)
    assert len(pickled) < 1000
    for copied in (clone(vectorizer), pickle.loads(pickled)):
        check_is_fitted(copied)
        assert copied.get_params() == vectorizer.get_params()
        assert not hasattr(copied, "_loaded")
        assert_array_equal(copied.transform(TEXTS), expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": "no such model"}, "no such model"),
        ({"layers": "9"}, "9"),
        (
            {"layers": "top", "mix": [0.2, 0.3, 0.5]},
            "^layers: has no effect with mix",
        ),
        ({"pooling": "sum"}, "pooling: expected mean, max, first or last, found 'sum'"),
        ({"pooling": None}, "pooling: expected mean, max, first or last, found None"),
        (
            {"tokenizer": "words"},
            "tokenizer: expected auto, whitespace, moses, spacy or residues,",
        ),
        ({"gamma": 2.0}, "^gamma: requires mix"),
    ],
)
def test_fit_says_what_is_wrong_with_a_parameter(parameters: Any, message: str) -> None:
    with pytest.raises(ElmoError, match=message):
        ElmoVectorizer(**{"model": MODEL, **parameters}).fit(TEXTS)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            "one text",
            "texts: expected a list, found the string 'one text'. Put it into a list.",
        ),
        (
            np.array([["one"], ["column"]]),
            f"texts: expected a list or a column, {A_TABLE}",
        ),
        (
            ["fine", None],
            "texts[1]: expected a string or a list of tokens, found None",
        ),
        ([["a", 1]], "texts[0][1]: expected a string, found 1"),
    ],
)
def test_texts_of_another_form_are_an_error(texts: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        vectors(texts)


def test_a_missing_scikit_learn_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, ElmoVectorizer.__module__)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    exec("from elmo_cli import *; dir(elmo_cli)", {"elmo_cli": elmo_cli})
    command = install_command("sklearn")
    message = f"ElmoVectorizer needs scikit-learn. Install it with {command}"
    with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
        _ = elmo_cli.ElmoVectorizer


# check_estimator

TABLE = "is about a table of numbers; the input here is a list of texts"
AXIS = "expects an error for one axis, which is the only valid form of texts"
SKIPPED = {
    "check_n_features_in_after_fitting": TABLE,
    "check_n_features_in": TABLE,
    "check_complex_data": TABLE,
    "check_estimators_nan_inf": TABLE,
    "check_estimator_sparse_tag": TABLE,
    "check_fit1d": AXIS,
    "check_fit2d_predict1d": AXIS,
    "check_estimators_empty_data_messages": (
        "expects an error without texts; nothing is fitted"
    ),
    "check_transformer_data_not_an_array": (
        "passes an object that is neither array nor list"
    ),
}
"""Checks of `check_estimator` that do not apply to texts, and why.

`check_transformer_get_feature_names_out` and the one for pandas are not run: they
expect an error for names that differ from the columns of the table given to `fit`.
"""


class OnTables(ElmoVectorizer):
    """ElmoVectorizer for tables of numbers, as the checks pass them."""

    embedder: ElmoEmbedder

    def _embed(self, texts: Any) -> Any:
        rows: Any = np.asarray(texts) if len(texts) else []
        lines = [" ".join(map(str, row)) for row in rows]
        return super()._embed(lines)

    def _load(self) -> ElmoEmbedder:
        # The checks make about 100 clones, which need not all load a model.
        return self.embedder

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


@pytest.mark.filterwarnings("default")
def test_check_estimator_finds_no_error() -> None:
    pytest.importorskip("pandas")
    OnTables.embedder = ElmoEmbedder(model=MODEL)
    estimator = OnTables(MODEL)
    results = estimator_checks.check_estimator(
        estimator, expected_failed_checks=SKIPPED, on_fail=None, on_skip=None
    )
    assert [result for result in results if result["status"] == "failed"] == []
    passed = [result for result in results if result["status"] == "passed"]
    assert len(passed) >= 30
    for check in (
        estimator_checks.check_set_output_transform,
        estimator_checks.check_set_output_transform_pandas,
        estimator_checks.check_global_output_transform_pandas,
    ):
        check("ElmoVectorizer", estimator)
