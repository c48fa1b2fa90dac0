"""Writer for npy: one array with a row per record, and a file of ids next to it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import InputError
from elmo_cli.files import disk
from elmo_cli.files.atomic import AppearedError
from elmo_cli.files.output_names import partial_path, unfinished_paths
from elmo_cli.files.pairs import changed_with_vectors, complete_change
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.format_writer import FormatWriter
from elmo_cli.records.record import Record

_HEADER_BYTES: Final = 128
"""Size of the header, for any number of rows."""


class NpyWriter(FormatWriter):
    """Writer of one array. The file next to it has the id of each row, one per line."""

    def __init__(
        self, file: Any, settings: OutputSettings, attributes: Attributes
    ) -> None:
        super().__init__(file, settings, attributes)
        self._n_rows = 0
        self._row_shape: tuple[int, ...] = ()
        self._ids: list[str] = []
        file.write(bytes(_HEADER_BYTES))

    def write(self, index: int, record: Record, values: AnyArray) -> None:
        """Add the row of a record; raise an `InputError` if its id is not one line."""
        if record.id is not None:
            if "\n" in record.id or "\r" in record.id:
                raise InputError(
                    f"the id {record.id[:60]!r} has a line end, but the file of ids "
                    "next to npy has one id per line",
                    remedy="Use Parquet or JSON lines.",
                )
            self._ids.append(record.id)
        self._n_rows += 1
        self._row_shape = values.shape
        self._file.write(values.tobytes())

    def finish(self, attributes: Attributes) -> None:
        """Write the header."""
        header = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(self._settings.dtype)),
            "fortran_order": False,
            "shape": (self._n_rows, *self._row_shape),
        }
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)

    def publish(self, path: Path, rename: Callable[[], object]) -> None:
        """Rename the array and its ids: these never lie next to other vectors."""
        rename_with_ids(path, self._ids, rename, overwrite=self._settings.overwrite)


def rename_with_ids(
    path: Path, ids: Sequence[str], rename: Callable[[], object], *, overwrite: bool
) -> None:
    """Give an array its name by calling `rename`, and write its ids, if any.

    If another file has the name, the ids are kept next to the unfinished array.
    """
    target = ids_path(path)
    kept = ids_path(unfinished_paths(path).partial)
    content = None
    if ids:
        content = "".join(f"{each}\n" for each in ids).encode()
    try:
        with changed_with_vectors(target, content, path, overwrite=overwrite):
            rename()
    except AppearedError:
        if content is not None:
            disk.replace(partial_path(target), kept)
        raise
    # An earlier run may have kept them.
    if kept.is_file() and kept.read_bytes() == content:
        disk.remove(kept)


def complete_ids(path: Path) -> None:
    """Complete or take back the change of an array with ids that a kill has ended."""
    complete_change(ids_path(path), path, unfinished_paths(path).partial)


def ids_path(path: Path) -> Path:
    """Return the path of the ids of an array in npy."""
    return path.with_name(f"{path.name}.ids.txt")
