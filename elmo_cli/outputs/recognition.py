"""Is an HDF5 file one of activations? Its names tell, and no value is read."""

from pathlib import Path
from typing import Final

import h5py

from elmo_cli.errors import ElmoError, InputError, system_reason
from elmo_cli.outputs.allennlp_file import SENTENCE_TO_INDEX
from elmo_cli.outputs.compression import CHUNK_BYTES
from elmo_cli.outputs.damage import DAMAGE, damage_named, has_name, part_of

_DEEPEST: Final = 1000
"""Groups inside of groups that are followed."""


def open_hdf5(path: Path) -> h5py.File:
    """Open a file of activations.

    Raises:
        InputError: it is missing, or something else.
    """
    if path.is_dir():
        raise InputError(f"{path}: expected activations (HDF5), found a directory")
    try:
        # HDF5 2 would keep 8 MB of each dataset: of each shard, where many are merged.
        file = h5py.File(path, "r", rdcc_nbytes=2 * CHUNK_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file of activations") from None
    except OSError as error:
        found = "something else" if "signature" in str(error) else system_reason(error)
        raise InputError(f"{path}: expected activations (HDF5), found {found}") from None
    try:
        with damage_named(path):
            names = "" if _holds_activations(file) else ", ".join(sorted(file)[:5]) or "nothing"
    except ElmoError:
        file.close()
        raise
    if names:
        file.close()
        raise InputError(
            f"{path}: expected activations, as `elmo embed` writes them, found {names}"
        )
    return file


def is_activations(path: str | Path) -> bool:
    """Whether a path is that of a file of activations, of either layout."""
    try:
        with h5py.File(path, "r") as file:
            return _holds_activations(file)
    except DAMAGE:
        return False


def _holds_activations(file: h5py.File) -> bool:
    """Whether an HDF5 file is one of activations, of either layout."""
    if has_name(file, SENTENCE_TO_INDEX) or "layers" in file.attrs or has_name(file, "0"):
        return True
    if any(has_name(file, name) for name in ("char_embed", "embedding", "RNN_0", "softmax")):
        return False
    item = file  # AllenNLP's --use-sentence-keys, where a "/" makes groups
    for _ in range(_DEEPEST):  # links may lead in a circle
        if not isinstance(item, h5py.Group) or not len(item):
            break
        item = part_of(item, next(iter(item)))
    return isinstance(item, h5py.Dataset) and item.dtype.kind == "f" and item.ndim in (2, 3)
