"""Import of the files of a published model that were downloaded by other means.

README.md of a model for the Hugging Face hub: metadata, use, and the model's card.

Conversion of weights to another format or data type, and of a model to a folder for the hub.

Tensors keep their names and shapes, so that no options are required.

Verification of the downloaded models against known checksums.
"""

import os
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from elmo_cli.atomic import check_output, output_error, write_lines
from elmo_cli.errors import (
    ElmoError,
    MissingModelError,
    ModelError,
    OutputError,
    WeightsError,
    check_choice,
    first_line,
    system_reason,
)
from elmo_cli.model.model_options import ManyLangsOptions, parameters_by_part, read_options
from elmo_cli.model.weights import (
    BILM,
    SOFTMAX,
    WEIGHTS_SUFFIXES,
    Array,
    not_finite,
    open_tensors,
    write_tensors,
)
from elmo_cli.pretrained.cache import UNPACKED, check_file, locked, published_folder, unpack
from elmo_cli.pretrained.files import (
    FILE_NAMES,
    TOKEN_ENCODER,
    ModelFiles,
    candidates,
    known_sums,
    model_files,
    read_folder,
    record_sums,
    role_of,
    sha256,
)
from elmo_cli.pretrained.find import load_bilm, no_such_model
from elmo_cli.pretrained.registry import BUNDLED, MODELS, PublishedModel, published_model
from elmo_cli.text.sources import read_text
from elmo_cli.version import __version__

README: Final = "README.md"

_USE: Final = """\
## Use

```sh
pip install "elmo-cli[hub]"
elmo embed sentences.txt vectors.hdf5 --model hf:OWNER/{name}
```

```python
from elmo_cli import ElmoEmbedder

embedder = ElmoEmbedder.from_pretrained("OWNER/{name}")
vectors = embedder.embed_sentence(["The", "cat", "sat", "."])  # float32, shape ({shape})
```

Replace OWNER by the owner of the repository.
"""


def write_readme(files: ModelFiles, folder: Path) -> None:
    """Write the README.md of a model into a folder for the hub."""
    write_lines(folder / README, _readme_lines(files, folder.resolve().name))


def _readme_lines(files: ModelFiles, name: str) -> Iterator[str]:
    """Yield the lines of a README.md, in Markdown after metadata in YAML."""
    options = files.parsed_options
    yield from ("---", "library_name: elmo-cli", "pipeline_tag: feature-extraction")
    if files.language is not None:
        yield f"language: {files.language}"
    yield from ("tags:", "- elmo", "- contextual-word-embeddings")
    yield "# Add the licence of the weights, for example: license: apache-2.0"
    yield from ("---", "", f"# {name}", "")
    kind = "characters" if options.char_cnn is not None else "the words of its vocabulary"
    yield (
        f"ELMo model for elmo-cli: {options.n_layers} layers of {options.width} numbers per token. "
        f"It reads {kind}."
    )
    yield ""
    shape = f"{options.n_layers}, 4, {options.width}"
    yield from _USE.format(name=name, shape=shape).splitlines()
    for line in _card_lines(files):
        # The card is a section of this page.
        yield f"#{line}" if line.startswith("#") else line


def _card_lines(files: ModelFiles) -> list[str]:
    """Return the lines of the model's card after a blank line, or an empty list without a card."""
    with suppress(OSError, UnicodeDecodeError):
        return ["", *read_text(files.options.with_name("card.md")).splitlines()]
    return []


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


@dataclass(frozen=True)
class FileCheck:
    """Result of verifying one file of a model."""

    model: str
    path: Path
    result: str
    """One line with the comparison and its outcome."""
    is_damaged: bool


def verify_models() -> list[FileCheck]:
    """Verify all files of the models in the cache folder."""
    downloaded = [model for model in MODELS if model.name != BUNDLED]
    return [
        _verify(model, path, known_sums(path.parent).get(path.name))
        for model in downloaded
        for path in model_files(published_folder(model))
    ]


def _verify(model: PublishedModel, path: Path, recorded: str | None) -> FileCheck:
    """Compare a file with its published or recorded checksum. Without a checksum, read it."""
    role = role_of(path.name)
    published = model.weights_sha256 if role == "weights" and path.suffix == ".hdf5" else None
    problem, basis = None, "is readable, and has no known sha256"
    try:
        if expected := published or recorded:
            basis = f"has the sha256 {'published' if published else 'recorded at its download'}"
            if (digest := sha256(path)) != expected:
                problem = f"damaged: expected the sha256 {expected}, found {digest}"
        elif role is not None and path.suffix != ".pkl":
            check_file(path, role)
    except (ElmoError, OSError) as error:
        problem = f"damaged: {first_line(error).removeprefix(f'{path}: ')}"
    return FileCheck(model.name, path, problem or basis, problem is not None)


_EXPECTED: Final = "a folder, a zip file, or files named options.json and weights.hdf5"


def import_model(name: str, sources: Sequence[str | Path]) -> Path:
    """Check the files of a published model, and copy them into the cache folder.

    Args:
        name: Name of the model in the registry.
        sources: Folders, zip files and single files of the model.

    Returns:
        The folder of the model in the cache.
    """
    model = published_model(name)
    if model is None:
        raise no_such_model(name)
    if model.name == BUNDLED:
        raise ModelError(f"{BUNDLED}: the model is bundled with elmo-cli. Import is unnecessary.")
    folder = published_folder(model)
    with locked(folder), TemporaryDirectory(dir=folder) as temporary:
        staged = Path(temporary)
        for source in sources:
            _stage(Path(os.path.expanduser(source)), staged, model)
        names = [path.name for path in staged.iterdir()]
        _complete(folder, staged, model)
        _check(model, read_folder(staged, model.name))
        _replace(folder, staged, names)
        record_sums(folder, replaced=names)
    return folder


def _stage(source: Path, staged: Path, model: PublishedModel) -> None:
    """Copy the files of a source into a temporary folder."""
    try:
        if source.is_dir():
            _stage_folder(source, staged)
        elif source.suffix == ".zip" and zipfile.is_zipfile(source):
            unpack(source, staged, model)
        elif (role := role_of(source.name)) and source.is_file():
            shutil.copyfile(source, staged / _cache_name(source, role))
        elif source.exists():
            raise ModelError(f"{source}: unknown kind of file. Give {_EXPECTED}.")
        else:
            raise MissingModelError(f"{source}: no such file or folder. Give {_EXPECTED}.")
    except OSError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{source}: cannot be copied: {system_reason(error)}.") from None


def _stage_folder(source: Path, staged: Path) -> None:
    """Copy the files of a model in a folder, under the names that the cache folder uses."""
    files = read_folder(source, str(source))
    if files.weights.suffix == ".pkl":  # A model of ELMoForManyLangs has more files.
        for path in sorted(source.iterdir()):
            if path.is_file() and path.name[0] != "." and path.name.endswith(UNPACKED):
                shutil.copyfile(path, staged / path.name)
        return
    for role in FILE_NAMES:
        if (path := getattr(files, role)) is not None:
            shutil.copyfile(path, staged / _cache_name(path, role))


def _cache_name(source: Path, role: str) -> str:
    """Return the name that a file gets in the cache folder. It keeps its suffixes."""
    if source.suffix == ".pkl" or source.name == "config.json":
        return source.name
    name = Path(FILE_NAMES[role])
    return f"{name.stem}{'.txt.gz' if source.name.endswith('.gz') else source.suffix}"


def _complete(folder: Path, staged: Path, model: PublishedModel) -> None:
    """Copy missing files of the model from the cache folder to the folder of the new files."""
    for role in ("options", "weights", "vocabulary"):
        if candidates(staged, role):
            continue
        for path in candidates(folder, role):
            shutil.copyfile(path, staged / path.name)
        if role != "vocabulary" and not candidates(staged, role):
            raise ModelError(
                f"{model.name}: expected {FILE_NAMES[role]} too, found none. Give it with another "
                "--from."
            )


def _check(model: PublishedModel, files: ModelFiles) -> None:
    """Raise an error if files do not fit each other, or belong to another model."""
    is_hdf5 = files.weights.suffix == ".hdf5"
    expected_sha256 = model.weights_sha256 if is_hdf5 else None
    options = read_options(files.options)
    if isinstance(options, ManyLangsOptions):
        if not files.weights.with_name(TOKEN_ENCODER).exists():
            raise ModelError(f"{model.name}: no {TOKEN_ENCODER}. Give the whole folder.")
    else:
        check_file(files.weights, "weights", expected_sha256)
        n_parameters = sum(parameters_by_part(options, None).values()) if options.char_cnn else None
        if n_parameters and model.parameters and n_parameters != model.parameters:
            raise ModelError(
                f"{model.name}: expected {model.parameters:,} parameters, found {n_parameters:,}. "
                "These are the files of another model."
            )
    load_bilm(files)


def _replace(folder: Path, staged: Path, names: Sequence[str]) -> None:
    """Move the new files into the cache folder, and remove older files with their roles."""
    for role in FILE_NAMES:
        if any(role_of(name) == role for name in names):
            for old in candidates(folder, role):
                old.unlink()
    # A model counts as complete when it has its weights, so they come last.
    for name in sorted(names, key=lambda name: role_of(name) == "weights"):
        (staged / name).replace(folder / name)
