"""Names of the tensors in a file of weights, without an import of torch."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

from elmo_cli.files.named_pipes import refuse_named_pipe
from elmo_cli.files.open_hdf5 import open_hdf5_to_read

_MAX_HEADER_BYTES: Final = 100_000_000
"""Maximum size of the header of a safetensors file, as its package has it."""

_DAMAGE: Final = (AttributeError, KeyError, OSError, RuntimeError, ValueError)
"""Errors of h5py for a damaged file, and for a dataset in place of a group."""


def check_readable(path: Path) -> None:
    """Raise a `WeightsError` for a file of weights that is damaged or incomplete."""
    # `model.tensor_files` would import torch, which takes a second.
    with suppress(*_DAMAGE), open_hdf5_to_read(path):
        return
    from elmo_cli.model.tensor_files import open_tensors

    with open_tensors(path):
        pass


def has_tensor(path: Path, name: str) -> bool:
    """Return whether a file of weights has a tensor; False for a damaged file."""
    # `model.weights` would import torch, which takes a second.
    with suppress(*_DAMAGE):
        refuse_named_pipe(path)
        if path.suffix == ".safetensors":
            with open(path, "rb") as file:
                n_bytes = int.from_bytes(file.read(8), "little")
                header = file.read(min(n_bytes, _MAX_HEADER_BYTES))
            return name in json.loads(header)
        import h5py

        with open_hdf5_to_read(path) as weights:
            found = weights
            for part in name.split("/"):
                # `name in weights` would open the file of an external link.
                if not isinstance(found.get(part, getlink=True), h5py.HardLink):
                    return False
                found = found[part]
            return True
    return False
