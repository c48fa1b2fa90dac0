"""ElmoVectorizer keeps scikit-learn's rules, by its own checks too, with ElmoEmbedder's rows."""

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
from elmo_cli.text.tokenizers import tokenize
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
    assert (rows.shape, rows.dtype) == ((4, 32), np.float32)
    expected = [
        values.mean(axis=(0, 1)) if values.shape[1] else np.zeros(32)
        for values in layers
    ]
    assert_allclose(rows, expected, atol=1e-6)


def test_layers_stand_side_by_side(layers: list[Any]) -> None:
    rows = vectors(layers="0,2", pooling="max")
    expected = np.concatenate([layers[1][0].max(axis=0), layers[1][2].max(axis=0)])
    assert_allclose(rows[1], expected, atol=1e-6)
    assert (len(rows), vectors(layers="word_emb").shape) == (4, (4, 16))


def test_a_mix_takes_the_place_of_the_layers(layers: list[Any]) -> None:
    mixed = np.einsum("l,ltw->tw", np.exp([0.2, 0.3, 0.5]), layers[0]).mean(axis=0)
    expected = 1.5 * mixed / np.exp([0.2, 0.3, 0.5]).sum()
    assert_allclose(vectors(mix=[0.2, 0.3, 0.5], gamma=1.5)[0], expected, atol=1e-6)


def test_strings_are_tokenized_and_lists_are_tokens() -> None:
    expected = vectors()
    assert_array_equal(vectors([tokenize(text) for text in TEXTS]), expected)
    assert_array_equal(vectors(np.array(TEXTS)), expected)
    split = [" ".join(tokenize(text)) for text in TEXTS]
    assert_array_equal(vectors(split, tokenizer="whitespace"), expected)


@pytest.mark.filterwarnings("default")
def test_it_is_a_step_of_a_pipeline() -> None:
    texts = ["good film", "a good one", "bad film", "a bad one"] * 3
    labels = [*"++--"] * 3
    pipeline = make_pipeline(
        ElmoVectorizer(MODEL), LogisticRegression(C=1e4, max_iter=1000)
    )
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
    with pytest.raises(
        InputError, match=r"found a value of type DataFrame\. Choose one"
    ):
        make_column_transformer((ElmoVectorizer(MODEL), ["text"])).fit_transform(table)


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
            "layers has no effect with (--)?mix",
        ),
        ({"pooling": "sum"}, "pooling 'sum': unknown. Use mean, max, first, last"),
        ({"pooling": None}, "pooling None: expected mean, max, first or last"),
        (
            {"tokenizer": "words"},
            "tokenizer 'words': unknown. Use whitespace, moses, spacy,",
        ),
        ({"gamma": 2.0}, "--gamma requires --mix"),
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
            "texts[1]: expected a string or a list of tokens, found None.",
        ),
        ([["a", 1]], "texts[0][1]: expected a string, found 1."),
    ],
)
def test_texts_of_another_form_are_refused(texts: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        vectors(texts)


def test_a_missing_scikit_learn_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, ElmoVectorizer.__module__)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    exec("from elmo_cli import *; dir(elmo_cli)", {"elmo_cli": elmo_cli})
    message = f"ElmoVectorizer needs scikit-learn. Install it with {install_command('sklearn')}"
    with pytest.raises(ImportError, match=f"^{re.escape(message)}$"):
        _ = elmo_cli.ElmoVectorizer


# check_estimator

TABLE = "is about a table of numbers; the input here is a list of texts"
AXIS = "expects an error for one axis, which is the only valid form of texts"
SKIPPED = {
    **dict.fromkeys(
        ("check_n_features_in_after_fitting", "check_n_features_in"), TABLE
    ),
    **dict.fromkeys(("check_complex_data", "check_estimators_nan_inf"), TABLE),
    "check_estimator_sparse_tag": TABLE,
    **dict.fromkeys(("check_fit1d", "check_fit2d_predict1d"), AXIS),
    "check_estimators_empty_data_messages": "expects an error without texts; nothing is fitted",
    "check_transformer_data_not_an_array": "passes an object that is neither array nor list",
}
"""Checks of `check_estimator` that do not apply to texts, and why.

`check_transformer_get_feature_names_out` and the one for pandas are not run: they expect an error
for names that differ from the columns of the table given to `fit`.
"""


class OnTables(ElmoVectorizer):
    """ElmoVectorizer for the tables of numbers that the checks pass: a row becomes a text."""

    embedder: ElmoEmbedder

    def _embed(self, texts: Any) -> Any:
        rows: Any = np.asarray(texts) if len(texts) else []
        return super()._embed([" ".join(map(str, row)) for row in rows])

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
    assert sum(result["status"] == "passed" for result in results) >= 30
    for name in ("set_output_transform", "set_output_transform_pandas"):
        getattr(estimator_checks, f"check_{name}")("ElmoVectorizer", estimator)
    estimator_checks.check_global_output_transform_pandas("ElmoVectorizer", estimator)
