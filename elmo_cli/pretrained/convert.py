"""Conversion of weights to another format or data type.

Tensors keep their names and shapes, so that no options.json is required.
"""

from pathlib import Path

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import OutputNameError, WeightsError
from elmo_cli.errors.wording import listed, unknown_suffix
from elmo_cli.files.output_checks import check_output
from elmo_cli.model.tensor_files import (
    BILM,
    SOFTMAX,
    WEIGHTS_SUFFIXES,
    open_tensors,
    write_tensors,
)
from elmo_cli.model.weights import not_finite_error
from elmo_cli.options.output import DTYPES
from elmo_cli.pretrained.checksums import sha256
from elmo_cli.pretrained.other_programs import refuse_other_program
from elmo_cli.version import __version__


def convert_weights(
    source: str | Path,
    target: str | Path,
    dtype: str | None = None,
    *,
    overwrite: bool = False,
) -> tuple[int, str]:
    """Write the weights of a biLM or a softmax to a file.

    Return their number and data type. The suffix of `target` chooses the format. Its
    metadata or attributes record its source. The default `dtype` is float16 if all
    values of `source` are, else float32.
    """
    if dtype is not None:
        check_choice("dtype", dtype, DTYPES)
    source = Path(source)
    target = Path(target)
    refuse_other_program(source)
    if target.suffix not in WEIGHTS_SUFFIXES:
        known = listed(WEIGHTS_SUFFIXES, "or")
        problem = unknown_suffix(target)
        raise OutputNameError(problem, remedy=f"Choose {known}.")
    check_output(target, source, may_exist=overwrite)
    remedy = (
        "Give weights.hdf5 or softmax.hdf5 of a model, or for a PyTorch language model "
        "add {--vocabulary-file}."
    )
    with open_tensors(source, remedy) as file:
        file.check_kind(BILM, SOFTMAX)
        file.check_whole()
        if dtype is None:
            is_half = all(file.is_half(name) for name in file.names)
            dtype = "float16" if is_half else "float32"
        origin = {
            "source_sha256": sha256(source),
            "dtype": dtype,
            "elmo_cli_version": __version__,
        }
        tensors = (
            (name, _convert(source, name, values=file.read(name), dtype=dtype))
            for name in file.names
        )
        write_tensors(
            target, tensors, dtype=dtype, metadata=origin, overwrite=overwrite
        )
    return len(file.names), dtype


def _convert(source: Path, name: str, values: AnyArray, dtype: str) -> AnyArray:
    """Convert the values of a tensor. Raise a `WeightsError` if one is not finite."""
    if not np.isfinite(values).all():
        raise not_finite_error(source, [name])
    with np.errstate(over="ignore"):
        converted = values.astype(dtype, copy=False)
    if not np.isfinite(converted).all():
        maximum = f"{np.finfo(dtype).max:,.0f}, the maximum of {dtype}"
        raise WeightsError(
            f"{source}: {name} has values beyond {maximum}", remedy="Keep float32."
        )
    return converted
