"""Writer for npz, which adds an array per record to a zip archive of `numpy.savez`."""

import json
import zipfile
from typing import Any, Final

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.format_writer import FormatWriter
from elmo_cli.outputs.sentence_rows import SentenceRows
from elmo_cli.records.record import Record

RECORDS: Final = "records.jsonl"
"""Member that describes the records, if their tokens are stored."""


class NpzWriter(FormatWriter):
    """Writer of one array per record, named by its id or index."""

    def __init__(
        self, file: Any, settings: OutputSettings, attributes: Attributes
    ) -> None:
        super().__init__(file, settings, attributes)
        self._archive = zipfile.ZipFile(file, "w")
        self._rows = SentenceRows(settings, attributes)
        self._records: list[str] = []

    def write(self, index: int, record: Record, values: AnyArray) -> None:
        """Add the array of a record."""
        if self._rows.keeps_tokens:
            fields = self._rows.fields(index, record)
            self._records.append(f"{json.dumps(fields, ensure_ascii=False)}\n")
        write_array(self._archive, record.id or str(index), values)

    def finish(self, attributes: Attributes) -> None:
        """Write the descriptions of the records, and the directory of the archive."""
        if self._records:
            records = "".join(self._records).encode("utf-8", "surrogatepass")
            self._archive.writestr(zipfile.ZipInfo(RECORDS), records)
        self._archive.close()


def write_array(archive: zipfile.ZipFile, name: str, values: AnyArray) -> None:
    """Add an array to a zip archive of `numpy.savez`."""
    # Equal runs write equal files: the member has no time.
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        contiguous = np.ascontiguousarray(values)
        np.lib.format.write_array(member, contiguous, allow_pickle=False)
