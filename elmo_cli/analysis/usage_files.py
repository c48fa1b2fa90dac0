"""Readers for the files of `elmo usages` other than HDF5: Parquet, JSON lines and npz.

`usage_writers` describes the columns of a table. npz has one matrix per word, without sentences.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.target_words import WORDS
from elmo_cli.analysis.usage_writers import COLUMNS
from elmo_cli.errors import InputError, MissingInputError, first_line, load_extra, shown
from elmo_cli.json_form import parse_json
from elmo_cli.outputs.attributes import check_attributes
from elmo_cli.outputs.streams import RECORDS
from elmo_cli.outputs.tables import LAYER_PREFIX, VECTOR
from elmo_cli.text.lines import open_lines
from elmo_cli.text.records import Sentence

Array = NDArray[Any]

_BATCH_ROWS: Final = 1024
_ADVICE: Final = "`elmo usages` writes such a file"


_DAMAGE: Final = (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""Errors of numpy, zipfile and pyarrow for a damaged file; RuntimeError for an encrypted one."""


class UsageRow(NamedTuple):
    """One occurrence of a target word."""

    word: str
    tokens: Sentence
    """Tokens of its sentence. In npz, only the word."""
    position: int
    number: int
    """Number of its line, or of its row in npz, from 1."""
    id: str | None
    vectors: Array
    """float, shape (L, W), or (W,) for one layer."""


class UsagesFile:
    """Base of the readers for one file. The file is opened again for each pass over it."""

    has_sentences = True
    """True if the file has sentences and forms."""

    def __init__(self, path: str | Path) -> None:
        """Check that a file has the occurrences of target words.

        Raises:
            InputError: The file is missing, damaged or of another kind.
        """
        self.path = Path(path)
        self.attributes: dict[str, Any] = {}
        """Attributes that record how the file was made. They are empty in JSON lines and npz."""
        self.layers: list[str] = []
        """Numbers of the layers, if there are several."""
        self.words: list[str] = []
        """Target words that are known before the file is read."""
        self.forms: dict[str, str] = {}
        """Target word of each form. Without attributes, it is filled while the file is read."""
        if not os.path.exists(path) and os.path.exists(f"{path}.partial"):
            raise InputError(f"{path}: the run is not finished. Run its command again.")
        with self._reporting_damage():
            self._read_header()

    def rows(self) -> Iterator[UsageRow]:
        """Yield the occurrences in the order of the file.

        Raises:
            InputError: The file is damaged.
        """
        with self._reporting_damage():
            yield from self._read_rows()

    def _read_header(self) -> None:
        raise NotImplementedError

    def _read_rows(self) -> Iterator[UsageRow]:
        raise NotImplementedError

    @contextmanager
    def _reporting_damage(self) -> Iterator[None]:
        """Convert errors of the format to an `InputError` with the path."""
        try:
            yield
        except FileNotFoundError:
            raise MissingInputError(f"{self.path}: no such file") from None
        except InputError:
            raise
        except _DAMAGE as error:
            raise InputError(
                f"{self.path}: not a readable file of target words: {first_line(error)}. {_ADVICE}."
            ) from None


class _Table(UsagesFile):
    """Base of the readers for tables."""

    def _check_columns(self, columns: Iterable[str]) -> None:
        """Set the layers of a table from its columns. Raise an `InputError` for other columns."""
        names = list(columns)
        layers = [name for name in names if name.startswith(LAYER_PREFIX)]
        numbers = [name.removeprefix(LAYER_PREFIX) for name in layers]
        is_named = all(number.isdecimal() and number.isascii() for number in numbers)
        if not ({*COLUMNS} <= {*names} and is_named and (VECTOR in names) != bool(layers)):
            raise InputError(
                f"{self.path}: expected the columns {', '.join(COLUMNS)} and {VECTOR} or "
                f"{LAYER_PREFIX}0, ..., found {shown(', '.join(names)) or 'none'}. {_ADVICE}."
            )
        self.layers = numbers

    @property
    def _vector_columns(self) -> list[str]:
        return [f"{LAYER_PREFIX}{layer}" for layer in self.layers] or [VECTOR]

    def _row(self, number: int, columns: Mapping[str, Any], vectors: Array) -> UsageRow:
        """Return the occurrence in a row with a number from 1 and vectors of shape (L, W)."""
        tokens, position, form = columns.get("tokens"), columns["position"], columns["form"]
        sentence = str(columns["sentence"]).split() if tokens is None else tokens
        is_valid = isinstance(position, int) and 0 <= position < len(sentence)
        if not is_valid or sentence[position] != form:
            raise InputError(
                f"{self.path}, row {number:,}: the form {shown(form)!r} is not the token at "
                f"position {position} of its sentence"
            )
        word, line = columns["word"], columns["line"]
        record_id = None if columns["id"] is None else str(columns["id"])
        if not isinstance(word, str) or not isinstance(line, int):
            raise InputError(
                f"{self.path}, row {number:,}: expected a word and the number of a line, found "
                f"{shown(word)!r} and {shown(line)!r}"
            )
        self.forms[str(form)] = str(word)
        rows = vectors if self.layers else vectors[0]
        return UsageRow(word, sentence, position, line, record_id, rows)


class JsonlUsages(_Table):
    """Reader for JSON lines."""

    def _read_header(self) -> None:
        for _, columns in self._objects():
            self._check_columns(columns)
            return
        raise InputError(f"{self.path}: expected rows, found none. {_ADVICE}.")

    def _read_rows(self) -> Iterator[UsageRow]:
        for number, columns in self._objects():
            try:
                vectors = [np.array(columns[name], np.float32) for name in self._vector_columns]
                row = self._row(number, columns, np.stack(vectors))
            except (KeyError, TypeError, ValueError) as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{self.path}, line {number:,}: invalid row: {error}") from None
            yield row

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects with their line numbers, from 1."""
        with open_lines(self.path) as (lines, _):
            for number, line in enumerate(lines, start=1):
                try:
                    content = json.loads(line)
                except (ValueError, RecursionError):  # Deeply nested JSON raises RecursionError.
                    content = None
                if not isinstance(content, dict):
                    raise InputError(
                        f"{self.path}, line {number:,}: expected a JSON object, found "
                        f"{line[:60] or 'a blank line'}"
                    )
                yield number, content


class ParquetUsages(_Table):
    """Reader for Parquet."""

    def _read_header(self) -> None:
        with self._open() as file:
            from pyarrow.types import is_floating, is_nested

            schema = file.schema_arrow
            self._check_columns(schema.names)
            for name in self._vector_columns:
                kind = schema.field(name).type
                if not is_floating(getattr(kind, "value_type", kind)) or not is_nested(kind):
                    raise InputError(
                        f"{self.path}: column {name}: expected lists of floats, found {kind}. "
                        f"{_ADVICE}."
                    )
            metadata = file.metadata.metadata or {}
        path = str(self.path)
        self.attributes = parse_json(metadata.get(b"elmo", b"{}"), dict[str, str], path)
        check_attributes(self.attributes, path)
        self.forms = parse_json(self.attributes.get(WORDS, "{}"), dict[str, str], path)
        self.words = list(dict.fromkeys(self.forms.values()))

    def _read_rows(self) -> Iterator[UsageRow]:
        number = 0
        with self._open() as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                names = [name for name in batch.schema.names if name in (*COLUMNS, "tokens")]
                texts = batch.select(names).to_pylist()
                # Lists of any size are accepted, because other programs may have rewritten a file.
                vectors = [
                    batch.column(name).flatten().to_numpy().reshape(len(texts), -1)
                    for name in self._vector_columns
                ]
                for columns, rows in zip(texts, np.stack(vectors, axis=1), strict=True):
                    number += 1
                    yield self._row(number, columns, rows)

    def _open(self) -> Any:
        load_extra(f"{self.path}: Parquet", "pyarrow", "parquet")
        from pyarrow import parquet

        return parquet.ParquetFile(self.path)


class NpzUsages(UsagesFile):
    """Reader for npz with one matrix per word, of `elmo usages` or another program."""

    has_sentences = False

    def _read_header(self) -> None:
        with np.load(self.path, allow_pickle=False) as arrays:
            names = list(arrays)
        if RECORDS in names or names == [str(number) for number in range(len(names))]:
            raise InputError(
                f"{self.path}: expected one matrix per word, found one per line. {_ADVICE}."
            )
        self.words = names

    def _read_rows(self) -> Iterator[UsageRow]:
        with np.load(self.path, allow_pickle=False) as arrays:
            for word in self.words:
                matrix = arrays[word]
                if matrix.ndim != 2 or matrix.dtype.kind != "f":
                    raise InputError(
                        f"{self.path}: expected one matrix per word with one row per occurrence, "
                        f"found {word!r} with {matrix.dtype} values of the shape {matrix.shape}. "
                        "`elmo usages --layers top` writes matrices."
                    )
                for number, row in enumerate(matrix, start=1):
                    yield UsageRow(word, [word], 0, number, None, row)


_READERS: Final[dict[str, type[UsagesFile]]] = {
    ".npz": NpzUsages,
    ".parquet": ParquetUsages,
    ".jsonl": JsonlUsages,
    ".jsonl.gz": JsonlUsages,
}


def is_usages_file(path: str | Path) -> bool:
    """Return whether a path has the suffix of one of these formats."""
    return str(path).lower().endswith(tuple(_READERS))


def open_usages(path: str | Path) -> UsagesFile:
    """Open a file by its suffix; see `UsagesFile`."""
    suffix = next(suffix for suffix in _READERS if str(path).lower().endswith(suffix))
    return _READERS[suffix](path)
