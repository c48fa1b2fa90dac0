"""scikit-learn's own checks of estimators, for ElmoVectorizer as far as they fit texts."""

from typing import Any

import numpy as np
import pytest
from conftest import GOLDEN

from elmo_cli import ElmoEmbedder

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

from sklearn.utils import estimator_checks

from elmo_cli import ElmoVectorizer

MODEL = str(GOLDEN / "relu")
TABLE = "is about a table of numbers; the input here is a list of texts"
AXIS = "expects an error for one axis, which is the only valid form of texts"
SKIPPED = {
    **dict.fromkeys(("check_n_features_in_after_fitting", "check_n_features_in"), TABLE),
    **dict.fromkeys(("check_complex_data", "check_estimators_nan_inf"), TABLE),
    "check_estimator_sparse_tag": TABLE,
    **dict.fromkeys(("check_fit1d", "check_fit2d_predict1d"), AXIS),
    "check_estimators_empty_data_messages": "expects an error without texts; nothing is fitted",
    "check_transformer_data_not_an_array": "passes an object that is neither array nor list",
}
"""Checks of `check_estimator` that do not apply to texts, and why.

Two further checks, `check_transformer_get_feature_names_out` and the one for pandas, are not run:
they expect an error for names that differ from the columns of the table given to `fit`.
"""


class OnTables(ElmoVectorizer):
    """ElmoVectorizer for the tables of numbers that the checks pass: a row becomes a text."""

    embedder: ElmoEmbedder

    def _embed(self, texts: Any) -> Any:
        rows: Any = np.asarray(texts) if len(texts) else []
        return super()._embed([" ".join(map(str, row)) for row in rows])

    def _load(self) -> ElmoEmbedder:
        return self.embedder  # The checks make about 100 clones, which need not all load a model.

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


@pytest.fixture(scope="module")
def estimator() -> OnTables:
    OnTables.embedder = ElmoEmbedder(model=MODEL)
    return OnTables(MODEL)


@pytest.mark.filterwarnings("default")
def test_check_estimator_finds_no_error(estimator: OnTables) -> None:
    results = estimator_checks.check_estimator(
        estimator, expected_failed_checks=SKIPPED, on_fail=None, on_skip=None
    )
    assert [result for result in results if result["status"] == "failed"] == []
    assert sum(result["status"] == "passed" for result in results) >= 30
    for name in ("set_output_transform", "set_output_transform_pandas"):
        getattr(estimator_checks, f"check_{name}")("ElmoVectorizer", estimator)
    estimator_checks.check_global_output_transform_pandas("ElmoVectorizer", estimator)
