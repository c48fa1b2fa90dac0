"""Fixtures for tests of errors in Python."""

import pytest

from tests.errors.small_models import SmallModels, make_small_models


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> SmallModels:
    """Return a small model in each public class."""
    return make_small_models(tmp_path_factory.mktemp("model"))
