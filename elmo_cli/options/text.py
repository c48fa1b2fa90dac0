"""Options for how an input is read: format, columns, tokenizer and shard."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message
from elmo_cli.options.fields import option
from elmo_cli.options.shard import Shard, parse_shard

TOKENIZERS: Final = ("whitespace", "moses", "spacy", "residues")
INPUT_FORMATS: Final = (
    "text",
    "fasta",
    "conllu",
    "jsonl",
    "json",
    "csv",
    "tsv",
    "parquet",
)
QUOTES: Final = ("csv", "none")
"""Meaning of quotes in CSV and TSV: they enclose cells, or they are text."""
ALL_COLUMNS: Final = ("all",)
"""Value of `TextSettings.keep_columns` for all columns but the text and the id."""
DEFAULT_ID: Final = "id"  # usual name of the column with the ids
NO_ID: Final = ""  # value of `TextSettings.id_column` if no ids are read
TOKENS_COLUMN: Final = "tokens"
_TEXT_COLUMNS: Final = (TOKENS_COLUMN, "text")
"""Usual names of the column with the text. The first one that a row has is read."""


@dataclass(frozen=True)
class TextSettings:
    """Options of an input: its format, columns, tokenizer and shard."""

    input_format: str | None = option(
        None,
        "Format of the input: see `elmo help formats`.",
        value="FORMAT",
        choices=INPUT_FORMATS,
    )
    """None: chosen by the content and the suffix."""
    tokenizer: str | None = option(
        None,
        "whitespace, moses, spacy (spacy:de) or residues.",
        default_text="the model's, else by format",
        value="NAME",
    )
    language: str | None = option(
        None,
        "Language of the text, such as fr.",
        default_text="the model's, else en",
        value="CODE",
    )
    split_sentences: bool = option(
        False, "Split each text into sentences, and compute each sentence by itself."
    )
    skip_errors: bool = option(
        False, "Leave the output of a line empty if it cannot be read or computed."
    )
    shard: str | None = option(
        None,
        "Embed every N-th line, beginning with the I-th, as in 3/16.",
        value="I/N",
    )
    text_column: str | None = option(
        None,
        "Column or field with the text, or a list of tokens.",
        default_text="text or tokens",
        value="NAME",
    )
    text_option: str = "--text-column"  # option that names the column
    id_column: str | None = option(
        None,
        "Column or field with the id of each record.",
        default_text="id, if it exists",
        value="NAME",
    )
    paragraphs: bool = option(
        False, "Join hard-wrapped lines up to the next blank line."
    )
    keep_columns: tuple[str, ...] = option(
        (),
        "Copy these columns of the input to the output.",
        default_text="none",
        value="NAME,...|all",
    )
    word_column: str | None = option(
        None,
        "Column with one word per row. Rows with the same id form one text.",
        value="NAME",
    )
    splits_words: bool = False
    """Tokenize each word of a list, in place of reading the list as tokens."""
    delimiter: str | None = option(
        None,
        "Delimiter of csv or tsv: one character, or tab.",
        default_text="by the header",
        value="CHARACTER",
    )
    quotes: str | None = option(
        None,
        "Meaning of quotes in csv or tsv: they enclose cells (csv), "
        "or are text (none).",
        choices=QUOTES,
    )
    """None is `csv`, but a cell of TSV ends in its line."""

    def __post_init__(self) -> None:
        if self.quotes is not None:
            check_choice("quotes", self.quotes, QUOTES)
        if self.text_column is not None and self.word_column is not None:
            raise SettingsError(
                Message("choose one of {--text-column} and {--word-column}")
            )

    @cached_property
    def text_columns(self) -> tuple[str, ...]:
        """Columns with a text or a list of tokens. The first one that a row has is read."""
        if self.text_column is not None:
            return (self.text_column,)
        if self.word_column is not None:
            return (self.word_column,)
        return _TEXT_COLUMNS

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Named columns that may be paths of nested fields, such as `data.text`."""
        names = (self.text_column, self.id_column, *self.keep_columns)
        return tuple(name for name in names if name and "." in name)

    @cached_property
    def id_name(self) -> str | None:
        """Column with the ids, if there is one; None if no ids are read."""
        if self.id_column is None:
            return DEFAULT_ID
        if self.id_column == NO_ID:
            return None
        return self.id_column

    @property
    def chooses_tokenizer(self) -> bool:
        """True if the options name a tokenizer or its language."""
        return self.tokenizer is not None or self.language is not None

    @property
    def cell_attributes(self) -> dict[str, str]:
        """Return how the cells of CSV and TSV are found, as far as it is chosen."""
        attributes = {}
        if self.delimiter is not None:
            attributes["delimiter"] = self.delimiter
        if self.quotes is not None:
            attributes["quotes"] = self.quotes
        return attributes

    def check_format(
        self, name: str, *, has_columns: bool, advice: object = ""
    ) -> None:
        """Raise a `SettingsError` if an option has no effect with a format."""
        if not has_columns:
            self._check_no_columns(name, advice)
        for option_name in self.cell_attributes:
            if name not in ("csv", "tsv"):
                raise SettingsError(
                    Message(
                        "{option} requires {--input-format csv} or tsv, found {name}",
                        option=Message(f"{{--{option_name}}}"),
                        name=name,
                    )
                )
        if self.paragraphs and name != "text":
            raise SettingsError(
                Message("{--paragraphs} requires text, found {name}", name=name)
            )

    def _check_no_columns(self, name: str, advice: object) -> None:
        if self.text_column is not None:
            without_effect = "{--text-column}"
        elif self.word_column is not None:
            without_effect = "{--word-column}"
        elif self.id_column:
            without_effect = "{--id-column}"
        elif self.keep_columns:
            without_effect = "{--keep-columns}"
        else:
            return
        raise SettingsError(
            Message(
                "{option} has no effect with {name}: it has no columns{advice}",
                option=Message(without_effect),
                name=name,
                advice=advice,
            )
        )

    def check_whole_records(self) -> None:
        """Raise a `SettingsError` for kept columns of words, if a row is a whole text."""
        if self.word_column is not None and self.keep_columns:
            raise SettingsError(
                Message(
                    "{--keep-columns} has no effect with {--word-column}, because a row "
                    "is a whole text; elmo surprisal prints a row per word"
                )
            )

    def parse_shard(self) -> Shard | None:
        """Parse the shard; None is the whole input."""
        if self.shard is None:
            return None
        return parse_shard(self.shard)


DEFAULT_SETTINGS: Final = TextSettings()
