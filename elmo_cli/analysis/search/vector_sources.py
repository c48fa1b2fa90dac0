"""Open files with the vectors of words in their sentences.

They are HDF5 files or folders of parts, with the vectors of all tokens, of target words
or of sentences; or tables of `elmo occurrences` in Parquet, with one target word per
row.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from elmo_cli.analysis.occurrences.targets import WORDS, target_positions, target_words
from elmo_cli.arrays import AnyArray
from elmo_cli.callbacks import ignore
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import literal
from elmo_cli.errors.missing_files import missing_file_error
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import listed, shown, system_reason
from elmo_cli.files.json_form import parse_json
from elmo_cli.files.parquet_files import (
    PARQUET_MAGIC,
    open_parquet,
    unreadable_reason,
)
from elmo_cli.options.layers import (
    Layers,
    joins_token_layer,
    layers_text,
    parse_layers,
    parse_mean_layers,
    without_token_layer,
)
from elmo_cli.options.output_format import PARQUET, format_of_suffix
from elmo_cli.outputs.attributes import check_attributes, layers_of
from elmo_cli.outputs.output_rows import LAYER_PREFIX, SENTENCE_NUMBER, VECTOR
from elmo_cli.outputs.reader import Activations
from elmo_cli.records.record import Record

COLUMNS: Final = ("word", "form", "line", "id", "position", "sentence")
"""Columns of every table of `elmo occurrences`, without the vectors."""
_BATCH_ROWS: Final = 1024
_ADVICE: Final = "`elmo occurrences` writes such a file"
_OTHER_FORMATS: Final = {
    ".npz": "npz",
    ".npy": "npy",
    ".jsonl": "JSON lines",
    ".jsonl.gz": "JSON lines",
}
"""Formats of `elmo embed` that are not searched, by their suffixes."""


class Location(NamedTuple):
    """Location of a sentence: its file, and its number and id in the file."""

    path: Path | str
    number: int
    """Number of the line or record in the text that was embedded, from 1.

    It is the line with the sentence if lines were split into sentences.
    """
    id: str | None

    @property
    def name(self) -> str:
        """Id of the record, or its number if it has no id."""
        return self.id or str(self.number)


class Vectors(NamedTuple):
    """Record of a file with its vectors."""

    source: "VectorSource"
    record_index: int
    """Index of the record in the source."""
    record: Record
    positions: Sequence[int]
    """Positions of the tokens that have a vector: of all tokens, or of target words."""
    words: Sequence[str]
    """Target word at each position.

    A token that is not a form of a target word is its own target word.
    """
    vectors: AnyArray
    """float, shape (n, W), or (1, W) if all tokens are pooled."""

    def __repr__(self) -> str:
        location = self.location
        return (
            f"Vectors(words={list(self.words)}, path={str(location.path)!r}, "
            f"number={location.number}, shape={self.vectors.shape})"
        )

    @property
    def location(self) -> Location:
        """Location of the record."""
        path, index = self.source.origin(self.record_index)
        line = self.record.line
        number = index + 1 if line is None else line
        return Location(path, number, self.record.id)


class StoredRecord(NamedTuple):
    """Record with its vectors as a file has them."""

    record_index: int
    """Index of the record in the source."""
    record: Record
    positions: Sequence[int]
    words: Sequence[str]
    values: AnyArray
    """(n, W), (L, n, W), or without the n if there is one vector."""


@dataclass(eq=False)
class VectorSource:
    """Open file with vectors; see `activations_source` and `table_source`."""

    paths: list[Path | str]
    attributes: dict[str, Any]
    """Attributes that record how the file was made.

    A table that another program wrote has none.
    """
    has_targets: bool
    """False for a file with the vectors of all tokens."""
    forms: dict[str, str]
    """Target word of each form: of the attributes, and of the records read so far."""
    stored_layers: str | None
    """Selection of layers that the file was written with; None if unknown."""
    layers_of_axis: list[int]
    """Layers on the axis of layers; empty without such an axis."""
    stored_records: Callable[[], Iterator[StoredRecord]]
    """Function that reads the file from its start."""
    origin: Callable[[int], tuple[Path | str, int]]
    """Function from a record's index to its file and its index in the text there."""
    close: Callable[[], object] = ignore
    """Function that closes the file."""

    def __post_init__(self) -> None:
        # target words that are known before the file is read
        self.words = list(dict.fromkeys(self.forms.values()))

    @property
    def path(self) -> Path | str:
        """First path, for messages."""
        return self.paths[0]

    def read(self, layers: Layers | None = None) -> Iterator[Vectors]:
        """Yield the records that have tokens, in the order of the file.

        In AllenNLP's layout, only the last of equal sentences has its text, so the
        others are skipped. `layers` are numbers separated by commas, of which the mean
        is taken. By default they are all layers except the token layer, which finds
        words of similar spelling first, unless the file has no other layer.
        """
        rows = self.layer_rows(layers)
        for stored in self.stored_records():
            if self.has_targets:
                tokens = stored.record.tokens
                for position, word in zip(stored.positions, stored.words, strict=True):
                    self.forms[tokens[position]] = word
            yield Vectors(
                source=self,
                record_index=stored.record_index,
                record=stored.record,
                positions=stored.positions,
                words=stored.words,
                vectors=np.atleast_2d(mean_of(stored.values, rows)),
            )

    def layer_rows(self, layers: Layers | None = None) -> list[int] | None:
        """Return the indices of the layers whose mean is taken.

        Without an axis of layers, return None. If the file does not say which layer it
        has, `layers` says it.
        """
        stored = self.layers_of_axis
        name = self.stored_layers
        if not stored:
            if layers is None or name is None or self._is_stored(layers):
                return None
            has = f"only {name}"
            if name.lstrip("-").isdigit():
                has = f"only layer {name}"
            elif name == "top":
                has = "only the top layer"
            raise self._layers_error(layers, f"{self.path} has {has}.")
        if layers is None:
            return [stored.index(layer) for layer in without_token_layer(stored)]
        if name == "all":
            return parse_mean_layers(layers, len(stored))
        chosen = parse_layers(layers, stored)
        if chosen is None:
            has = f"only layers {listed(stored, 'and')}"
            raise self._layers_error(layers, f"{self.path} has {has}.")
        return [stored.index(layer) for layer in chosen]

    def _is_stored(self, layers: Layers) -> bool:
        """Return whether a choice means the one layer of the file, by any name."""
        text = layers_text(layers)
        chosen = {**self.attributes, "layers": text}
        is_same = layers_of(chosen) == layers_of(self.attributes)
        return text == self.stored_layers or is_same

    def has_token_layer(self, layers: Layers | None = None) -> bool:
        """Return whether the vectors have the token layer, which depends on spelling.

        Raises:
            SettingsError: The file lacks the layers.
        """
        rows = None
        if self.stored_layers is not None or self.layers_of_axis:
            rows = self.layer_rows(layers)
        if rows is not None:
            return 0 in [self.layers_of_axis[row] for row in rows]
        # The layers were joined when the file was written.
        joined = self.stored_layers if layers is None else layers_text(layers)
        names = (joined or "").split(",")
        return any(map(joins_token_layer, names))

    def _layers_error(self, layers: Layers, problem: str) -> SettingsError:
        return SettingsError(
            "{--layers} {layers}: {problem}",
            layers=shown(layers_text(layers)),
            problem=problem,
        )


def mean_of(values: AnyArray, rows: list[int] | None) -> AnyArray:
    """Return the mean of some layers of (L, T, W) or (L, W).

    Without `rows`, there is no axis of layers, and the values are returned.
    """
    if rows is None:
        return values
    if len(rows) == 1:
        first: AnyArray = values[rows[0]]
        return first
    mean: AnyArray = values[rows].mean(axis=0, dtype=np.float32)
    return mean


def is_table(path: str | Path) -> bool:
    """Return whether a path has the suffix or the content of a table of target words.

    Raises:
        InputError: The path has a suffix of a format that is not read.
    """
    name = str(path).lower()
    for suffix, format_name in _OTHER_FORMATS.items():
        if name.endswith(suffix):
            if not os.path.exists(path):
                raise missing_file_error(path, InputError)
            raise _not_searched_error(path, format_name)
    return format_of_suffix(path) is PARQUET or _begins_like_parquet(path)


def _begins_like_parquet(path: str | Path) -> bool:
    """Return whether a file begins like Parquet, whatever its name is."""
    if not os.path.isfile(path):  # Opening a named pipe would wait.
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    except OSError:  # What reads it says why.
        return False


def _not_searched_error(path: str | Path, format_name: str) -> InputError:
    """Return the error for vectors in a format of `elmo embed` that is not read."""
    start = str(path).removesuffix(".gz").rpartition(".")[0]
    output = shlex.quote(f"{start}.hdf5")
    return InputError(
        f"{path}: expected HDF5, or Parquet from `elmo occurrences`, found "
        f"{format_name}",
        remedy=f"Write it with `elmo embed INPUT {literal(output)}`.",
    )


def activations_source(activations: Activations) -> VectorSource:
    """Return the source of open activations.

    They have one vector per token, per target word or per sentence. HDF5 without
    attributes counts as AllenNLP's with all layers.
    """
    attributes = activations.attributes
    path = activations.paths[0]
    name = str(attributes.get("layers", "all"))
    layers_of_axis: list[int] = []
    if "," in name:
        layers_of_axis = [int(part) for part in name.split(",")]
    elif name == "all" and len(activations):
        first = activations[0]
        if first.ndim < 3 and "layers" not in attributes:
            raise InputError(
                f"{path}: the file does not record which layer it has",
                remedy="Only files with all layers may omit it.",
            )
        layers_of_axis = list(range(len(first)))
    forms: dict[str, str] = json.loads(attributes.get(WORDS, "{}"))
    return VectorSource(
        paths=activations.paths,
        attributes=attributes,
        has_targets=WORDS in attributes,
        forms=forms,
        stored_layers=name,
        layers_of_axis=layers_of_axis,
        stored_records=lambda: _stored_activations(
            activations, n_layers=len(layers_of_axis), forms=forms
        ),
        origin=activations.source,
        close=activations.close,
    )


def _stored_activations(
    activations: Activations, *, n_layers: int, forms: Mapping[str, str]
) -> Iterator[StoredRecord]:
    """Yield the records that have tokens, after a check of their shapes."""
    path = activations.paths[0]
    is_pooled = "pooling" in activations.attributes
    axes = ["layers"] if n_layers else []
    axes += ["width"] if is_pooled else ["tokens", "width"]
    for index, (record, values) in enumerate(activations.records()):
        name = f"{path}, record {index + 1:,}"
        if values.ndim != len(axes) or (n_layers and len(values) != n_layers):
            expected = f"{n_layers or 1} layers, as in the attributes"
            raise InputError(
                f"{name}: expected {expected}, found the shape {values.shape}"
            )
        try:
            is_sentence = is_pooled and len(record.tokens) > 0
            positions = [0] if is_sentence else target_positions(record)
            words = target_words(record, positions, forms)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        n_vectors = 1 if is_pooled else values.shape[-2]
        if len(positions) == n_vectors:
            yield StoredRecord(
                record_index=index,
                record=record,
                positions=positions,
                words=words,
                values=values,
            )
        elif record.tokens:
            numbers = f"{len(positions):,} tokens, but {n_vectors:,} vectors"
            raise InputError(f"{name}: the sentence has {numbers}")
        elif n_vectors and not activations.has_sentences:
            raise InputError(
                "{path}: the file does not contain the tokens, as for FASTA or "
                "after {--forget-sentences True}",
                path=path,
            )


class _TableHead(NamedTuple):
    """What the schema of a table says."""

    attributes: dict[str, str]
    layers_of_axis: list[int]
    vector_columns: list[str]


def table_source(path: str | Path) -> VectorSource:
    """Return the source of a table of target words. Each pass opens the file again."""
    if not os.path.exists(path) and os.path.exists(f"{path}.partial"):
        raise InputError(
            f"{path}: the run is not finished", remedy="Run its command again."
        )
    with _damage_as_input_error(path), _open_parquet(path) as file:
        head = _read_head(path, file)
    text = head.attributes.get(WORDS, "{}")
    numbers = ",".join(map(str, head.layers_of_axis))
    return VectorSource(
        paths=[Path(path)],
        attributes=head.attributes,
        has_targets=True,
        forms=parse_json(text, dict[str, str], str(path)),
        stored_layers=head.attributes.get("layers", numbers or None),
        layers_of_axis=head.layers_of_axis,
        stored_records=lambda: _stored_rows(path, head),
        origin=lambda index: (Path(path), index),
    )


def _open_parquet(path: str | Path) -> Any:
    load_extra(f"{path}: Parquet", "pyarrow", "parquet")
    return open_parquet(path)


@contextmanager
def _damage_as_input_error(path: str | Path) -> Iterator[None]:
    """Turn errors of pyarrow for an unreadable file into an `InputError`."""
    try:
        yield
    except FileNotFoundError:
        raise missing_file_error(path, InputError) from None
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        reason = unreadable_reason(error)
        if isinstance(error, OSError):
            reason = system_reason(error)
        reason = reason.split(". ")[0]
        raise InputError(
            f"{path}: not a readable file of target words: {reason}",
            remedy=f"{_ADVICE}.",
        ) from None


def _read_head(path: str | Path, file: Any) -> _TableHead:
    """Check the columns of an open table, and read its attributes."""
    from pyarrow.types import is_floating, is_nested

    schema = file.schema_arrow
    layers = [name for name in schema.names if name.startswith(LAYER_PREFIX)]
    numbers = [name.removeprefix(LAYER_PREFIX) for name in layers]
    are_numbers = all(re.fullmatch("[0-9]{1,9}", number) for number in numbers)
    has_vector = VECTOR in schema.names
    has_columns = set(COLUMNS) <= set(schema.names)
    has_both = has_vector and len(layers) > 0
    has_neither = not has_vector and len(layers) == 0
    if "activations" in schema.names and "word" not in schema.names:
        raise _not_searched_error(path, "Parquet from `elmo embed`")
    if not has_columns or not are_numbers or has_both or has_neither:
        found = shown(", ".join(schema.names)) or "none"
        raise InputError(
            f"{path}: expected the columns {', '.join(COLUMNS)} and {VECTOR} or "
            f"{LAYER_PREFIX}0, ..., found {found}",
            remedy=f"{_ADVICE}.",
        )

    vector_columns = layers or [VECTOR]
    for name in vector_columns:
        kind = schema.field(name).type
        values = getattr(kind, "value_type", kind)
        if not is_nested(kind) or not is_floating(values):
            raise InputError(
                f"{path}: column {name}: expected lists of floats, found {kind}",
                remedy=f"{_ADVICE}.",
            )

    metadata = file.metadata.metadata or {}
    attributes = parse_json(metadata.get(b"elmo", b"{}"), dict[str, str], str(path))
    check_attributes(attributes, str(path))
    return _TableHead(
        attributes=attributes,
        layers_of_axis=[int(number) for number in numbers],
        vector_columns=vector_columns,
    )


def _stored_rows(path: str | Path, head: _TableHead) -> Iterator[StoredRecord]:
    """Yield the occurrences of a table."""
    names = (*COLUMNS, SENTENCE_NUMBER, "tokens")
    numbers = count(1)
    with _damage_as_input_error(path), _open_parquet(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            texts = batch.select(
                [name for name in batch.schema.names if name in names]
            ).to_pylist()
            # Lists of any size are accepted, because other programs may have written a
            # file.
            flat = [batch.column(name).flatten() for name in head.vector_columns]
            layers = [values.to_numpy().reshape(len(texts), -1) for values in flat]
            vectors = np.stack(layers, axis=1)  # (n, L, W)
            for columns, values in zip(texts, vectors, strict=True):
                location = f"{path}, row {next(numbers):,}"
                if not head.layers_of_axis:
                    values = values[0]
                yield _stored_row(location, columns, values)


def _stored_row(
    location: str, columns: Mapping[str, Any], values: AnyArray
) -> StoredRecord:
    """Return the occurrence in a row, with vectors of shape (L, W) or (W,)."""
    form = columns["form"]
    position = columns["position"]
    sentence = columns.get("tokens")
    if sentence is None:
        sentence = str(columns["sentence"]).split()
    is_position = isinstance(position, int) and 0 <= position < len(sentence)
    if not is_position or sentence[position] != form:
        problem = f"is not the token at position {position} of its sentence"
        raise InputError(f"{location}: the form {shown(form)!r} {problem}")
    word = columns["word"]
    line = columns["line"]
    if not isinstance(word, str) or not isinstance(line, int):
        found = f"{shown(word)!r} and {shown(line)!r}"
        expected = f"expected a word and the number of a line, found {found}"
        raise InputError(f"{location}: {expected}")
    record_id = None if columns["id"] is None else str(columns["id"])
    number = columns.get(SENTENCE_NUMBER)
    return StoredRecord(
        record_index=(number if isinstance(number, int) else line) - 1,
        record=Record("", sentence, id=record_id, line=line),
        positions=[position],
        words=[word],
        values=values,
    )
