"""Names of the tensors in a file of weights, without an import of torch."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

_MAX_HEADER_BYTES: Final = 100_000_000
"""Maximum size of the header of a safetensors file, as its package has it."""


def has_tensor(path: Path, name: str) -> bool:
    """Return whether a file of weights has a tensor; False for a damaged file."""
    # `model.weights` would import torch, which takes a second.
    with suppress(OSError, ValueError):
        if path.suffix == ".safetensors":
            with open(path, "rb") as file:
                n_bytes = int.from_bytes(file.read(8), "little")
                header = file.read(min(n_bytes, _MAX_HEADER_BYTES))
            return name in json.loads(header)
        import h5py

        with h5py.File(path, "r") as weights:
            return name in weights
    return False
