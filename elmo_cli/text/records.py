"""Records of an input: how they are read, their type, checks of sentences, shards of an input."""

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer


class NumericId(str):
    """Id that is an integer in its input, and again in outputs that have integers."""

    __slots__ = ()


class Span(NamedTuple):
    """Part of a record: one of its sentences or words."""

    text: str
    n_tokens: int


class Record(NamedTuple):
    """Record of an input: a line, a FASTA sequence, a CoNLL-U sentence, a row of a table."""

    text: str  # text that is hashed: the line, or the header and the sequence of FASTA
    tokens: Sentence
    id: str | None = None  # name of its dataset in the output; None for its number
    attributes: Mapping[str, object] = MappingProxyType({})
    """Attributes of its dataset in the output."""
    error: str | None = None
    """Reason why the record is skipped, with `skip_errors`. The record has no tokens then."""
    columns: Mapping[str, object] = MappingProxyType({})
    """Other columns of a table that are kept, by their names."""
    sentences: Sequence[Span] = ()
    """Sentences, each computed by itself. Without any, the whole record is one."""
    words: Sequence[Span] = ()  # words that the input gives, each tokenized by itself
    word_columns: Sequence[Mapping[str, object]] = ()
    """The `columns` of each word, if each is a row of the input."""
    lemmas: Sequence[str] = ()  # lemma of each token in CoNLL-U; empty in other formats

    def split(self) -> list[Sentence]:
        """Return the tokens of each sentence; at least one list."""
        if not self.sentences:
            return [self.tokens]
        ends = list(accumulate(span.n_tokens for span in self.sentences))
        return [
            self.tokens[start:end] for start, end in zip([0, *ends], ends, strict=False)
        ]


def id_value(identifier: str | None) -> str | int | None:
    """Return an id as its input had it, so that an output joins the input."""
    return int(identifier) if isinstance(identifier, NumericId) else identifier


def renamed_columns(names: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Return the names of kept columns in the output: `input_NAME` where it has such a column."""
    new_names: dict[str, str] = {}
    for name in names:
        new = name
        while new in taken or (new != name and new in names):
            new = f"input_{new}"
        new_names[name] = new
    return new_names


class Progress(NamedTuple):
    """Number of records read of an input, and SHA-256 of their texts, each with a line feed."""

    n_records: int
    sha256: str


class Shard(NamedTuple):
    """Every `total`-th record of an input from the `number`-th on, which needs no count of it."""

    number: int = 1
    total: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    def has(self, index: int) -> bool:
        """Return whether a record of the input, given by its number from 0, is in the shard."""
        return index % self.total == self.number - 1

    def number_in_input(self, number: int) -> int:
        """Return the number in the input of a record of the shard, both from 0."""
        return number * self.total + self.number - 1


WHOLE: Final = Shard()


def parse_shard(text: str) -> Shard:
    """Parse the name of a shard, such as `3/16`."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", str(text), re.ASCII)
    shard = Shard(*map(int, match.groups())) if match else Shard(0, 0)
    if not 1 <= shard.number <= shard.total:
        raise SettingsError(
            f"--shard {text!r}: expected I/N, I from 1 to N, such as 3/16"
        )
    return shard


def shard_of(attributes: Mapping[str, Any]) -> Shard:
    """Return the shard that an output file holds, by its attributes."""
    return parse_shard(attributes["shard"]) if "shard" in attributes else WHOLE


ALL_COLUMNS: Final = ("all",)
"""Value of `TextSettings.keep_columns` for all columns but the text and the id."""
DEFAULT_ID: Final = "id"  # usual name of the column with the ids
NO_ID: Final = ""  # value of `TextSettings.id_column` if no ids are read
TOKENS_COLUMN: Final = "tokens"
_TEXT_COLUMNS: Final = (TOKENS_COLUMN, "text")
"""Usual names of the column with the text. The first one that a row has is read."""


@dataclass(frozen=True)
class TextSettings:
    """Settings of an input: its format, columns, tokenizer and shard."""

    input_format: str | None = None
    """Name of an input format. None: chosen by the content and the suffix."""
    tokenizer: str | None = None
    """`whitespace`, `moses`, `spacy` or `residues`; `moses` and `spacy` may name a language, as in
    `spacy:de`. None: chosen by the input; see `input_formats.open_input`."""
    language: str | None = None
    """Code of the language of the text. None is the language of the model."""
    split_sentences: bool = False
    skip_errors: bool = False
    """Give a record that cannot be read an empty dataset, in place of an error."""
    shard: str | None = None
    """`3/16` reads every 16th record from the third."""
    text_column: str | None = None
    """Column with the text or the tokens, of a format with columns. None is the usual name."""
    text_option: str = "--text-column"  # option that names the column
    id_column: str | None = None
    """Column with the id of each record. None is the usual name, if there is such a column."""
    paragraphs: bool = False
    """Join the lines of a text until a blank line, before sentences are split."""
    keep_columns: tuple[str, ...] = ()
    """Columns of the input that go into `Record.columns`, or `ALL_COLUMNS`."""
    word_column: str | None = None
    """Column with one word per row. Consecutive rows with the same id are one text."""
    splits_words: bool = False
    """Tokenize each word of a list, in place of reading the list as tokens."""
    delimiter: str | None = None
    """Character between the cells of CSV or TSV. None follows the header."""
    quotes: str | None = None
    """`none` if quotes in CSV or TSV are text, `csv` if they enclose cells. None is `csv`, but a
    cell of TSV ends in its line."""

    def __post_init__(self) -> None:
        if self.text_column is not None and self.word_column is not None:
            raise SettingsError("choose one of --text-column and --word-column")

    @cached_property
    def text_columns(self) -> tuple[str, ...]:
        """Columns with a text or a list of tokens. The first one that a row has is read."""
        named = self.text_column or self.word_column
        return _TEXT_COLUMNS if named is None else (named,)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Named columns that may be paths of nested fields, such as `data.text`."""
        names = (self.text_column, self.id_column, *self.keep_columns)
        return tuple(name for name in names if name and "." in name)

    @cached_property
    def id_name(self) -> str | None:
        """Column with the ids, if there is one; None if no ids are read."""
        return (DEFAULT_ID if self.id_column is None else self.id_column) or None

    @property
    def chooses_tokenizer(self) -> bool:
        """True if the settings name a tokenizer or its language."""
        return self.tokenizer is not None or self.language is not None

    @property
    def cell_attributes(self) -> dict[str, str]:
        """Return how the cells of CSV and TSV are found, as far as it is chosen."""
        chosen = {"delimiter": self.delimiter, "quotes": self.quotes}
        return {name: value for name, value in chosen.items() if value is not None}

    def make_tokenizer(
        self,
        model_language: str | None = None,
        default: str = "whitespace",
        trained: str | None = None,
    ) -> Tokenizer:
        """Make the tokenizer, of the model's language if the settings name none.

        `trained`, the tokenizer of the model's training, comes before `default`, but not before
        what the settings name.
        """
        default = default if trained is None or self.chooses_tokenizer else trained
        return make_tokenizer(
            self.tokenizer or default,
            self.language or model_language,
            split_sentences=self.split_sentences,
        )

    def check_format(self, name: str, *, has_columns: bool, advice: str = "") -> None:
        """Raise an `InputError` if an option has no effect with a format."""
        chosen = {
            "--text-column": self.text_column is not None,
            "--word-column": self.word_column is not None,
            "--id-column": bool(self.id_column),
            "--keep-columns": self.keep_columns != (),
        }
        if not has_columns and (option := next(filter(chosen.get, chosen), None)):
            raise SettingsError(
                f"{option} has no effect with {name}: it has no columns{advice}"
            )
        if name not in ("csv", "tsv") and (
            option := next(iter(self.cell_attributes), None)
        ):
            raise SettingsError(
                f"--{option} requires --input-format csv or tsv, found {name}"
            )
        if self.paragraphs and name != "text":
            raise SettingsError(f"--paragraphs requires text, found {name}")

    def check_whole_records(self) -> None:
        """Raise an error for kept columns of words, if a row of the output is a text."""
        if self.word_column is not None and self.keep_columns:
            raise SettingsError(
                "--keep-columns has no effect with --word-column, because a row is a whole text; "
                "elmo surprisal prints a row per word"
            )

    def parse_shard(self) -> Shard | None:
        """Parse the shard; None is the whole input."""
        return None if self.shard is None else parse_shard(self.shard)


DEFAULT_SETTINGS: Final = TextSettings()


class ReadRecord(NamedTuple):
    """Record that was read from an input, with its number from 1."""

    record: Record
    number: int
    checkpoint: Progress | None = None
    """Progress in the input after the record, if a checkpoint follows it."""


class ShardReader:
    """Reader for the records of a shard. It hashes all records of the input."""

    def __init__(
        self,
        records: Iterable[Record],
        shard: Shard = WHOLE,
        prepare: Callable[[Record], Record] = lambda record: record,
    ) -> None:
        """Read a shard of these records, each one changed by `prepare`."""
        self._records = iter(records)
        self._shard, self._prepare = shard, prepare
        self._digest = hashlib.sha256()
        self._n_read = 0
        self.error: InputError | None = None

    @property
    def progress(self) -> Progress:
        """Progress in the input."""
        return Progress(self._n_read, self._digest.hexdigest())

    def read(
        self,
        n_records: int | None = None,
        checkpoint_tokens: float = math.inf,
        checkpoint_records: int = 1,
    ) -> Iterator[ReadRecord]:
        """Yield the records of the shard among the first `n_records`, up to an error of the input.

        After `checkpoint_tokens` tokens, a multiple of `checkpoint_records` has a checkpoint.
        """
        rest = None if n_records is None else n_records - self._n_read
        tokens_since = records_since = 0
        is_whole = self._shard == WHOLE
        try:
            for record in islice(self._records, rest):
                self._digest.update(
                    record.text.encode("utf-8", "surrogatepass") + b"\n"
                )
                self._n_read += 1
                if not (is_whole or self._shard.has(self._n_read - 1)):
                    continue
                record = self._prepare(record)
                tokens_since += len(record.tokens) or 1
                records_since += 1
                if (
                    tokens_since < checkpoint_tokens
                    or records_since % checkpoint_records
                ):
                    yield ReadRecord(record, self._n_read)
                else:
                    yield ReadRecord(record, self._n_read, self.progress)
                    tokens_since = records_since = 0
        except InputError as error:
            self.error = error
