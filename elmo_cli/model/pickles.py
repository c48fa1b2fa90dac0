"""Pickles and files of `torch.save`, read without running the code that they name.

A pickle of a whole module names its class, which this project does not have, and any
pickle may name a function that does harm. Only tensors and ordered dictionaries are
built. Everything else becomes a `Placeholder` with its attributes.

This module takes the place of `pickle` in `torch.load`, which reads the files of all
versions of torch: `Unpickler` and `load` are the names that it looks for.
"""

import pickle
import sys
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import torch
import torch._utils
from torch import nn
from torch.serialization import MAGIC_NUMBER

from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.errors.missing_files import unreadable_file_error
from elmo_cli.files.named_pipes import refuse_named_pipe


def _method(name: str) -> Any:
    """Return the `__call__` of a function of `torch._utils`.

    A pickle can set attributes of what it gets. A function has some, such as its
    default arguments, but this method has none.
    """
    return getattr(torch._utils, name).__call__


_HARMLESS: Final = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch.nn.parameter", "Parameter"): nn.Parameter,  # in pickles before torch 1.0
    ("torch._utils", "_rebuild_parameter"): _method("_rebuild_parameter"),
    ("torch._utils", "_rebuild_tensor"): _method("_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"): _method("_rebuild_tensor_v2"),
}
"""All that a pickle may call, by module and name."""
_START_OF_TORCH: Final = pickle.dumps(MAGIC_NUMBER, protocol=2)
"""First bytes of a file of `torch.save` before torch 1.6. Later files are zip files."""
_START_OF_ZIP: Final = b"PK\x03\x04"
_STARTS_OF_PICKLES: Final = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


class Placeholder:
    """An object of any class, or the result of any function, that a pickle names.

    It has the attributes of the object. Its items, and arguments of a call, are lost.
    """

    dump_patches = False
    """torch reads it of modules: not to write a file about changes of their source."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __new__(cls, *args: object, **kwargs: object) -> "Placeholder":
        """Make an object. A pickle passes the arguments that its class would take."""
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            vars(self).update(state)

    def append(self, item: object) -> None:
        """Ignore an item of a subclass of list."""

    def __setitem__(self, key: object, item: object) -> None:
        """Ignore an item of a subclass of dict."""


class _PlainUnpickler(pickle.Unpickler):
    """Unpickler that builds Python's containers, and else placeholders."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name in the pickle stands for."""
        return Placeholder


class Unpickler(_PlainUnpickler):
    """Unpickler that builds tensors, too. `torch.load` adds the storages to it."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name in the pickle stands for."""
        return _HARMLESS.get((module, name), Placeholder)


def load(file: IO[bytes], **options: Any) -> Any:
    """Read the next pickle in a file of `torch.save`."""
    return Unpickler(file, **options).load()


def is_pickle(path: Path) -> bool:
    """Return whether a file begins like a pickle or a file of `torch.save`."""
    if not path.is_file():  # What is read from a pipe is gone.
        return False
    with suppress(OSError), open(path, "rb") as file:
        start = file.read(len(_START_OF_ZIP))
        return start == _START_OF_ZIP or start[:2] in _STARTS_OF_PICKLES
    return False


def read_pickle(path: Path) -> Any:
    """Read a pickle or a file of `torch.save`, with all tensors on the CPU.

    Raise a `WeightsError` if it is missing or damaged.
    """
    with reporting_damaged_pickle(path):
        with open(path, "rb") as file:
            start = file.read(len(_START_OF_TORCH))
            is_zip = start.startswith(_START_OF_ZIP)
            if not is_zip and start != _START_OF_TORCH:
                file.seek(0)
                return _PlainUnpickler(file, encoding="utf-8").load()
        if is_zip:
            _refuse_torch_script(path)
        return torch.load(
            path,
            map_location="cpu",
            pickle_module=sys.modules[__name__],
            weights_only=False,
        )


def _refuse_torch_script(path: Path) -> None:
    """Raise a `WeightsError` for a program of TorchScript, which torch would load."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any(name.endswith("constants.pkl") for name in names):
        raise WeightsError(
            f"{path}: a program of TorchScript",
            remedy="Save the state dict of the model instead.",
        )


@contextmanager
def reporting_damaged_pickle(path: Path) -> Iterator[None]:
    """Convert errors of a pickle that cannot be read to a `WeightsError`."""
    try:
        refuse_named_pipe(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # An error may follow.
            yield
    except OSError as error:
        raise unreadable_file_error(
            path, "weights", error=error, kind=WeightsError
        ) from None
    except (MemoryError, WeightsError):
        raise
    # The error of a damaged pickle depends on the damage.
    except Exception as error:
        raise WeightsError(
            f"{path}: not a valid PyTorch file of tensors ({type(error).__name__})",
            remedy="Copy or download it again.",
        ) from None
