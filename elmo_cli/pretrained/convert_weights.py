"""A file of weights to another format or data type.

The tensors keep their names and are copied as they are, so no options are needed.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

import elmo_cli
from elmo_cli.atomic import check_output
from elmo_cli.errors import OutputError, WeightsError, check_choice
from elmo_cli.model.tensor_files import SUFFIXES, Array, open_tensors, write_tensors
from elmo_cli.model.weights import check_kind, not_finite
from elmo_cli.pretrained.model_files import sha256


class Converted(NamedTuple):
    """What was written."""

    n_tensors: int
    dtype: str
    n_bytes: int


def convert_weights(
    source: str | Path, target: str | Path, dtype: str | None = None, *, overwrite: bool = False
) -> Converted:
    """Write the weights of a file, of a biLM or of a softmax, as another file.

    Args:
        source: HDF5, or safetensors where its name ends so.
        target: ends in .hdf5, .h5 or .safetensors, which is its format. It appears when it is
            complete, and says in its metadata or attributes what it was made of.
        dtype: of the values in `target`, `float32` or `float16`; None is float16
            where all of `source` is, else float32.
        overwrite: replace a file that is there, but never `source` itself.

    Raises:
        WeightsError: `source` is no weights file, is cut off or damaged, or holds
            values that are not finite or, for float16, too large.
        OutputError: `target` is there already, is the source or cannot be written.
        ElmoError: one of them is safetensors, and the package for it is not installed.
    """
    if dtype is not None:
        check_choice("dtype", dtype, ("float32", "float16"))
    source, target = Path(source), Path(target)
    if target.suffix not in SUFFIXES:
        raise OutputError(f"{target}: expected a name that ends in {', '.join(SUFFIXES)}")
    check_output(target, overwrite=overwrite, source=source)
    with open_tensors(source) as file:
        check_kind(source, file, or_softmax=True)
        names = file.names()
        for name in names:
            if isinstance(found := file.describe(name), str):
                raise WeightsError(f"{source}: {name}: expected numbers, found {found}")
        halves = all(file.dtype(name) == "float16" for name in names)
        dtype = dtype or ("float16" if halves else "float32")
        metadata = {
            "source_sha256": sha256(source),
            "dtype": dtype,
            "elmo_cli_version": elmo_cli.__version__,
        }
        tensors = ((name, _converted(source, name, file.read(name), dtype)) for name in names)
        write_tensors(target, tensors, dtype, metadata)
    return Converted(len(names), dtype, target.stat().st_size)


def _converted(source: Path, name: str, values: Array, dtype: str) -> Array:
    """The values of a tensor in `dtype`, all of them finite."""
    if not np.isfinite(values).all():
        raise not_finite(source, [name])
    with np.errstate(over="ignore"):
        converted = values.astype(dtype, copy=False)
    if not np.isfinite(converted).all():
        raise WeightsError(
            f"{source}: values beyond {dtype} ({np.finfo(dtype).max:,.0f}) in {name}; keep float32"
        )
    return converted
