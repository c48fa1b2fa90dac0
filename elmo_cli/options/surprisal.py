"""Options of surprisal: what is measured, by which unit, and what is compared."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Template
from elmo_cli.options.fields import check_choices, option
from elmo_cli.options.model import DIRECTIONS, Direction
from elmo_cli.options.text import TextSettings

UnitKind = Literal["token", "word", "region", "sentence"]
"""Unit of a text whose surprisal is measured: see `language_model/units.py`."""
UNIT_KINDS: Final = get_args(UnitKind)


@dataclass(frozen=True)
class SurprisalSettings:
    """Settings of surprisal."""

    direction: Direction = option(
        "forward",
        "Predict each token from the tokens before it (forward), after it (backward) "
        "or both ways.",
        choices=DIRECTIONS,
    )
    entropy: bool = option(
        False,
        "Also print the entropy: the surprisal that the model expects where a row "
        "begins.",
    )
    by: UnitKind | None = option(
        None,
        "Unit of a row. Words are separated by spaces, regions by `|`.",
        default_text="token, or region with {--regions}, or word with {--word-column}",
        choices=UNIT_KINDS,
    )
    regions: str | None = option(
        None,
        "Column of texts whose regions are separated by `|`. With {--by word} or "
        "{--by token}, each word or token has a row with its region.",
        value="COLUMN",
    )
    frequencies: str | None = option(
        None,
        "Word counts for the log frequencies: one word and its count per line, or a "
        "table with a header, such as SUBTLEX. Words are looked up as written, else in "
        "lower case.",
        default_text="estimated from ranks in the vocabulary",
        value="FILE",
    )
    pair_columns: tuple[str, ...] | None = option(
        None,
        "Compare the two sentences of each row of a table, in the columns GOOD and "
        "BAD. An empty sentence is an error.",
        value="GOOD,BAD",
    )
    group_by: str | None = option(
        None,
        "Also print the accuracy of {--pair-columns} for each value of COLUMN, "
        "instead of each INPUT, and copy COLUMN to the rows.",
        value="COLUMN",
    )

    def __post_init__(self) -> None:
        check_choices(self)

    def unit_of(self, text_settings: TextSettings) -> UnitKind:
        """Return the unit of a row; raise a `SettingsError` if a text has no such unit.

        A text that is read word by word has words.
        """
        if text_settings.word_column is not None:
            if self.by not in (None, "word"):
                raise SettingsError(
                    "{--by} {unit}: cannot be combined with {--word-column}, whose "
                    "rows are words",
                    remedy="Remove one of them.",
                    unit=self.by,
                )
            return "word"
        if self.by == "sentence" and self.regions is not None:
            raise SettingsError(
                Template("{--by sentence}: cannot be combined with {--regions}"),
                remedy="Remove one of them.",
            )
        if self.by is not None:
            return self.by
        return "token" if self.regions is None else "region"
