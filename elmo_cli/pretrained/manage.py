"""Conversion of weights, folders of models for the hub, and import of downloaded files.

Conversion changes the format or the data type. Tensors keep their names and shapes, so that no
options are required.
"""

import os
import shutil
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import (
    MissingModelError,
    ModelError,
    OutputNameError,
    WeightsError,
)
from elmo_cli.errors.wording import system_reason
from elmo_cli.files.atomic import write_lines
from elmo_cli.files.output_checks import check_output, output_error
from elmo_cli.files.text_files import read_text
from elmo_cli.model import weights
from elmo_cli.model.tensor_files import (
    BILM,
    SOFTMAX,
    WEIGHTS_SUFFIXES,
    Array,
    open_tensors,
    write_tensors,
)
from elmo_cli.pretrained.cache import locked, published_folder, unpack
from elmo_cli.pretrained.files import (
    FILE_NAMES,
    ModelFiles,
    candidates,
    check_file,
    check_kind,
    read_folder,
    role_of,
    sha256,
)
from elmo_cli.pretrained.find import known_model
from elmo_cli.pretrained.registry import BUNDLED, PublishedModel
from elmo_cli.version import __version__

_README: Final = "README.md"


def convert_weights(
    source: str | Path,
    target: str | Path,
    dtype: str | None = None,
    *,
    overwrite: bool = False,
) -> tuple[int, str]:
    """Write the weights of a biLM or a softmax to a file. Return their number and data type.

    The suffix of `target` chooses the format. Its metadata or attributes record its source. If
    `dtype` is None, it is float16 if all values of `source` are, else float32.
    """
    if dtype is not None:
        check_choice("dtype", dtype, ("float32", "float16"))
    source, target = Path(source), Path(target)
    if target.suffix not in WEIGHTS_SUFFIXES:
        known = " or ".join(WEIGHTS_SUFFIXES)
        raise OutputNameError(
            f"{target}: unknown suffix {target.suffix!r}. Choose {known}."
        )
    check_output(target, source, overwrite=overwrite)
    check_kind(source)
    with open_tensors(source) as file:
        file.check_kind(BILM, SOFTMAX)
        dtype = dtype or (
            "float16" if all(map(file.is_half, file.names)) else "float32"
        )
        origin = {
            "source_sha256": sha256(source),
            "dtype": dtype,
            "elmo_cli_version": __version__,
        }
        tensors = (
            (name, _converted(source, name, file.read(name), dtype))
            for name in file.names
        )
        write_tensors(target, tensors, dtype, origin)
    return len(file.names), dtype


def _converted(source: Path, name: str, values: Array, dtype: str) -> Array:
    """Convert the values of a tensor to `dtype`. Raise a `WeightsError` if one is not finite."""
    if not np.isfinite(values).all():
        raise weights.not_finite(source, [name])
    with np.errstate(over="ignore"):
        converted = values.astype(dtype, copy=False)
    if not np.isfinite(converted).all():
        maximum = f"{np.finfo(dtype).max:,.0f}, the maximum of {dtype}"
        raise WeightsError(
            f"{source}: {name} has values beyond {maximum}. Keep float32."
        )
    return converted


def save_model(files: ModelFiles, folder: str | Path) -> None:
    """Write a model as a folder for the hub, with its vocabulary and softmax if it has them."""
    folder = Path(folder)
    if files.weights.suffix == ".pkl":
        problem = "models of ELMoForManyLangs cannot be saved as safetensors"
        remedy = f"Copy the folder {files.weights.parent} instead."
        raise ModelError(f"{files.name}: {problem}. {remedy}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", _README):
            check_output(folder / name, overwrite=False)
        convert_weights(files.weights, folder / "model.safetensors")
        if files.softmax is not None:
            convert_weights(files.softmax, folder / "softmax.safetensors")
        if files.vocabulary is not None:
            shutil.copyfile(files.vocabulary, folder / files.vocabulary.name)
        _write_readme(files, folder)
        shutil.copyfile(files.options, folder / "config.json")
    except OSError as error:
        raise output_error(folder, error) from None


def _write_readme(files: ModelFiles, folder: Path) -> None:
    """Write the README.md of a model for the hub: metadata in YAML, use, and the model's card."""
    options, card = files.parsed_options, ""
    with suppress(OSError, UnicodeDecodeError):
        lines = read_text(files.options.with_name("card.md")).splitlines()
        # The card becomes a section of the page.
        lines = [f"#{line}" if line.startswith("#") else line for line in lines]
        card = "\n".join(["", "", *lines])
    template = Path(__file__).with_name("hub_readme.md").read_text(encoding="utf-8")
    page = template.format(
        language="" if files.language is None else f"language: {files.language}\n",
        name=folder.resolve().name,
        layers=options.n_layers,
        width=options.width,
        shape=f"{options.n_layers}, 4, {options.width}",
        units="characters"
        if options.char_cnn is not None
        else "the words of its vocabulary",
        card=card,
    )
    write_lines(folder / _README, page.splitlines())


_EXPECTED: Final = "a folder, a zip file, or files named options.json and weights.hdf5"


def import_model(name: str, sources: Sequence[str | Path]) -> Path:
    """Check folders, zip files and files of a published model, and copy them into the cache."""
    model = known_model(name)
    if model.name == BUNDLED:
        raise ModelError(
            f"{BUNDLED}: the model is bundled with elmo-cli. Import is unnecessary."
        )
    folder = published_folder(model)
    with locked(folder), TemporaryDirectory(dir=folder) as temporary:
        staged = Path(temporary)
        for source in sources:
            _stage(os.path.expanduser(source), staged, model)
        new = sorted(staged.iterdir(), key=lambda path: role_of(path.name) == "weights")
        _complete(folder, staged, model)
        read_folder(staged, model.name)
        for path in new:
            check_file(path, role_of(path.name), model.known_sha256(path.name))
        for role in filter(None, {role_of(path.name) for path in new}):
            for old in candidates(folder, role):
                old.unlink()
        # A model counts as complete when it has its weights, so they come last.
        for path in new:
            path.replace(folder / path.name)
    return folder


def _stage(path: str | Path, staged: Path, model: PublishedModel) -> None:
    """Copy the files of a source into a temporary folder, with the names that the cache uses."""
    source = Path(path)
    try:
        if source.is_dir():
            paths = _paths_in(source)
        elif source.suffix == ".zip" and zipfile.is_zipfile(source):
            unpack(source, staged, model)
            return
        elif role_of(source.name) and source.is_file():
            paths = [source]
        elif source.exists():
            raise ModelError(f"{source}: unknown kind of file. Give {_EXPECTED}.")
        else:
            raise MissingModelError(
                f"{path}: no such file or folder. Give {_EXPECTED}."
            )
        for each in paths:
            shutil.copyfile(each, staged / _cache_name(each))
    except OSError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"{source}: cannot be copied: {system_reason(error)}."
        ) from None


def _paths_in(folder: Path) -> list[Path]:
    files = read_folder(folder, str(folder))
    if files.weights.suffix == ".pkl":  # A model of ELMoForManyLangs has more files.
        return [
            each
            for each in folder.iterdir()
            if each.suffix in (".dic", ".json", ".pkl")
        ]
    return [
        *filter(None, (files.options, files.weights, files.vocabulary, files.softmax))
    ]


def _cache_name(source: Path) -> str:
    """Return the name that a file gets in the cache folder. It keeps its suffixes."""
    role = role_of(source.name)
    if role is None or source.suffix == ".pkl" or source.name == "config.json":
        return source.name
    suffix = ".txt.gz" if source.name.endswith(".gz") else source.suffix
    return Path(FILE_NAMES[role]).stem + suffix


def _complete(folder: Path, staged: Path, model: PublishedModel) -> None:
    """Copy missing files of the model from the cache folder to the folder of the new files."""
    for role in ("options", "weights"):
        if not candidates(staged, role):
            for path in candidates(folder, role):
                shutil.copyfile(path, staged / path.name)
        if not candidates(staged, role):
            problem = f"expected {FILE_NAMES[role]} too, found none"
            raise ModelError(f"{model.name}: {problem}. Give it with another --from.")
