"""Options for how an input is read: format, columns, tokenizer and shard."""

from dataclasses import dataclass
from typing import Final

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message
from elmo_cli.options.shard import Shard, parse_shard

ALL_COLUMNS: Final = ("all",)
"""Value of `TextSettings.keep_columns` for all columns but the text and the id."""


DEFAULT_ID: Final = "id"  # usual name of the column with the ids


NO_ID: Final = ""  # value of `TextSettings.id_column` if no ids are read


TOKENS_COLUMN: Final = "tokens"


TEXT_COLUMNS: Final = (TOKENS_COLUMN, "text")
"""Usual names of the column with the text. The first one that a row has is read."""


@dataclass(frozen=True)
class TextSettings:
    """Settings of an input: its format, columns, tokenizer and shard."""

    input_format: str | None = None
    """Name of an input format. None: chosen by the content and the suffix."""
    tokenizer: str | None = None
    """`whitespace`, `moses`, `spacy` or `residues`; `moses` and `spacy` may name a language, as in
    `spacy:de`. None: chosen by the input; see `choose_tokenizer`."""
    language: str | None = None
    """Code of the language of the text. None is the language of the model."""
    split_sentences: bool = False
    skip_errors: bool = False
    """Give a record that cannot be read an empty dataset, in place of an error."""
    shard: str | None = None
    """`3/16` reads every 16th record from the third."""
    text_column: str | None = None
    """Column with the text or the tokens, of a format with columns. None is the usual name."""
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
            raise SettingsError(
                Message("choose one of {--text-column} and {--word-column}")
            )

    @property
    def chooses_tokenizer(self) -> bool:
        """True if the settings name a tokenizer or its language."""
        return self.tokenizer is not None or self.language is not None

    @property
    def cell_attributes(self) -> dict[str, str]:
        """Return how the cells of CSV and TSV are found, as far as it is chosen."""
        chosen = {"delimiter": self.delimiter, "quotes": self.quotes}
        return {name: value for name, value in chosen.items() if value is not None}

    def check_whole_records(self) -> None:
        """Raise an error for kept columns of words, if a row of the output is a text."""
        if self.word_column is not None and self.keep_columns:
            raise SettingsError(
                Message(
                    "{--keep-columns} has no effect with {--word-column}, because a row "
                    "is a whole text; elmo surprisal prints a row per word"
                )
            )

    def parse_shard(self) -> Shard | None:
        """Parse the shard; None is the whole input."""
        return None if self.shard is None else parse_shard(self.shard)


DEFAULT_SETTINGS: Final = TextSettings()
