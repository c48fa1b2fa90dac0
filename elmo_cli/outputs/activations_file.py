"""One file of activations, or a folder of parts, opened in this process."""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import h5py

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import ElmoError, InputError, MissingInputError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.missing_files import (
    empty_file_error,
    is_empty_file,
    missing_file_error,
)
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line, system_reason
from elmo_cli.files.open_hdf5 import open_hdf5_to_read
from elmo_cli.options.output_format import PARQUET, format_of_suffix
from elmo_cli.outputs.attributes import check_attributes, with_types
from elmo_cli.outputs.hdf5_allennlp import MAX_NESTED, SENTENCE_TO_INDEX, AllenNlpFile
from elmo_cli.outputs.hdf5_layouts import (
    CHUNK_BYTES,
    DamagedError,
    check_count,
    checked_name,
)
from elmo_cli.outputs.hdf5_packed import PackedFile
from elmo_cli.outputs.layout_file import LayoutFile
from elmo_cli.outputs.parts_folder_reader import PartsFolder, is_parts_folder
from elmo_cli.records.record import Record

_EXPECTED: Final = (
    "expected HDF5 from `elmo embed` or `elmo occurrences`, or a folder from "
    "`elmo distribute`"
)
_UNKNOWN: Final = Record("", [])


class ActivationsFile:
    """One file, opened in this process."""

    layout: LayoutFile
    attributes: dict[str, Any]
    _handle: h5py.File | PartsFolder

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self._open()

    @contextmanager
    def reading(self) -> Iterator[LayoutFile]:
        """Yield the layout. In the block, errors of HDF5 name the file as damaged."""
        if not self._handle:
            raise InputError(
                f"{self.path}: the file is closed", remedy="Open it again."
            )
        # HDF5 cannot share a file with the parent process.
        if self._process != os.getpid():
            self._open()
        with _naming_damage(self.path):
            yield self.layout

    def pairs(
        self, start: int, stop: int, *, with_records: bool = False
    ) -> Iterator[tuple[Record, AnyArray]]:
        """Yield records, empty without `with_records`, and their activations."""
        while start < stop:
            with self.reading() as layout:
                values = layout.values(start, stop)
                end = start + len(values)
                if with_records:
                    records = layout.records(start, end)
                else:
                    records = [_UNKNOWN] * len(values)
            yield from zip(records, values, strict=True)
            start = end

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def _open(self) -> None:
        self._process = os.getpid()
        if is_parts_folder(str(self.path)):
            folder = PartsFolder(str(self.path))
            self._handle = folder
            self.layout = folder
            self.attributes = with_types(folder.attributes)
            return
        file = _open_hdf5_file(self.path)
        self._handle = file
        try:
            with _naming_damage(self.path):
                self.attributes = _read_attributes(file, self.path)
                self.layout = _find_layout(file, self.path, self.attributes)
        except ElmoError:
            file.close()
            raise


def _open_hdf5_file(path: Path | str) -> h5py.File:
    """Open a file of HDF5; raise an `InputError` that says what else it is."""
    if os.path.isdir(path):
        raise InputError(
            f"{path}: {_EXPECTED}, found another folder", remedy="Name a file in it."
        )
    if is_empty_file(path):
        raise empty_file_error(path, InputError)
    try:
        # HDF5 2 would cache 8 MB per dataset.
        return open_hdf5_to_read(path, rdcc_nbytes=2 * CHUNK_BYTES)
    except FileNotFoundError:
        if os.path.exists(f"{path}.partial"):
            raise MissingInputError(
                f"{path}: the run is not finished", remedy="Run its command again."
            ) from None
        raise missing_file_error(path, InputError) from None
    except OSError as error:
        if "signature" in str(error):
            problem = f"{path}: {_EXPECTED}"
            if Path(path).suffix in (".hdf5", ".h5"):
                raise InputError(
                    f"{problem}, found another or a damaged file",
                    remedy="Copy it again, or run its command again.",
                ) from error
            embed = f"elmo embed {shlex.quote(str(path))} vectors.hdf5"
            remedy = f"If it is a text, embed it first: `{literal(embed)}`."
            if format_of_suffix(path) is PARQUET:
                remedy = "For a file from `elmo occurrences`, use open_occurrences."
            raise InputError(problem, remedy=remedy) from error
        if "truncated file" in str(error):
            raise InputError(
                f"{path}: the file is incomplete",
                remedy="Copy it again, or run its command again.",
            ) from error
        raise InputError(f"{path}: cannot be read: {system_reason(error)}") from error


def _read_attributes(file: h5py.File, path: Path | str) -> dict[str, Any]:
    try:
        attributes = dict(file.attrs)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise DamagedError(f"its attributes: {first_line(error)}") from error
    check_attributes(attributes, path)
    return with_types(attributes)


def _find_layout(
    file: h5py.File, path: Path | str, attributes: Mapping[str, Any]
) -> LayoutFile:
    """Return the layout of a file, after checking that it has all its records."""
    if attributes.get("compression") == "zstd":
        load_extra(f"{path}: zstd", "hdf5plugin", "zstd")
    if not _holds_activations(file):
        names = ", ".join(sorted(map(checked_name, file))[:5]) or "nothing"
        problem = f"expected activations, as `elmo embed` writes them, found {names}"
        raise InputError(f"{path}: {problem}")
    layout: LayoutFile
    if attributes.get("layout") == "packed":
        layout = PackedFile(file)
    else:
        layout = AllenNlpFile(file)
    # Blank lines have no datasets if sentences name them.
    if "records" in attributes and not attributes.get("sentence_keys"):
        check_count(layout.n_records, int(attributes["records"]))
    return layout


def _holds_activations(file: h5py.File) -> bool:
    if SENTENCE_TO_INDEX in file or "layers" in file.attrs or "0" in file:
        return True

    def dataset_or_deep(name: str | bytes, item: h5py.Dataset | h5py.Group) -> Any:
        """Return an item at which the search ends, a dataset or a nested group."""
        is_deep = checked_name(name).count("/") > MAX_NESTED
        return item if isinstance(item, h5py.Dataset) or is_deep else None

    # AllenNLP's --use-sentence-keys: a "/" makes groups. Weights begin with another
    # shape.
    first = file.visititems(dataset_or_deep)
    if not isinstance(first, h5py.Dataset):
        return False
    return first.dtype.kind == "f" and first.ndim in (2, 3)


@contextmanager
def _naming_damage(path: str | Path) -> Iterator[None]:
    """Turn errors of HDF5 and of our checks, but no bugs, into an `InputError`."""
    try:
        yield
    # h5py raises a RuntimeError for most errors of HDF5 that are not of a file.
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: the file is damaged: {first_line(error)}") from error
    except (KeyError, TypeError, ValueError) as error:
        if not _is_of_h5py(error):
            raise
        reason = first_line(error).strip("'")  # as a KeyError quotes its message
        raise InputError(f"{path}: the file is damaged: {reason}") from error


def _is_of_h5py(error: Exception) -> bool:
    """Return whether h5py has raised an error, of an item that it cannot open."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals["__name__"].startswith("h5py")
