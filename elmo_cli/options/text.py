"""Options for how an input is read: format, columns, tokenizer and shard."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from elmo_cli.errors.checks import check_batch, check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message, Template
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
TEXT_COLUMN: Final = "text"
TEXT_COLUMNS: Final = (TOKENS_COLUMN, TEXT_COLUMN)
"""Usual names of the column with the text. The first one that a row has is read."""


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """Settings for how a file is read: its format, columns, tokenizer and shard.

        settings = TextSettings(text_column="review", tokenizer="moses")
        write_word_vectors(embedder, "a.csv", "a.vec", text_settings=settings)

    Without any, the content of a file decides.

    Args:
        input_format: "text", "fasta", "conllu", "jsonl", "json", "csv", "tsv" or
            "parquet". None chooses it by the content and the suffix.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" looks at the first 200 lines: tokenized
            ones are split at white space, and others are tokenized like the model's
            training text, else by "moses". None means the tokenizer of the model's
            training, else "moses" for a table and "whitespace" for other inputs.
        language: Language of the text, by its code or its name: "fr" or "French". None
            means the language of the model.
        split_sentences: Process each sentence on its own. The sentences of a text file
            are records of their own, and a row of a table remains one record.
        skip_errors: Continue after a record that cannot be read or does not fit into
            memory. It is empty in the output, whose attribute `skipped` names it.
        shard: "3/16" reads every 16th record from the third. None reads all.
        text_column: Column of a table, or field of its rows, with the text or a list of
            tokens. None means `text` or `tokens`.
        id_column: Column or field with the ids, or several, such as
            `["item", "condition"]`. None means `id`, if there is one.
        paragraphs: Join the lines of each paragraph, which ends at a blank line.
        keep_columns: Columns that rows of the output repeat; "all" is all others.
        word_column: Column with one word per row, in place of `text_column`.
            Consecutive rows with the same id are one text.
        delimiter: Character between the cells of CSV or TSV. None follows the header.
        quotes: "none" if quotes in CSV or TSV are text, "csv" if they enclose cells.
            None means "csv", but a cell of TSV ends in its line.
        no_header: Name the columns of CSV or TSV by their numbers, "1", "2" and so on,
            because the first row is data.

    Raises:
        SettingsError: A value is not one of the choices, or two options contradict
            each other.
        InputError: `keep_columns` or `id_column` is neither a name nor a list of names.
    """

    input_format: InputFormatName | None = option(
        None,
        "Format of the input; see `elmo help formats`.",
        default_text="recognized",
        value="FORMAT",
        choices=INPUT_FORMATS,
    )
    tokenizer: str | None = option(
        AUTO,
        "Tokenizer: auto, whitespace, moses, spacy or residues; see `elmo help "
        "formats`.",
        value="NAME",
    )
    language: str | None = option(
        None,
        "Language for the tokenizer and --split-sentences, such as fr or French.",
        default_text="the model's, else en",
        value="LANGUAGE",
    )
    split_sentences: bool = option(
        False,
        "Split each text into sentences, processed one by one; needs "
        "elmo-cli[sentences].",
    )
    skip_errors: bool = option(
        False,
        "Skip records that are not UTF-8, otherwise invalid, or too long for memory. "
        "They get no tokens.",
    )
    shard: str | None = option(
        None,
        "Embed every N-th line, starting with the I-th, as in 3/16. Each keeps its "
        "number.",
        value="I/N",
    )
    text_column: str | None = option(
        None,
        "Column with the text, or with a list of tokens.",
        default_text="lists in tokens, else text, else tokens",
        value="NAME",
    )
    id_column: str | Sequence[str] | None = option(
        None,
        "Column with the ids, or several columns that together identify a record.",
        default_text="id, if it exists",
        value="NAME,...",
    )
    paragraphs: bool = option(
        False, "Join hard-wrapped lines up to the next blank line."
    )
    keep_columns: Sequence[str] = option(
        (),
        "Columns of INPUT to copy to the output; all copies all but text and ids.",
        default_text="none",
        value="NAME,...|all",
    )
    word_column: str | None = option(
        None,
        "Column with one word per row. Consecutive rows with the same id form one "
        "text.",
        value="NAME",
    )
    delimiter: str | None = option(
        None,
        "Delimiter of csv or tsv: one character, or tab.",
        default_text="detected in the header",
        value="CHARACTER",
    )
    quotes: Quotes | None = option(
        None,
        "Quotes in csv or tsv enclose cells (csv) or are part of the text (none).",
        default_text="csv, but a cell of tsv ends with its line",
        choices=QUOTES,
    )
    no_header: bool = option(
        False,
        "The csv or tsv has no header. Its columns are called 1, 2 and so on.",
    )

    def __post_init__(self) -> None:
        # Lists become tuples, so that settings can be compared and hashed.
        columns = self.keep_columns
        if columns == "all":
            columns = ALL_COLUMNS
        columns = tuple(check_batch(columns, "keep_columns"))
        object.__setattr__(self, "keep_columns", columns)
        if self.id_column is not None and not isinstance(self.id_column, str):
            names = tuple(check_batch(self.id_column, "id_column"))
            object.__setattr__(self, "id_column", names)
        if isinstance(self.id_column, str) and self.id_column != NO_ID:
            try:
                parse_column_names(self.id_column)
            except SettingsError as error:
                problem = Message("{--id-column}: {error}", error=error)
                raise SettingsError(problem) from None
        check_choices(self)
        self.parse_shard()
        if self.tokenizer is not None:
            check_type("tokenizer", self.tokenizer, str, "a name")
        if self.language is not None:
            check_type("language", self.language, str, "a code such as 'fr'")
        if self.text_column is not None and self.word_column is not None:
            raise SettingsError(
                Template("{--text-column}: cannot be combined with {--word-column}"),
                remedy="Remove one of them.",
            )

    @property
    def id_columns(self) -> tuple[str, ...]:
        """Columns that together identify a record, as far as the settings name them."""
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
        kept = tuple(self.keep_columns)
        if kept == ALL_COLUMNS or len(self.id_columns) < 2:
            return kept
        return tuple(dict.fromkeys([*self.id_columns, *kept]))

    @property
    def chooses_tokenizer(self) -> bool:
        """True if the settings name a tokenizer or its language."""
        return self.names_tokenizer or self.language is not None

    @property
    def names_tokenizer(self) -> bool:
        """True if the settings name a tokenizer."""
        return self.tokenizer not in (None, AUTO)

    @property
    def column_attributes(self) -> dict[str, str]:
        """Return the columns that are read, as far as they are chosen."""
        attributes = {}
        if self.text_column is not None:
            attributes["text_column"] = self.text_column
        if self.word_column is not None:
            attributes["word_column"] = self.word_column
        if self.id_column_text is not None:
            # HDF5 cannot read an empty text back.
            attributes["id_column"] = self.id_column_text or '""'
        return attributes

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
                Template(
                    "{--keep-columns}: has no effect with {--word-column}, because a "
                    "record is a whole text"
                ),
                remedy="Remove {--keep-columns}.",
                shell_remedy="`elmo surprisal` prints a row per word.",
            )

    def parse_shard(self) -> Shard | None:
        """Parse the shard; None means the whole input."""
        if self.shard is None:
            return None
        return parse_shard(self.shard)


DEFAULT_TEXT_SETTINGS: Final = TextSettings()
