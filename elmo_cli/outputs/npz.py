"""NumPy's files: npz, where white space does not separate tokens with `records.jsonl`; and npy."""

import json
import zipfile
from collections.abc import Mapping
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.formats import FormatWriter, OutputFormat
from elmo_cli.text.lines import Record
from elmo_cli.text.targets import target_positions

RECORDS: Final = "records.jsonl"
_HEADER_BYTES: Final = 128


class NpzWriter(FormatWriter):
    """Adds records to a zip archive, as `numpy.savez` does for all arrays at once."""

    def __init__(
        self, file: IO[bytes], output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._records: list[str] = []

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the array of a record."""
        if self.keeps_tokens:
            facts = json.dumps(self._facts(number, record), ensure_ascii=False)
            self._records.append(f"{facts}\n")
        _write_array(self._archive, record.key or str(number), values)

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Write what is known of the records, and the directory of the archive."""
        if self._records:
            records = "".join(self._records).encode("utf-8", "surrogatepass")
            self._archive.writestr(zipfile.ZipInfo(RECORDS), records)
        self._archive.close()


class WordsNpzWriter(FormatWriter):
    """Collects the uses of words, and writes an array a word: (n, L, W), or (n, W) for one layer.

    The form that the pipelines of SemEval-2020, task 1, read. In memory until the end.
    """

    def __init__(
        self, file: IO[bytes], output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._words: dict[str, str] = json.loads(attributes["words"])
        self._uses: dict[str, list[NDArray[Any]]] = {word: [] for word in self._words.values()}
        self._nothing = np.empty((0, 0), output_format.dtype)

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Collect the uses in a record, whose values are of these alone."""
        rows = np.swapaxes(values, 0, -2)  # (n, L, W) or (n, W)
        self._nothing = rows[:0].copy()
        for position, row in zip(target_positions(record), rows, strict=True):
            self._uses[self._words[record.tokens[position]]].append(row.copy())

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Write an array a word, without rows for one that is not used."""
        with zipfile.ZipFile(self._file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for word, rows in self._uses.items():
                uses = np.stack(rows) if rows else self._nothing
                _write_array(archive, word, uses)


def _write_array(archive: zipfile.ZipFile, name: str, values: NDArray[Any]) -> None:
    # Without the time, so that the same run gives the same file.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        np.lib.format.write_array(member, values, allow_pickle=False)


class NpyWriter(FormatWriter):
    """Adds rows to one array, whose length is written at the end."""

    def __init__(
        self, file: IO[bytes], output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        super().__init__(file, output_format, attributes)
        self._n_rows, self._row_shape = 0, ()
        file.write(bytes(_HEADER_BYTES))

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the row of a record."""
        self._n_rows, self._row_shape = self._n_rows + 1, values.shape
        self._file.write(values.tobytes())

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Write the header, which numpy makes as long for any number of rows."""
        shape = (self._n_rows, *self._row_shape)
        descr = np.lib.format.dtype_to_descr(np.dtype(self._form.dtype))
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)
