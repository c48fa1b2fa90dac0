"""Tables without a header, whose first row is taken for the names of columns."""

import logging
import re
from collections.abc import Sequence
from typing import Final

from elmo_cli.errors.messages import Message, option_named
from elmo_cli.options.text import TextSettings

logger = logging.getLogger(__name__)

_SENTENCE: Final = re.compile(r"""\S+(?:\s+\S+){2,}\s*[.!?…]["'”’»)]*""")
_NUMBER: Final = re.compile(r"[-+]?\d")
_REMEDY: Final = (
    "If the table has no header, use {--no-header True}, and give {option} the number "
    "of a column, from 1."
)
_MAX_SHOWN: Final = 60


def missing_header_error(
    names: Sequence[str], *, table: str, text_option: str
) -> Message | None:
    """Return the error for a missing column of a table whose names look like data."""
    like_data = [name for name in names if _is_sentence(name) or _NUMBER.match(name)]
    if not like_data:
        return None
    return Message(
        "{table}: the first row looks like data, not like the names of columns "
        "({example})",
        remedy=_REMEDY,
        option=_without_value(text_option),
        table=table,
        example=repr(max(like_data, key=len)[:_MAX_SHOWN]),
    )


def log_missing_header(settings: TextSettings, text_option: str) -> None:
    """Log that the name of a column looks like a sentence, as without a header."""
    if settings.no_header:
        return
    for name in (settings.text_column, settings.word_column):
        if name is not None and _is_sentence(name):
            warning = Message(
                "the column {name} looks like a row of data, which is not read",
                remedy=_REMEDY,
                option=_without_value(text_option),
                name=repr(name[:_MAX_SHOWN]),
            )
            logger.warning("%s", warning)


def _is_sentence(name: str) -> bool:
    return _SENTENCE.fullmatch(name.strip()) is not None


def _without_value(text_option: str) -> Message:
    """Return an option such as `--text-column NAME1,NAME2` without its value."""
    name, _, _ = text_option.partition(" ")
    return option_named(name)
