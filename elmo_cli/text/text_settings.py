"""Options for how a text is read: one value from the command line to the parsers."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from elmo_cli.errors import InputError
from elmo_cli.text.records import Shard, parse_shard
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer

ALL_COLUMNS: Final = ("all",)
"""Value of `TextSettings.keep_columns` for all columns but the text and the id."""
DEFAULT_ID: Final = "id"
"""Usual name of the column with the ids."""
NO_ID: Final = ""
"""Value of `TextSettings.id_column` if no ids are read."""
_TEXT_COLUMNS: Final = ("tokens", "text")
"""Usual names of the column with the text. The first one that a row has is read."""


@dataclass(frozen=True)
class TextSettings:
    """Settings of an input: its format, columns, tokenizer and shard."""

    input_format: str | None = None
    """Name of an input format. None goes by the content and the suffix of the file."""
    tokenizer: str = "whitespace"
    """`whitespace`, `moses` or `spacy`; the last two may name a language, as in `spacy:de`."""
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

    @cached_property
    def text_columns(self) -> tuple[str, ...]:
        """Columns with a text or a list of tokens. The first one that a row has is read."""
        return _TEXT_COLUMNS if self.text_column is None else (self.text_column,)

    @cached_property
    def id_name(self) -> str | None:
        """Column with the ids, if there is one; None if no ids are read."""
        return (DEFAULT_ID if self.id_column is None else self.id_column) or None

    def make_tokenizer(self, model_language: str | None = None) -> Tokenizer:
        """Make the tokenizer; `model_language` counts where neither setting names a language."""
        return make_tokenizer(
            self.tokenizer, self.language or model_language, split_sentences=self.split_sentences
        )

    def choose_tokenizer(
        self, trained: str | None, language: str | None, *, is_chosen: bool
    ) -> Tokenizer:
        """Make the tokenizer of a text that a model reads.

        Args:
            trained: Tokenizer that the model was trained with, if it names one.
            language: Language of the model, where the settings name none.
            is_chosen: True if the user chose `tokenizer`. False if it is a default, which
                `trained` replaces.
        """
        settings = self if is_chosen or trained is None else replace(self, tokenizer=trained)
        return settings.make_tokenizer(language)

    def check_format(self, name: str, *, has_columns: bool) -> None:
        """Raise an `InputError` if an option has no effect with a format."""
        is_chosen = {
            "--text-column": self.text_column is not None,
            "--id-column": bool(self.id_column),
            "--keep-columns": self.keep_columns != (),
        }
        for option in is_chosen:
            if is_chosen[option] and not has_columns:
                raise InputError(f"{option} has no effect with {name}: it has no columns")
        if self.paragraphs and name != "text":
            raise InputError(f"--paragraphs requires text, found {name}")

    def parse_shard(self) -> Shard | None:
        """Parse the shard; None is the whole input."""
        return None if self.shard is None else parse_shard(self.shard)


DEFAULT_SETTINGS: Final = TextSettings()
