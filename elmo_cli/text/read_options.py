"""Options for reading records."""

from dataclasses import dataclass
from typing import Final

from elmo_cli.errors import InputError
from elmo_cli.text.advice import TokenLimit
from elmo_cli.text.entries import DEFAULT_FIELDS, Fields


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading records."""

    text_column: str | None = None
    """Column of a table, or field of its rows, with the text; by default `tokens` or `text`."""
    id_column: str | None = None
    """Column of a table with the ids; by default `id`, if there is one."""
    keep_columns: tuple[str, ...] | None = ()
    """Columns that go into `Record.columns`; None for all others."""
    paragraphs: bool = False
    """True if the lines of a text until a blank line belong together."""
    token_limit: TokenLimit | None = None
    """Length of a token that the model reads; a warning counts longer tokens."""
    ids_name_datasets: bool = True
    """True if an id that cannot name a dataset of HDF5 is an error."""
    has_integer_ids: bool = False
    """True if the ids of CSV or TSV are the texts of integers."""
    ignores_ids: bool = False
    """True if ids are ignored, because nothing is named after them."""
    compares_ids: bool = True
    """True if a repeated id is an error, and an id if other records have none."""
    is_quiet: bool = False
    """True if no warning is logged, because the text has been read before."""

    @property
    def fields(self) -> Fields:
        """Columns that are read."""
        text = DEFAULT_FIELDS.text if self.text_column is None else (self.text_column,)
        is_required = self.id_column is not None and not self.ignores_ids
        identifier = None if self.ignores_ids else self.id_column or DEFAULT_FIELDS.id
        return Fields(text, identifier, is_required, self.keep_columns, self.has_integer_ids)

    def check(self, format_name: str, *, has_columns: bool) -> None:
        """Raise an `InputError` if an option has no effect with a format."""
        is_chosen = {
            "--text-column": self.text_column is not None,
            "--id-column": self.id_column is not None,
            "--keep-columns": self.keep_columns != (),
        }
        for option in is_chosen:
            if is_chosen[option] and not has_columns:
                raise InputError(f"{option} has no effect with {format_name}: it has no columns")
        if self.paragraphs and format_name != "text":
            raise InputError(f"--paragraphs requires text, found {format_name}")


DEFAULT_OPTIONS: Final = ReadOptions()
