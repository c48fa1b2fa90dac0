"""Fixtures for tests of errors in Python."""

from collections.abc import Iterator

import pytest

from elmo_cli.errors.exceptions import option_names
from tests.errors.small_models import SmallModels, make_small_models


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> SmallModels:
    """Return a small model in each public class."""
    return make_small_models(tmp_path_factory.mktemp("model"))


@pytest.fixture
def messages_name_arguments() -> Iterator[None]:
    """Show messages as Python users see them."""
    with option_names(shown=False):
        yield
