"""NumPy's files.

npz    an array a record, named as the datasets of AllenNLP's layout; where white space does not
       separate tokens, `records.jsonl` too, an object a record with its tokens
npy    one array, a row a record: pooled activations only
"""

import json
import zipfile
from collections.abc import Mapping
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo_cli.outputs.formats import FormatWriter, OutputFormat
from elmo_cli.outputs.jsonl import record_facts
from elmo_cli.text.lines import Record

RECORDS: Final = "records.jsonl"
_HEADER_BYTES: Final = 128


class NpzWriter(FormatWriter):
    """Adds records to a zip archive, as `numpy.savez` does for all arrays at once."""

    def __init__(
        self, file: IO[bytes], output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._form, self._attributes = output_format, attributes
        self._facts: list[str] = []

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the array of a record."""
        if self._form.keeps_tokens(self._attributes):
            facts = record_facts(number, record, self._form, self._attributes)
            self._facts.append(json.dumps(facts, ensure_ascii=False) + "\n")
        # Without the time, so that the same run gives the same file.
        name = zipfile.ZipInfo(f"{record.key or number}.npy")
        with self._archive.open(name, "w", force_zip64=True) as member:
            np.lib.format.write_array(member, values, allow_pickle=False)

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Write what is known of the records, and the directory of the archive."""
        if self._facts:
            facts = "".join(self._facts).encode("utf-8", "surrogatepass")
            self._archive.writestr(zipfile.ZipInfo(RECORDS), facts)
        self._archive.close()


class NpyWriter(FormatWriter):
    """Adds rows to one array, whose length is written at the end."""

    def __init__(
        self, file: IO[bytes], output_format: OutputFormat, attributes: Mapping[str, str]
    ) -> None:
        self._file = file
        self._dtype = np.dtype(output_format.dtype)
        self._n_rows, self._row_shape = 0, ()
        file.write(bytes(_HEADER_BYTES))

    def write(self, number: int, record: Record, values: NDArray[Any]) -> None:
        """Add the row of a record."""
        self._n_rows, self._row_shape = self._n_rows + 1, values.shape
        self._file.write(values.tobytes())

    def finish(self, attributes: Mapping[str, str]) -> None:
        """Write the header, which numpy makes as long for any number of rows."""
        shape = (self._n_rows, *self._row_shape)
        descr = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)
