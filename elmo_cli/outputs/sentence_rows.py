"""One row per record, as JSON lines and Parquet write them by default."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from elmo_cli.arrays import AnyArray
from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.arrow_arrays import chunked_nested_array
from elmo_cli.outputs.attributes import Attributes, keeps_tokens
from elmo_cli.outputs.output_rows import ACTIVATIONS, ColumnValues, Rows
from elmo_cli.outputs.record_attributes import ORIGINAL_ID
from elmo_cli.records.columns import renamed_columns
from elmo_cli.records.record import Record

_RECORD_BYTES: Final = 1000
"""Approximate bytes of a record in memory."""
_TOKEN_BYTES: Final = 60
_OWN_COLUMNS: Final = (
    "index",
    "id",
    ORIGINAL_ID,
    "sentence",
    "line",
    "tokens",
    ACTIVATIONS,
)
"""Columns of the output itself."""


class SentenceRows:
    """One row per record: its index and id, its sentence and its activations."""

    def __init__(self, settings: OutputSettings, attributes: Attributes) -> None:
        self._settings = settings
        self.keeps_tokens = keeps_tokens(settings, attributes)

    def fields(self, index: int, record: Record) -> dict[str, Any]:
        """Return the fields of a record, by its index from 0, without kept columns."""
        fields: dict[str, Any] = {"index": index}
        if record.id is not None:
            fields["id"] = record.id_value
        if record.original_id is not None:
            fields[ORIGINAL_ID] = record.original_id
        if not self._settings.forget_sentences:
            fields["sentence"] = record.text
        if record.line is not None:
            fields["line"] = record.line
        if self.keeps_tokens:
            fields["tokens"] = record.tokens
        return fields

    def of(self, index: int, record: Record, values: AnyArray) -> Rows:
        """Return the rows of a record, by its index from 0, with its activations."""
        fields = self.fields(index, record)
        kept = {}
        for old_name, new_name in kept_names(record.columns.keys()).items():
            kept[new_name] = [record.columns[old_name]]
        text_bytes = _RECORD_BYTES + _TOKEN_BYTES * len(record.tokens)
        return Rows(
            n=1,
            own={name: [value] for name, value in fields.items()},
            kept=kept,
            vectors={ACTIVATIONS: [values]},
            n_bytes=values.nbytes + text_bytes,
        )

    def nested(self, vectors: Sequence[Any]) -> Any:
        """Return the vectors of several `Rows` as a column of Arrow."""
        arrays = [values for (values,) in vectors]
        return chunked_nested_array(arrays, pooled=self._settings.pooled)

    def parquet_arguments(
        self, columns: list[str], vectors: ColumnValues
    ) -> dict[str, Any]:
        """Return arguments of `pyarrow.parquet.ParquetWriter`.

        `columns` are all columns without vectors.
        """
        # Activations get no statistics: minimum and maximum of float16 take as long as
        # compression.
        arguments: dict[str, Any] = {"write_statistics": columns}
        if self._settings.compression is not None and vectors:
            (first,) = vectors[ACTIVATIONS][0]
            arguments["compression"] = self._settings.compression
            arguments["use_dictionary"] = columns
            # DuckDB cannot read float16 that is split into streams of bytes.
            arguments["use_byte_stream_split"] = False
            if self._settings.dtype == "float32":
                leaf = ACTIVATIONS + ".list.element" * first.ndim
                arguments["use_byte_stream_split"] = [leaf]
        return arguments


def kept_names(names: Collection[str]) -> dict[str, str]:
    """Return the name of each kept column in an output with one row per record."""
    return renamed_columns(names, taken=_OWN_COLUMNS)
