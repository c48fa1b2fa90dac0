"""Wrong calls in Python, and the errors that users see: their kind and one line.

@each_wrong_call(
    WrongCall(
        lambda models: models.embedder.encode(["a"], pooling="sum"),
        SettingsError,
        "pooling: expected mean, max, first or last, found 'sum'",
    ),
)
def test_a_wrong_option_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)
"""

import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path

import pytest

from elmo_cli.errors.exceptions import ElmoError
from tests.support.small_models import SmallModels


@dataclass(frozen=True)
class WrongCall:
    """Call of a function, and the error that it raises."""

    call: Callable[[SmallModels], object]
    kind: type[ElmoError]
    """Class of the error itself, not a base of it."""
    message: str
    """Whole message. FOLDER in it is the folder of the small models."""


def each_wrong_call(*cases: WrongCall) -> pytest.MarkDecorator:
    """Run a test with each call as its argument `wrong`, named after the problem."""
    names = [case.message.partition(". ")[0] for case in cases]
    return pytest.mark.parametrize("wrong", cases, ids=names)


def check_error(wrong: WrongCall, models: SmallModels) -> None:
    """Check that a call raises its error, and leaves nothing behind.

    The current folder is empty, apart from the empty folder `empty`.
    """
    Path("empty").mkdir()
    with pytest.raises(ElmoError) as caught:
        wrong.call(models)
    error = caught.value
    assert type(error) is wrong.kind
    assert str(error).replace(str(models.folder), "FOLDER") == wrong.message
    errno = ENOENT if issubclass(wrong.kind, FileNotFoundError) else None
    assert getattr(error, "errno", None) == errno
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error)
    assert str(copied) == str(error)
    assert os.listdir() == ["empty"]
    # The error still holds the frames of the call.
    assert str(models.text) not in _open_paths()


def _open_paths() -> list[str]:
    """Return the paths of the files that this process has open; none but on Linux."""
    if sys.platform != "linux":
        return []
    paths = []
    for descriptor in Path("/proc/self/fd").iterdir():
        if descriptor.exists():
            paths.append(os.readlink(descriptor))
    return paths
