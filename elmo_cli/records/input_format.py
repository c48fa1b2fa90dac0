"""Base of the formats, and the input that a format reads.

A new format is a class below `InputFormat` in a file of its own, and an entry in
`formats.INPUT_FORMATS_BY_NAME`. Other modules ask a format for its properties, never
for its name. Only a distributed run asks whether a format is `Parquet`, because it
finds the parts of all others by their lines.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from elmo_cli.callbacks import ignore
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message, option_named
from elmo_cli.options.text import InputFormatName, TextSettings
from elmo_cli.records.record import Record
from elmo_cli.text.line_reader import Line
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import Tokenizer

Ids = Literal["never", "always", "by_first_record"]


class InputFormat:
    """Format of an input: what its records have, and how they are read."""

    name: ClassVar[InputFormatName]
    unit: ClassVar[str]
    """Word for a record in messages."""
    suffixes: ClassVar[tuple[str, ...]] = ()
    """Suffixes of its files; the suffix of a compression may follow."""
    number_unit: ClassVar[str] = "line"
    """What `Record.start` counts, in messages."""
    ids: ClassVar[Ids] = "by_first_record"
    """Whether records have ids. The first record may decide for all."""
    has_tokens: ClassVar[bool] = False
    """True if the records are tokenized."""
    tokens_are_stored: ClassVar[bool] = False
    """True if outputs store the tokens, because splitting the text at white space does
    not restore them."""
    has_lemmas: ClassVar[bool] = False
    """True if the tokens may have lemmas."""
    has_sequences: ClassVar[bool] = False
    """True if the tokens are residues of proteins."""
    has_columns: ClassVar[bool] = False
    """True if the columns with texts and ids can be chosen."""
    lists_columns: ClassVar[bool] = False
    """True if a header or a schema names all columns before the first row."""
    has_cells: ClassVar[bool] = False
    """True if a delimiter and quotes separate the columns."""
    is_plain: ClassVar[bool] = False
    """True if each line is a text, and nothing else."""
    is_binary: ClassVar[bool] = False
    """True if a file has no lines."""
    keeps_ends: ClassVar[bool] = False
    """True if lines are parsed with the whitespace at their ends."""
    splits_at_cr: ClassVar[bool] = False
    """True if a lone CR ends a line, also in files with LF."""
    has_parts: ClassVar[bool] = False
    """True if records can be read from the middle of a file on."""

    def __repr__(self) -> str:
        return f"<InputFormat {self.name}>"

    def is_like(self, lines: Sequence[str]) -> bool:
        """Return whether the first lines of a file seem to have this format.

        The lines are stripped, and none is blank. Lines that may be plain text do not
        count.
        """
        return False

    def starts_record(self, line: str) -> bool:
        """Return whether a stripped line may be the first one of a record."""
        return line != ""

    def parse(self, lines: Iterable[Line], text_input: "TextInput") -> Iterator[Record]:
        """Yield the records of lines.

        A record that is invalid has an `error`, and is yielded too.
        """
        raise NotImplementedError

    def read(
        self,
        text_input: "TextInput",
        on_bytes: Callable[[int], object],
        should_stop: Callable[[], bool],
    ) -> tuple[Iterator[Record], Callable[[], bool]]:
        """Return the records of an input, and whether the next one is ready.

        `on_bytes` and `should_stop` are as in `Source.lines`.
        """
        lines, is_ready = text_input.source.lines(
            on_bytes,
            skip_errors=text_input.settings.skip_errors,
            should_stop=should_stop,
            splits_at_cr=self.splits_at_cr,
            keep_ends=self.keeps_ends,
        )
        return self.parse(lines, text_input), is_ready

    def read_ids(
        self, text_input: "TextInput", should_stop: Callable[[], bool]
    ) -> Iterator[Record]:
        """Return the records for a first pass over their ids; texts may be missing."""
        records, _ = self.read(text_input, ignore, should_stop)
        return records

    def column_names(self, source: Source, settings: TextSettings) -> list[str]:
        """Return the columns of a table by its head, or the fields of its first row.

        The list is empty if the head does not tell. Errors are reported later.
        """
        return []

    def column_types(self, source: Source) -> dict[str, Any]:
        """Return the Arrow types of the columns, if the file says them."""
        return {}

    def check_settings(
        self, settings: TextSettings, *, suggests_table: bool = False
    ) -> None:
        """Raise a `SettingsError` if an option has no effect with this format.

        With `suggests_table`, plain text is suspected to be a table.
        """
        for name, is_chosen in (
            ("--text-column", settings.text_column is not None),
            ("--word-column", settings.word_column is not None),
            ("--id-column", bool(settings.id_column)),
            ("--keep-columns", settings.keep_columns != ()),
        ):
            if is_chosen and not self.has_columns:
                remedy = "Remove {option}."
                if suggests_table and self.is_plain:
                    remedy = (
                        "If it is a table, use {--input-format csv}, or "
                        "{--input-format tsv} if its cells are separated by tabs."
                    )
                message = Message(
                    "{option}: requires a table, found {format}",
                    remedy=remedy,
                    option=option_named(name),
                    format=self.name,
                )
                raise SettingsError(message)
        for name, value in (
            ("--delimiter", settings.delimiter),
            ("--quotes", settings.quotes),
            ("--no-header True", settings.no_header or None),
        ):
            if value is not None and not self.has_cells:
                raise SettingsError(
                    "{option}: requires {--input-format csv} or "
                    "{--input-format tsv}, found {format}",
                    remedy="Remove {option}.",
                    option=option_named(name),
                    format=self.name,
                )
        if settings.paragraphs and not self.is_plain:
            raise SettingsError(
                "{--paragraphs True}: requires text, found {name}",
                remedy="Remove {--paragraphs True}.",
                name=self.name,
            )


@dataclass(frozen=True)
class TextInput:
    """Input that can be read: its source, and everything that was decided about it."""

    source: Source
    settings: TextSettings
    format: InputFormat
    tokenizer: Tokenizer
    trained: str | None = None
    """Tokenizer of the model's training; None if unknown or the format has tokens."""
    format_is_guess: bool = False
    """True if nothing was known about a stream, so that it is read as plain text."""
    text_option: str = "--text-column"
    """Name of the option for the column of the text, for messages."""
    splits_words: bool = False
    """Tokenize the text of a list of words, in place of reading the list as tokens."""
    reads_places: bool = False
    """Read the places of annotated words in tables."""
    seems_raw: bool = False
    """True if a warning has said that it seems raw, but is split at white space."""

    @property
    def splits_lines(self) -> bool:
        """True if each sentence of a line is a record."""
        return self.tokenizer.splits_by is not None and not self.format.has_columns

    @property
    def splits_records(self) -> bool:
        """True if a record may have several sentences."""
        return self.tokenizer.splits_by is not None and self.format.has_columns

    @property
    def unit(self) -> str:
        """Word for a record in messages."""
        if self.format.is_plain and self.splits_lines:
            return "sentence"
        return self.format.unit

    def error_at(self, start: int, problem: object) -> Message:
        """Return the error of the record that begins at a line or row."""
        return Message(
            "{name}, {unit} {start}: {problem}",
            name=self.source.name,
            unit=self.format.number_unit,
            start=start,
            problem=problem,
        )

    def error(self, problem: object) -> Message:
        """Return the error of the whole input."""
        return Message("{name}: {problem}", name=self.source.name, problem=problem)
