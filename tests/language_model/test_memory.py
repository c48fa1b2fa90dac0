"""Scores of batches that do not fit into memory."""

from pathlib import Path

import pytest
from numpy.testing import assert_allclose

from elmo_cli import LanguageModel
from elmo_cli.errors.exceptions import ComputationError
from tests.support.runs import limit_memory


def test_a_batch_out_of_memory_is_scored_in_halves(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LanguageModel(model=model_folder)
    sentences = [["the"], ["cat"] * 9, ["sat", "the"]]
    expected = [score.forward for score in model.score(sentences)]
    limit_memory(monkeypatch, 11)  # with the boundaries of a sentence
    scores = [score.forward for score in model.score(sentences)]
    for one, other in zip(scores, expected, strict=True):
        assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    with pytest.raises(ComputationError, match=r"^out of memory"):
        model.score([["cat"] * 10])
