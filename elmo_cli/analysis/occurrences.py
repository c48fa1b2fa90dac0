"""Occurrences of words in files of vectors: tokens with their sentences and vectors.

Readers for the files of `elmo usages` other than HDF5: Parquet, JSON lines and npz.

`usage_writers` describes the columns of a table. npz has one matrix per word, without sentences.

One open file of vectors: its attributes, target words and layers.

The mean of several layers is one vector. It excludes the token layer, which finds words of similar
spelling first, unless the file has no other layer.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.analysis.cosine import Occurrence
from elmo_cli.analysis.targets import WORDS, target_positions
from elmo_cli.analysis.usages import COLUMNS
from elmo_cli.errors import ElmoError, InputError, MissingInputError, first_line, load_extra, shown
from elmo_cli.json_form import parse_json
from elmo_cli.outputs.output_formats import check_attributes
from elmo_cli.outputs.reader import Activations, check_same, matching_paths
from elmo_cli.outputs.vector_rows import LAYER_PREFIX, RECORDS, VECTOR
from elmo_cli.text.records import Record, Sentence
from elmo_cli.text.sources import open_lines

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


Source = Activations | UsagesFile


def paths_of(source: Source) -> list[Path | str]:
    """Return the paths of a source."""
    return [source.path] if isinstance(source, UsagesFile) else source.paths


def check_agreement(first: Source, other: Source, names: Sequence[str]) -> None:
    """Raise an `InputError` unless two sources agree in these attributes."""
    check_same([(paths_of(source)[0], source.attributes) for source in (first, other)], names)


def forms_of(source: Source) -> Mapping[str, str]:
    """Return the target word of each form. It is empty if a file has the vectors of all tokens."""
    if isinstance(source, UsagesFile):
        return source.forms
    forms: dict[str, str] = json.loads(source.attributes.get(WORDS, "{}"))
    return forms


def has_targets(source: Source) -> bool:
    """Return whether a file has the vectors of target words only."""
    return isinstance(source, UsagesFile) or WORDS in source.attributes


def check_pooling(source: Source, *, pooled: bool) -> None:
    """Raise an `InputError` unless a file has one vector per sentence, or one per token."""
    path, pooling = paths_of(source)[0], source.attributes.get("pooling")
    if pooled and pooling is None:
        raise InputError(
            f"{path}: expected one vector per sentence, found one per token. `elmo embed --pooling "
            "mean` writes the former."
        )
    if not pooled and pooling is not None:
        raise InputError(
            f"{path}: expected one vector per token, found one per sentence, by --pooling "
            f"{pooling}. `elmo neighbours --sentence` searches it."
        )


def layer_rows(source: Source, layers: str | None = None) -> list[int] | None:
    """Return the indices, on the axis of layers, of the layers whose mean is taken.

    Return None for a file with one layer or mix, which has no axis of layers.
    """
    path, name = paths_of(source)[0], stored_layers(source)
    stored = layer_numbers(source)
    if not stored:
        if layers not in (None, name):
            has = "one vector per occurrence" if name is None else f"only {name}"
            raise InputError(f"{path}: layers {shown(layers)!r}: the file has {has}")
        return None
    if layers is None:
        return [index for index, number in enumerate(stored) if number] or [0]
    chosen = [part.strip() for part in layers.split(",")]
    if not set(chosen) <= set(map(str, stored)):
        numbers = ",".join(map(str, stored))
        raise InputError(f"{path}: layers {shown(layers)!r}: the file has only layers {numbers}")
    return [stored.index(int(part)) for part in chosen]


def layer_numbers(source: Source) -> list[int]:
    """Return the numbers of the layers of a file. The list is empty without an axis of layers."""
    name = stored_layers(source)
    if isinstance(source, UsagesFile):
        return [int(layer) for layer in source.layers]
    if name == "all" and len(source):
        return list(range(len(source[0])))
    return [int(part) for part in (name or "").split(",")] if "," in (name or "") else []


def stored_layers(source: Source) -> str | None:
    """Return the selection of layers that a file was written with, or None if it is not recorded.

    HDF5 files without the attribute count as files of AllenNLP with all layers.
    """
    name = source.attributes.get("layers")
    if isinstance(source, UsagesFile):
        return ",".join(source.layers) if name is None and source.layers else name
    if name is None and len(source) and source[0].ndim < 3:
        raise InputError(
            f"{source.paths[0]}: the file does not record which layer it has. Only files with all "
            "layers may omit it."
        )
    return "all" if name is None else str(name)


def has_token_layer(source: Source, layers: str | None = None) -> bool:
    """Return whether the vectors contain the token layer, which depends on spelling only."""
    stored = stored_layers(source) or ""
    if stored:
        layer_rows(source, layers)  # Raise an error for layers that are missing.
    name = stored if layers is None else layers
    if layers is None and "," in name:  # The mean excludes it.
        return False
    return name in ("average", "sum", "mix", "word_emb") or "0" in name.split(",")


def mean_of(values: Array, rows: list[int] | None) -> Array:
    """Return the mean of some layers of (n, T, W) or (n, W). With None, return the values."""
    if rows is None:
        return values
    first: Array = values[rows[0]]
    return first if len(rows) == 1 else values[rows].mean(axis=0, dtype=np.float32)


OnProgress = Callable[[int], object]

_SHARED: Final = ("model_sha256", "state", "layers", "mix", "gamma", "pooling", "format")
"""Attributes that must be equal in files that are read together, if the files have attributes."""


class Location(NamedTuple):
    """Location of a sentence: its file, and its number and id in the file."""

    path: Path | str
    number: int
    """Number of the line or record in the text that was embedded, from 1."""
    id: str | None

    @property
    def name(self) -> str:
        """Id of the record, or its number if it has no id."""
        return self.id or str(self.number)


class Vectors(NamedTuple):
    """Record of a file with its vectors."""

    source: Source
    record_number: int
    """Number of the record in the source, from 0."""
    record: Record
    positions: Sequence[int]
    """Positions of the tokens that have a vector: of all tokens, or of target words."""
    vectors: Array
    """float, shape (n, W), or (1, W) if all tokens are pooled."""
    forms: Mapping[str, str]
    """Target word of each form. A token that is no form is its own word."""

    @property
    def location(self) -> Location:
        """Location of the record."""
        if isinstance(self.source, UsagesFile):
            return Location(self.source.path, self.record_number + 1, self.record.id)
        path, number = self.source.source(self.record_number)
        return Location(path, number + 1, self.record.id)

    def word(self, position: int) -> str:
        """Return the target word of the token at a position."""
        token = self.record.tokens[position]
        return self.forms.get(token, token)


class EmbeddedOccurrence(NamedTuple):
    """Word in a sentence of a file, with its vector."""

    occurrence: Occurrence
    location: Location
    vector: Array
    """float, shape (W,)."""


class VectorFiles:
    """Open files with vectors of tokens, in the order of `paths`.

        with open_vectors("old.parquet", "new.hdf5") as files:
            for vectors in files.read(): ...

    Args:
        paths: HDF5 files of `elmo embed`, files of `elmo usages` in any format, folders of `elmo
            distribute`, or patterns of such names. The shards of an input are read as one file.
        on_progress: Called with the number of records that were read since the last call.

    Raises:
        InputError: A file is missing or of another kind, or the files do not fit together.
    """

    def __init__(
        self, *paths: str | Path, on_progress: OnProgress = lambda n_records: None
    ) -> None:
        self.sources: list[Source] = []
        """The open files."""
        self.on_progress = on_progress
        try:
            for is_usages, group in groupby(matching_paths(paths), is_usages_file):
                open_group = _open_usages if is_usages else _open_hdf5
                self.sources += open_group(*group)
            self._check_agreement()
        except ElmoError:
            self.close()
            raise

    @property
    def paths(self) -> list[Path | str]:
        """Paths of the files."""
        return [path for source in self.sources for path in paths_of(source)]

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the first file."""
        return self.sources[0].attributes

    @property
    def words(self) -> list[str]:
        """Target words that the files name before they are read."""
        return list(dict.fromkeys(word for source in self.sources for word in _words_of(source)))

    def read(self, layers: str | None = None) -> Iterator[Vectors]:
        """Yield the records of all files; see `read_vectors`."""
        for source in self.sources:
            for vectors in read_vectors(source, layers):
                self.on_progress(1)
                yield vectors

    def close(self) -> None:
        """Close the files."""
        _close(self.sources)

    def __enter__(self) -> "VectorFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_agreement(self) -> None:
        """Raise an `InputError` unless all sources with attributes agree in `_SHARED`."""
        described = [source for source in self.sources if source.attributes]
        for other in described[1:]:
            check_agreement(described[0], other, _SHARED)


open_vectors = VectorFiles


def _open_usages(*paths: Path | str) -> list[UsagesFile]:
    return list(map(open_usages, paths))


def _open_hdf5(*paths: Path | str) -> list[Activations]:
    """Open HDF5 files. The shards of an input become one source."""
    opened: list[Activations] = []
    try:
        for path in paths:
            opened.append(Activations(path))
        if len(opened) == 1 or not any("shard" in file.attributes for file in opened):
            return opened
    except ElmoError:
        _close(opened)
        raise
    _close(opened)
    return [Activations(*paths)]


def _close(sources: Sequence[Source]) -> None:
    for source in sources:
        if isinstance(source, Activations):
            source.close()


def sources_of(files: VectorFiles | Source) -> Sequence[Source]:
    """Return the sources of `VectorFiles`, or a source as a list."""
    return files.sources if isinstance(files, VectorFiles) else [files]


def _words_of(source: Source) -> list[str]:
    words = source.words if isinstance(source, UsagesFile) else forms_of(source).values()
    return list(dict.fromkeys(words))


def find_occurrences(
    files: VectorFiles | Activations,
    words: Mapping[str, str] | None = None,
    layers: str | None = None,
) -> dict[str, list[EmbeddedOccurrence]]:
    """Find the occurrences of words in files of tokens.

    Args:
        files: Files, read in their order.
        words: Target word of each form. Tokens and forms are compared as they are written, with
            their case. In npz, which has no forms, words are compared. None is all target words
            of the files.
        layers: Layers whose mean is the vector, as in `read_vectors`.

    Returns:
        The occurrences of each word, in the order of the files.
    """
    targets = set(words.values()) if words is not None else set()
    names = _target_words(files) if words is None else words.values()
    occurrences: dict[str, list[EmbeddedOccurrence]] = {name: [] for name in names}
    for vectors in _read(files, layers):
        has_forms = not isinstance(vectors.source, UsagesFile) or vectors.source.has_sentences
        for position, vector in zip(vectors.positions, vectors.vectors, strict=True):
            token = vectors.record.tokens[position]
            name: str | None
            if words is None:
                name = vectors.word(position)
            elif has_forms:
                name = words.get(token)
            else:
                name = token if token in targets else None
            if name is not None:
                occurrences.setdefault(name, []).append(_embedded(vectors, position, vector))
    return occurrences


def find_word(
    files: VectorFiles | Activations, word: str, layers: str | None = None
) -> list[EmbeddedOccurrence]:
    """Find the occurrences of one word, in the order of the files.

    A target word of the files is found in all its forms. Another word is found as it is written.
    """
    by_word: list[EmbeddedOccurrence] = []
    by_form: list[EmbeddedOccurrence] = []
    for vectors in _read(files, layers):
        for position, vector in zip(vectors.positions, vectors.vectors, strict=True):
            if vectors.word(position) == word:
                by_word.append(_embedded(vectors, position, vector))
            elif vectors.record.tokens[position] == word:
                by_form.append(_embedded(vectors, position, vector))
    return by_word or by_form


def _embedded(vectors: Vectors, position: int, vector: Array) -> EmbeddedOccurrence:
    occurrence = Occurrence(vectors.record.tokens, position)
    return EmbeddedOccurrence(occurrence, vectors.location, vector.copy())


def _target_words(files: VectorFiles | Activations) -> list[str]:
    return files.words if isinstance(files, VectorFiles) else _words_of(files)


def _read(files: VectorFiles | Activations, layers: str | None) -> Iterator[Vectors]:
    """Yield the records of files of tokens."""
    for source in sources_of(files):
        check_pooling(source, pooled=False)
    return files.read(layers) if isinstance(files, VectorFiles) else read_vectors(files, layers)


def read_vectors(source: Source, layers: str | None = None) -> Iterator[Vectors]:
    """Yield the records of a file that have tokens, in their order.

    Blank lines are skipped. In AllenNLP's layout, only the last of equal sentences has its text,
    so that the others are skipped, too.

    Args:
        source: Open file.
        layers: Numbers separated by commas of the layers whose mean is taken. None is all layers
            but the token layer.
    """
    rows = layer_rows(source, layers)
    if isinstance(source, UsagesFile):
        yield from _read_usages(source, rows)
        return
    is_pooled = "pooling" in source.attributes
    n_layers, forms = len(layer_numbers(source)), forms_of(source)
    for index, (record, values) in enumerate(source.records()):
        if values.ndim != 2 - is_pooled + (n_layers > 0) or n_layers not in (0, len(values)):
            raise InputError(
                f"{source.paths[0]}, line {index + 1:,}: expected {n_layers or 1} layers, as the "
                f"attributes say, found the shape {values.shape}"
            )
        vectors = np.atleast_2d(mean_of(values, rows))  # (n, W), pooled too
        try:
            positions = [0] if is_pooled and record.tokens else target_positions(record)
        except InputError as error:
            raise InputError(f"{source.paths[0]}, line {index + 1:,}: {error}") from None
        if len(positions) == len(vectors):
            yield Vectors(source, index, record, positions, vectors, forms)
        elif record.tokens:
            raise InputError(
                f"{source.paths[0]}, line {index + 1:,}: the sentence has {len(positions):,} "
                f"tokens, but {len(vectors):,} vectors"
            )
        elif len(vectors) and not source.has_sentences:
            raise InputError(
                f"{source.paths[0]}: the file does not contain the tokens, as for FASTA or after "
                "--forget-sentences"
            )


def _read_usages(source: UsagesFile, rows: list[int] | None) -> Iterator[Vectors]:
    """Yield one record per occurrence."""
    for row in source.rows():
        record = Record("", row.tokens, row.id)
        vector = mean_of(row.vectors, rows)[np.newaxis]  # (1, W)
        yield Vectors(source, row.number - 1, record, [row.position], vector, source.forms)
