"""Options for how an input is read: format, columns, tokenizer and shard."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.options.shard import Shard, parse_shard

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
    `spacy:de`. None: chosen by the input; see `open_input`."""
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
