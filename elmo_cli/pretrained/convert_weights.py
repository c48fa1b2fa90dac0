"""Conversion of weights to another format or data type, and of a model to a folder for the hub.

Tensors keep their names and shapes, so that no options are required.
"""

import shutil
from pathlib import Path

import numpy as np

from elmo_cli.atomic import check_output, output_error
from elmo_cli.errors import ModelError, OutputError, WeightsError, check_choice
from elmo_cli.model.weights import (
    BILM,
    SOFTMAX,
    WEIGHTS_SUFFIXES,
    Array,
    not_finite,
    open_tensors,
    write_tensors,
)
from elmo_cli.pretrained.hub_readme import README, write_readme
from elmo_cli.pretrained.model_files import ModelFiles, sha256
from elmo_cli.version import __version__


def convert_weights(
    source: str | Path, target: str | Path, dtype: str | None = None, *, overwrite: bool = False
) -> tuple[int, str]:
    """Write the weights of a biLM or a softmax to another file.

    Args:
        source: Path of the weights.
        target: Path whose suffix .hdf5, .h5 or .safetensors chooses the format. The file appears
            when it is complete. Its metadata or attributes record its source.
        dtype: `float32` or `float16`. None is float16 if all values of `source` are, else float32.
        overwrite: Replace an existing file.

    Returns:
        The number of tensors, and their data type.
    """
    if dtype is not None:
        check_choice("dtype", dtype, ("float32", "float16"))
    source, target = Path(source), Path(target)
    if target.suffix not in WEIGHTS_SUFFIXES:
        raise OutputError(f"{target}: expected a name that ends in {', '.join(WEIGHTS_SUFFIXES)}")
    check_output(target, overwrite=overwrite, source=source)
    with open_tensors(source) as file:
        file.check_kind(BILM, SOFTMAX)
        dtype = dtype or ("float16" if all(map(file.is_half, file.names)) else "float32")
        metadata = {
            "source_sha256": sha256(source),
            "dtype": dtype,
            "elmo_cli_version": __version__,
        }
        tensors = ((name, _converted(source, name, file.read(name), dtype)) for name in file.names)
        write_tensors(target, tensors, dtype, metadata)
    return len(file.names), dtype


def _converted(source: Path, name: str, values: Array, dtype: str) -> Array:
    """Convert the values of a tensor to `dtype`. Raise a `WeightsError` if one is not finite."""
    if not np.isfinite(values).all():
        raise not_finite(source, [name])
    with np.errstate(over="ignore"):
        converted = values.astype(dtype, copy=False)
    if not np.isfinite(converted).all():
        raise WeightsError(
            f"{source}: {name} has values beyond {np.finfo(dtype).max:,.0f}, the maximum of "
            f"{dtype}. Keep float32."
        )
    return converted


def save_model(files: ModelFiles, folder: str | Path) -> None:
    """Write a model as a folder for the hub.

    The folder gets config.json, model.safetensors, README.md with the hub's metadata, and the
    vocabulary and the softmax, if the model has them.

    Raises:
        ElmoError: A file of the model is invalid, or the folder cannot be written.
    """
    folder = Path(folder)
    if files.weights.suffix == ".pkl":
        raise ModelError(
            f"{files.name}: models of ELMoForManyLangs cannot be saved as safetensors. Copy the "
            f"folder {files.weights.parent} instead."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", README):
            check_output(folder / name, overwrite=False)
        convert_weights(files.weights, folder / "model.safetensors")
        if files.softmax is not None:
            convert_weights(files.softmax, folder / "softmax.safetensors")
        if files.vocabulary is not None:
            shutil.copyfile(files.vocabulary, folder / files.vocabulary.name)
        write_readme(files, folder)
        shutil.copyfile(files.options, folder / "config.json")
    except OSError as error:
        raise output_error(folder, error) from None
