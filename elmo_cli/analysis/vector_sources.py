"""Sources of vectors: open files with the vectors of words in their sentences, of three kinds.

    activations    HDF5 or a folder of parts: vectors of all tokens, of target words or pooled
    tables         JSON lines and Parquet of `elmo usages`: `COLUMNS` and vectors
    npz            one matrix per target word, without sentences, of `elmo usages` or others

The mean of several layers excludes the token layer, which finds words of similar spelling first,
unless the file has no other layer.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.targets import WORDS, target_positions, target_words
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.missing_files import missing_file
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line, listed, shown
from elmo_cli.files.json_form import parse_json
from elmo_cli.options.selection import Layers, layers_text, parse_layers
from elmo_cli.outputs.attributes import check_attributes
from elmo_cli.outputs.reader import Activations
from elmo_cli.outputs.vector_rows import LAYER_PREFIX, RECORDS, VECTOR
from elmo_cli.records.record import Record
from elmo_cli.text.sources import Source

Array = NDArray[Any]

COLUMNS: Final = ("word", "form", "line", "id", "position", "sentence")
"""Columns of every table of `elmo usages`, without the vectors."""
_BATCH_ROWS: Final = 1024
_ADVICE: Final = "`elmo usages` writes such a file"
_DAMAGE: Final = (
    OSError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    RuntimeError,
)
"""Errors of numpy, zipfile and pyarrow for a damaged file; RuntimeError for an encrypted one."""


class Location(NamedTuple):
    """Location of a sentence: its file, and its number and id in the file."""

    path: Path | str
    number: int
    """Number of the line or record in the text that was embedded, or of the row in npz, from 1."""
    id: str | None

    @property
    def name(self) -> str:
        """Id of the record, or its number if it has no id."""
        return self.id or str(self.number)


class Vectors(NamedTuple):
    """Record of a file with its vectors."""

    source: "VectorSource"
    record_number: int
    """Number of the record in the source, from 0."""
    record: Record
    positions: Sequence[int]
    """Positions of the tokens that have a vector: of all tokens, or of target words."""
    words: Sequence[str]
    """Target word at each position. A token that is no form of a target word is its own."""
    vectors: Array
    """float, shape (n, W), or (1, W) if all tokens are pooled."""

    @property
    def location(self) -> Location:
        """Location of the record."""
        path, number = self.source.origin(self.record_number)
        return Location(path, number + 1, self.record.id)


class VectorSource:
    """Base of the three kinds. A file is opened by the constructor of its kind."""

    paths: list[Path | str]
    attributes: dict[str, Any]
    """Attributes that record how the file was made. They are empty in JSON lines and npz."""
    words: list[str]  # target words that are known before the file is read
    forms: dict[str, str]
    """Target word of each form. Tables, and files of lemmas, fill it while they are read."""
    has_targets = True  # False in a file with the vectors of all tokens
    has_forms = True  # False if a token is a target word itself, in place of its form
    stored_layers: str | None
    """Selection of layers that the file was written with, or None if it is not recorded."""
    layer_numbers: list[int]
    """Numbers of the layers on the axis of layers. Empty without such an axis."""

    @property
    def path(self) -> Path | str:
        """First path, for messages."""
        return self.paths[0]

    def read(self, layers: Layers | None = None) -> Iterator[Vectors]:
        """Yield the records that have tokens, in the order of the file.

        In AllenNLP's layout, only the last of equal sentences has its text, so that the others are
        skipped. `layers` are numbers separated by commas, of which the mean is taken.
        """
        raise NotImplementedError

    def origin(self, record_number: int) -> tuple[Path | str, int]:
        """Return the file of a record, and the number of the record in its input, from 0."""
        return self.path, record_number

    def close(self) -> None:
        """Close the file."""

    def layer_rows(self, layers: Layers | None = None) -> list[int] | None:
        """Return the indices of the layers whose mean is taken; None without an axis of layers."""
        stored, name = self.layer_numbers, self.stored_layers
        if not stored:
            if layers is not None and layers_text(layers) != name:
                has = "one vector per occurrence" if name is None else f"only {name}"
                raise SettingsError(
                    f"--mean-layers {shown(layers)!r}: {self.path} has {has}."
                )
            return None
        if layers is None:
            return [index for index, number in enumerate(stored) if number] or [0]
        chosen = parse_layers(layers, stored)
        if chosen is None:
            has = f"{self.path} has only layers {listed(stored, 'and')}"
            raise SettingsError(f"--mean-layers {shown(layers)!r}: {has}.")
        return [stored.index(number) for number in chosen]

    def has_token_layer(self, layers: Layers | None = None) -> bool:
        """Return whether the vectors contain the token layer, which depends on spelling only."""
        if self.stored_layers is not None:
            self.layer_rows(layers)  # Raise an error for layers that are missing.
        if layers is None and len(self.layer_numbers) > 1:  # The mean excludes it.
            return False
        if layers is not None and self.layer_numbers:
            return 0 in (parse_layers(layers, self.layer_numbers) or ())
        names = layers_text(
            layers if layers is not None else self.stored_layers or ""
        ).split(",")
        return not {"0", "average", "sum", "mix", "word_emb"}.isdisjoint(names)


def mean_of(values: Array, rows: list[int] | None) -> Array:
    """Return the mean of some layers of (L, T, W) or (L, W). With None, return the values."""
    if rows is None:
        return values
    first: Array = values[rows[0]]
    return first if len(rows) == 1 else values[rows].mean(axis=0, dtype=np.float32)


class ActivationsSource(VectorSource):
    """Activations with one vector per token, per target word or per sentence."""

    def __init__(self, activations: Activations) -> None:
        """Read open activations. HDF5 without attributes counts as AllenNLP's with all layers."""
        self._activations = activations
        self.paths, self.attributes = activations.paths, activations.attributes
        self.has_targets = WORDS in self.attributes
        self.forms = json.loads(self.attributes.get(WORDS, "{}"))
        self.words = list(dict.fromkeys(self.forms.values()))
        name = self.stored_layers = str(self.attributes.get("layers", "all"))
        first = activations[0] if len(activations) and name == "all" else None
        if first is not None and first.ndim < 3 and "layers" not in self.attributes:
            problem = "the file does not record which layer it has"
            raise InputError(
                f"{self.path}: {problem}. Only files with all layers may omit it."
            )
        self.layer_numbers = [] if first is None else list(range(len(first)))
        if "," in name:
            self.layer_numbers = [int(part) for part in name.split(",")]

    def origin(self, record_number: int) -> tuple[Path | str, int]:
        """Return the file of a record, and the number of the record in its input, from 0."""
        return self._activations.source(record_number)

    def close(self) -> None:
        """Close the file."""
        self._activations.close()

    def read(self, layers: Layers | None = None) -> Iterator[Vectors]:
        """Yield the records that have tokens; see `VectorSource.read`."""
        rows, n_layers = self.layer_rows(layers), len(self.layer_numbers)
        is_pooled = "pooling" in self.attributes
        for index, (record, values) in enumerate(self._activations.records()):
            line = f"{self.path}, line {index + 1:,}"
            if values.ndim != 2 - is_pooled + (n_layers > 0) or n_layers not in (
                0,
                len(values),
            ):
                expected = f"{n_layers or 1} layers, as in the attributes"
                raise InputError(
                    f"{line}: expected {expected}, found the shape {values.shape}"
                )
            vectors = np.atleast_2d(mean_of(values, rows))  # (n, W), pooled too
            try:
                positions = (
                    [0] if is_pooled and record.tokens else target_positions(record)
                )
                words = target_words(record, positions, self.forms)
            except InputError as error:
                raise InputError(f"{line}: {error}") from None
            if len(positions) == len(vectors):
                if WORDS in record.attributes:
                    forms = map(record.tokens.__getitem__, positions)
                    self.forms.update(zip(forms, words, strict=True))
                yield Vectors(self, index, record, positions, words, vectors)
            elif record.tokens:
                numbers = f"{len(positions):,} tokens, but {len(vectors):,} vectors"
                raise InputError(f"{line}: the sentence has {numbers}")
            elif len(vectors) and not self._activations.has_sentences:
                reason = "as for FASTA or after --forget-sentences"
                raise InputError(
                    f"{self.path}: the file does not contain the tokens, {reason}"
                )


_Row = tuple[int, Record, int, str, Array]
"""Number of a record from 0, the record, a position, its target word, and its vectors: (L, W) or
(W,)."""


class _UsagesFile(VectorSource):
    """Base of the files of `elmo usages` other than HDF5. Each pass opens the file again."""

    def __init__(self, path: str | Path) -> None:
        self.paths = [Path(path)]
        self.attributes, self.forms = {}, {}
        self.words, self.layer_numbers = [], []
        if not os.path.exists(path) and os.path.exists(f"{path}.partial"):
            raise InputError(f"{path}: the run is not finished. Run its command again.")
        with self._reporting_damage():
            self._read_header()
        numbers = ",".join(map(str, self.layer_numbers))
        self.stored_layers = self.attributes.get("layers", numbers or None)

    def read(self, layers: Layers | None = None) -> Iterator[Vectors]:
        rows = self.layer_rows(layers)
        with self._reporting_damage():
            for number, record, position, word, values in self._read_rows():
                vectors = mean_of(values, rows)[np.newaxis]
                yield Vectors(self, number, record, [position], [word], vectors)

    def _read_header(self) -> None:
        raise NotImplementedError

    def _read_rows(self) -> Iterator[_Row]:
        raise NotImplementedError

    @contextmanager
    def _reporting_damage(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise missing_file(self.path, InputError) from None
        except InputError:
            raise
        except _DAMAGE as error:
            problem = f"not a readable file of target words: {first_line(error).split('. ')[0]}"
            raise InputError(f"{self.path}: {problem}. {_ADVICE}.") from None


class _Table(_UsagesFile):
    _vector_columns: list[str]

    def _check_columns(self, columns: Iterable[str]) -> None:
        """Set the layers of a table from its columns. Raise an `InputError` for other columns."""
        names = list(columns)
        layers = [name for name in names if name.startswith(LAYER_PREFIX)]
        numbers = [name.removeprefix(LAYER_PREFIX) for name in layers]
        is_named = all(number.isdecimal() and number.isascii() for number in numbers)
        if not (
            {*COLUMNS} <= {*names} and is_named and (VECTOR in names) != bool(layers)
        ):
            expected = (
                f"the columns {', '.join(COLUMNS)} and {VECTOR} or {LAYER_PREFIX}0, ..."
            )
            found = shown(", ".join(names)) or "none"
            raise InputError(
                f"{self.path}: expected {expected}, found {found}. {_ADVICE}."
            )
        self.layer_numbers = list(map(int, numbers))
        self._vector_columns = layers or [VECTOR]

    def _row(self, number: int, columns: Mapping[str, Any], vectors: Array) -> _Row:
        """Return the occurrence in a row with a number from 1 and vectors of shape (L, W)."""
        tokens, position, form = (
            columns.get("tokens"),
            columns["position"],
            columns["form"],
        )
        sentence = str(columns["sentence"]).split() if tokens is None else tokens
        is_valid = isinstance(position, int) and 0 <= position < len(sentence)
        if not is_valid or sentence[position] != form:
            problem = f"is not the token at position {position} of its sentence"
            raise InputError(
                f"{self.path}, row {number:,}: the form {shown(form)!r} {problem}"
            )
        word, line = columns["word"], columns["line"]
        record_id = None if columns["id"] is None else str(columns["id"])
        if not isinstance(word, str) or not isinstance(line, int):
            found = f"{shown(word)!r} and {shown(line)!r}"
            expected = f"expected a word and the number of a line, found {found}"
            raise InputError(f"{self.path}, row {number:,}: {expected}")
        self.forms[str(form)] = word
        values = vectors if self.layer_numbers else vectors[0]
        return line - 1, Record("", sentence, record_id), position, word, values


class _JsonlUsages(_Table):
    def _read_header(self) -> None:
        _, columns = next(self._objects(), (0, None))
        if columns is None:
            raise InputError(f"{self.path}: expected rows, found none. {_ADVICE}.")
        self._check_columns(columns)

    def _read_rows(self) -> Iterator[_Row]:
        for number, columns in self._objects():
            try:
                vectors = [
                    np.array(columns[name], np.float32) for name in self._vector_columns
                ]
                row = self._row(number, columns, np.stack(vectors))
            except (KeyError, TypeError, ValueError) as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(
                    f"{self.path}, line {number:,}: invalid row: {error}"
                ) from None
            yield row

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with Source(self.path) as source:
            lines, _ = source.lines()
            for number, line in enumerate(lines, start=1):
                content = None
                with suppress(
                    ValueError, RecursionError
                ):  # The latter is of deeply nested JSON.
                    content = json.loads(line)
                if not isinstance(content, dict):
                    problem = (
                        f"expected a JSON object, found {line[:60] or 'a blank line'}"
                    )
                    raise InputError(f"{self.path}, line {number:,}: {problem}")
                yield number, content


class _ParquetUsages(_Table):
    def _read_header(self) -> None:
        with self._open() as file:
            from pyarrow.types import is_floating, is_nested

            schema = file.schema_arrow
            self._check_columns(schema.names)
            for name in self._vector_columns:
                kind = schema.field(name).type
                if not is_floating(getattr(kind, "value_type", kind)) or not is_nested(
                    kind
                ):
                    problem = f"column {name}: expected lists of floats, found {kind}"
                    raise InputError(f"{self.path}: {problem}. {_ADVICE}.")
            metadata = file.metadata.metadata or {}
        path = str(self.path)
        self.attributes = parse_json(metadata.get(b"elmo", b"{}"), dict[str, str], path)
        check_attributes(self.attributes, path)
        self.forms = parse_json(self.attributes.get(WORDS, "{}"), dict[str, str], path)
        self.words = list(dict.fromkeys(self.forms.values()))

    def _read_rows(self) -> Iterator[_Row]:
        numbers = count(1)
        with self._open() as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                names = [
                    name for name in batch.schema.names if name in (*COLUMNS, "tokens")
                ]
                texts = batch.select(names).to_pylist()
                # Lists of any size are accepted, because other programs may have rewritten a file.
                flat = [batch.column(name).flatten() for name in self._vector_columns]
                vectors = [values.to_numpy().reshape(len(texts), -1) for values in flat]
                for columns, rows in zip(texts, np.stack(vectors, axis=1), strict=True):
                    yield self._row(next(numbers), columns, rows)

    def _open(self) -> Any:
        load_extra(f"{self.path}: Parquet", "pyarrow", "parquet")
        from pyarrow import parquet

        return parquet.ParquetFile(self.path)


class _NpzUsages(_UsagesFile):
    """Reader for npz with one matrix per word, of `elmo usages` or another program."""

    has_forms = False

    def _read_header(self) -> None:
        with np.load(self.path, allow_pickle=False) as arrays:
            names = list(arrays)
        if RECORDS in names or names == [str(number) for number in range(len(names))]:
            problem = "expected one matrix per word, found one per line"
            raise InputError(f"{self.path}: {problem}. {_ADVICE}.")
        self.words = names

    def _read_rows(self) -> Iterator[_Row]:
        with np.load(self.path, allow_pickle=False) as arrays:
            for word in self.words:
                matrix = arrays[word]
                if matrix.ndim != 2 or matrix.dtype.kind != "f":
                    expected = "one matrix per word with one row per occurrence"
                    found = f"{word!r} with {matrix.dtype} values of the shape {matrix.shape}"
                    remedy = "`elmo usages --layers top` writes matrices."
                    raise InputError(
                        f"{self.path}: expected {expected}, found {found}. {remedy}"
                    )
                for number, row in enumerate(matrix):
                    yield number, Record("", [word]), 0, word, row


_USAGES: Final[dict[str, type[_UsagesFile]]] = {
    ".npz": _NpzUsages,
    ".parquet": _ParquetUsages,
    ".jsonl": _JsonlUsages,
    ".jsonl.gz": _JsonlUsages,
}


def usages_type(path: str | Path) -> type[_UsagesFile] | None:
    """Return the reader for a file of `elmo usages` by its suffix, or None for HDF5."""
    name = str(path).lower()
    return next(
        (kind for suffix, kind in _USAGES.items() if name.endswith(suffix)), None
    )
