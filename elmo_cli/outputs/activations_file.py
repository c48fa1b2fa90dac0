"""One file of activations, opened in this process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import h5py

from elmo_cli.errors.exceptions import ElmoError, InputError, MissingInputError
from elmo_cli.errors.missing_files import missing_file
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line, system_reason
from elmo_cli.files.hdf5 import open_hdf5
from elmo_cli.outputs import hdf5
from elmo_cli.outputs.attributes import check_attributes, with_types
from elmo_cli.outputs.hdf5_allennlp import MAX_NESTED, SENTENCE_TO_INDEX, AllenNlpFile
from elmo_cli.outputs.hdf5_packed import PackedFile
from elmo_cli.outputs.parts_folder import PartsFolder, is_parts_folder
from elmo_cli.outputs.reader import Array
from elmo_cli.text.records import Record

LayoutFile = AllenNlpFile | PackedFile | PartsFolder
"""Open file of one layout. Its records are numbered from 0, in the order of the input if it
`is_ordered`. `values` reads as many records from the first on as are best read together."""


_ACTIVATIONS: Final = "HDF5 of `elmo embed` or a folder of `elmo distribute`"


_UNKNOWN: Final = Record("", [])


class ActivationsFile:
    """One file, opened in this process."""

    numbers: range  # numbers of its records among the records of all files

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self._open()

    @contextmanager
    def reading(self) -> Iterator[LayoutFile]:
        """Open the file for a block of code, in which errors of HDF5 name it as damaged."""
        if not self.handle:
            raise InputError(f"{self.path}: the file is closed. Open it again.")
        if (
            self._process != os.getpid()
        ):  # HDF5 cannot share a file with the parent process.
            self._open()
        with _damage_named(self.path):
            yield self.layout_file

    def pairs(
        self, start: int, stop: int, *, with_records: bool = False
    ) -> Iterator[tuple[Record, Array]]:
        """Yield records with their activations. The records are empty unless `with_records`."""
        while start < stop:
            with self.reading() as layout:
                values = layout.values(start, stop)
                end = start + len(values)
                records = (
                    layout.records(start, end)
                    if with_records
                    else [_UNKNOWN] * len(values)
                )
            yield from zip(records, values, strict=True)
            start = end

    def _open(self) -> None:
        self._process = os.getpid()
        self.handle: h5py.File | PartsFolder
        self.layout_file: LayoutFile
        self.attributes: dict[str, Any]
        if is_parts_folder(str(self.path)):
            self.handle = self.layout_file = PartsFolder(str(self.path))
            self.attributes = with_types(self.layout_file.attributes)
            return
        self.handle = file = _open_hdf5(self.path)
        try:
            with _damage_named(self.path):
                try:
                    attributes = dict(file.attrs)
                except (KeyError, RuntimeError, TypeError, ValueError) as error:
                    raise hdf5.DamagedError(
                        f"its attributes: {first_line(error)}"
                    ) from None
                check_attributes(attributes, self.path)
                self.attributes = with_types(attributes)
                if self.attributes.get("compression") == "zstd":
                    load_extra(f"{self.path}: zstd", "hdf5plugin", "zstd")
                if not _holds_activations(file):
                    names = ", ".join(sorted(file)[:5]) or "nothing"
                    problem = f"expected activations, as `elmo embed` writes them, found {names}"
                    raise InputError(f"{self.path}: {problem}")
                is_packed = self.attributes.get("layout") == "packed"
                self.layout_file = PackedFile(file) if is_packed else AllenNlpFile(file)
                if (
                    "records" in self.attributes
                    and self.attributes.get("sentence_keys") != "True"
                ):
                    hdf5.check_count(
                        self.layout_file.n_records, int(self.attributes["records"])
                    )
        except ElmoError:
            file.close()
            raise


@contextmanager
def _damage_named(path: str | Path) -> Iterator[None]:
    """Turn errors of HDF5 and of our checks, but no bugs, into an `InputError` of the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: the file is damaged: {first_line(error)}") from None


def _open_hdf5(path: Path | str) -> h5py.File:
    if os.path.isdir(path):
        raise InputError(f"{path}: expected {_ACTIVATIONS}, found another folder")
    try:
        # HDF5 2 would cache 8 MB per dataset.
        return open_hdf5(path, rdcc_nbytes=2 * hdf5.CHUNK_BYTES)
    except FileNotFoundError:
        if os.path.exists(f"{path}.partial"):
            problem = "the run is not finished. Run its command again."
            raise MissingInputError(f"{path}: {problem}") from None
        raise missing_file(path, InputError) from None
    except OSError as error:
        if "signature" in str(error):
            remedy = f"If it is a text: `elmo embed {path} NEW.hdf5`."
            raise InputError(f"{path}: expected {_ACTIVATIONS}. {remedy}") from None
        raise InputError(f"{path}: cannot be read: {system_reason(error)}.") from None


def _holds_activations(file: h5py.File) -> bool:
    if SENTENCE_TO_INDEX in file or "layers" in file.attrs or "0" in file:
        return True

    # AllenNLP's --use-sentence-keys: a "/" makes groups. Weights begin with another shape.
    def dataset_or_deep(name: str, item: h5py.Dataset | h5py.Group) -> Any:
        return (
            item
            if isinstance(item, h5py.Dataset) or name.count("/") > MAX_NESTED
            else None
        )

    first = file.visititems(dataset_or_deep)
    return (
        isinstance(first, h5py.Dataset)
        and first.dtype.kind == "f"
        and first.ndim in (2, 3)
    )
