"""Options for how an input is read: format, columns, tokenizer and shard."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from elmo_cli.errors.checks import check_batch
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message
from elmo_cli.options.column_names import column_names_text, parse_column_names
from elmo_cli.options.fields import check_choices, option
from elmo_cli.options.shard import Shard, parse_shard
from elmo_cli.options.tokenizer_names import AUTO

InputFormatName = Literal[
    "text", "fasta", "conllu", "jsonl", "json", "csv", "tsv", "parquet"
]
INPUT_FORMATS: Final = get_args(InputFormatName)
DISTRIBUTED_FORMATS: Final = ("text", "fasta", "jsonl", "parquet")
"""Formats that are read in parts, which `elmo distribute` needs."""
Quotes = Literal["csv", "none"]
"""Meaning of quotes in CSV and TSV: they enclose cells, or they are text."""
QUOTES: Final = get_args(Quotes)
ALL_COLUMNS: Final = ("all",)
"""Value of `TextSettings.keep_columns` for all columns but the text and the id."""
DEFAULT_ID: Final = "id"
"""Usual name of the column with the ids."""
NO_ID: Final = ""
"""Value of `TextSettings.id_column` if no ids are read."""
TOKENS_COLUMN: Final = "tokens"
TEXT_COLUMNS: Final = (TOKENS_COLUMN, "text")
"""Usual names of the column with the text. The first one that a row has is read."""


@dataclass(frozen=True)
class TextSettings:
    """Settings of an input: its format, columns, tokenizer and shard."""

    input_format: str | None = option(
        None,
        "Format of the input: see `elmo help formats`.",
        value="FORMAT",
        choices=INPUT_FORMATS,
    )
    """None chooses it by the content and the suffix."""
    tokenizer: str | None = option(
        AUTO,
        "Tokenizer: auto, whitespace, moses, spacy or residues; see `elmo help "
        "formats`.",
        value="NAME",
    )
    """None means white space for lines, and for texts the model's, else moses."""
    language: str | None = option(
        None,
        "Language of the text, such as fr.",
        default_text="the model's, else en",
        value="CODE",
    )
    split_sentences: bool = option(
        False, "Split each text into sentences, processed one by one."
    )
    skip_errors: bool = option(
        False, "Continue after an error, and leave that line empty."
    )
    shard: str | None = option(
        None,
        "Embed every N-th line, starting with the I-th, as in 3/16.",
        value="I/N",
    )
    text_column: str | None = option(
        None,
        "Column with the text, or with a list of tokens.",
        default_text="text or tokens",
        value="NAME",
    )
    id_column: str | Sequence[str] | None = option(
        None,
        "Column with the ids, or several columns that name a record together.",
        default_text="id, if it exists",
        value="NAME,...",
    )
    """Names as on the command line, or a sequence of names."""
    paragraphs: bool = option(
        False, "Join hard-wrapped lines up to the next blank line."
    )
    keep_columns: tuple[str, ...] = option(
        (),
        "Copy these input columns to the output.",
        default_text="none",
        value="NAME,...|all",
    )
    word_column: str | None = option(
        None,
        "Column with one word per row. Rows with the same id form one text.",
        value="NAME",
    )
    splits_words: bool = False
    """Tokenize the text of a list of words, in place of reading the list as tokens."""
    reads_places: bool = False
    """Read the places of annotated words in tables."""
    delimiter: str | None = option(
        None,
        "Delimiter of csv or tsv: one character, or tab.",
        default_text="detected in the header",
        value="CHARACTER",
    )
    quotes: str | None = option(
        None,
        "Quotes in csv or tsv enclose cells (csv) or are part of the text (none).",
        choices=QUOTES,
    )
    """None means `csv`, but a cell of TSV ends in its line."""
    no_header: bool = option(
        False,
        "The csv or tsv has no header. Its columns are called 1, 2 and so on.",
    )

    def __post_init__(self) -> None:
        if isinstance(self.id_column, str) and self.id_column != NO_ID:
            try:
                parse_column_names(self.id_column)
            except SettingsError as error:
                problem = Message("{--id-column}: {error}", error=error)
                raise SettingsError(problem) from None
        check_choices(self)
        if self.text_column is not None and self.word_column is not None:
            raise SettingsError(
                Message("choose one of {--text-column} and {--word-column}")
            )

    @property
    def id_columns(self) -> tuple[str, ...]:
        """Columns that name a record together, as far as the settings name them."""
        if not self.id_column:
            return ()
        if isinstance(self.id_column, str):
            # A name that is there twice is one column.
            return tuple(dict.fromkeys(parse_column_names(self.id_column)))
        return tuple(dict.fromkeys(self.id_column))

    @property
    def id_column_text(self) -> str | None:
        """The columns of the id as one text, or None by default."""
        if self.id_column is None or isinstance(self.id_column, str):
            return self.id_column
        return column_names_text(self.id_column)

    @property
    def repeated_columns(self) -> tuple[str, ...]:
        """Columns that the output repeats, or `ALL_COLUMNS`.

        These are `keep_columns`, after the columns of the id if it has several.
        """
        if self.keep_columns == ALL_COLUMNS or len(self.id_columns) < 2:
            return self.keep_columns
        return tuple(dict.fromkeys([*self.id_columns, *self.keep_columns]))

    @property
    def chooses_tokenizer(self) -> bool:
        """True if the settings name a tokenizer or its language."""
        return self.names_tokenizer or self.language is not None

    @property
    def names_tokenizer(self) -> bool:
        """True if the settings name a tokenizer."""
        return self.tokenizer not in (None, AUTO)

    @property
    def cell_attributes(self) -> dict[str, str]:
        """Return how the cells of CSV and TSV are found, as far as it is chosen."""
        attributes = {}
        if self.delimiter is not None:
            attributes["delimiter"] = self.delimiter
        if self.quotes is not None:
            attributes["quotes"] = self.quotes
        if self.no_header:
            attributes["no_header"] = "True"
        return attributes

    def check_whole_records(self) -> None:
        """Raise a `SettingsError` for kept columns of words if a row is a text."""
        if self.word_column is not None and self.keep_columns:
            raise SettingsError(
                Message(
                    "{--keep-columns} has no effect with {--word-column}, because a "
                    "row is a whole text",
                    shell_remedy="`elmo surprisal` prints a row per word.",
                )
            )

    def parse_shard(self) -> Shard | None:
        """Parse the shard; None means the whole input."""
        if self.shard is None:
            return None
        return parse_shard(self.shard)


DEFAULT_TEXT_SETTINGS: Final = TextSettings()


def text_settings(
    *,
    id_column: str | Sequence[str] | None = None,
    keep_columns: Sequence[str] = (),
    **options: Any,
) -> TextSettings:
    """Return the settings of a text from the keyword arguments of a function.

    `keep_columns` are names, or `"all"`. Raise an `InputError` for another string or a
    set.
    """
    columns: tuple[str, ...]
    if keep_columns == "all":
        columns = ALL_COLUMNS
    else:
        columns = tuple(check_batch(keep_columns, "keep_columns"))
    if id_column is not None and not isinstance(id_column, str):
        id_column = tuple(check_batch(id_column, "id_column"))
    return TextSettings(id_column=id_column, keep_columns=columns, **options)
