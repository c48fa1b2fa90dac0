"""Writer for npy: one array, and a file of ids next to it."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np

from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.atomic import renamed, sync
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.format_writer import FormatWriter
from elmo_cli.outputs.vector_rows import Array
from elmo_cli.records.record import Record

_NPY_HEADER_BYTES: Final = 128


class NpyWriter(FormatWriter):
    """Writer of one array, and of a file next to it with the ids of its rows, one per line."""

    def __init__(
        self, file: Any, output_format: OutputSettings, attributes: Attributes
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._n_rows, self._row_shape = 0, ()
        self._ids: list[str] = []
        file.write(bytes(_NPY_HEADER_BYTES))

    def write(self, number: int, record: Record, values: Array) -> None:
        """Add the row of a record; raise an `InputError` if its id is no line of a text."""
        if record.id is not None:
            if "\n" in record.id or "\r" in record.id:
                raise InputError(
                    f"the id {record.id[:60]!r} has a line end, but the file of ids next to npy "
                    "has one id per line. Use Parquet or JSON lines."
                )
            self._ids.append(record.id)
        self._n_rows, self._row_shape = self._n_rows + 1, values.shape
        self._file.write(values.tobytes())

    def finish(self, attributes: Attributes) -> None:
        """Write the header, which has the same length for any number of rows."""
        descr = np.lib.format.dtype_to_descr(np.dtype(self._format.dtype))
        shape = (self._n_rows, *self._row_shape)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)

    def publish(self, path: Path, rename: Callable[[], object]) -> None:
        """Rename the array, then the ids. Even a kill never leaves ids next to other vectors."""
        ids = ids_path(path)
        with renamed(ids) if self._ids else nullcontext() as partial:
            if partial is not None:
                partial.write_text("".join(f"{each}\n" for each in self._ids), "utf-8")
                sync(partial)
            ids.unlink(missing_ok=True)
            rename()


def ids_path(path: Path) -> Path:
    """Return the path of the ids of an array in npy."""
    return path.with_name(f"{path.name}.ids.txt")
