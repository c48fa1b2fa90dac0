"""The rule for inputs without tokens, the same in every command.

Such an input is an error, because the program before a pipe has probably failed. Only a
table that has a header and no rows is none: its result is a table without rows too. If
a text may lack tokens, only an input without records is an error.
"""

from collections.abc import Iterable, Iterator

from elmo_cli.errors.exceptions import InputError
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.record import Record
from elmo_cli.records.warnings.expected import Expected


def require_tokens(
    records: Iterable[Record], text_input: TextInput, expected: Expected
) -> Iterator[Record]:
    """Yield records; raise an `InputError` after the last one if none has tokens.

    An invalid record may have some.
    """
    has_header = expected.may_lack_rows and _has_header(text_input)
    has_records = False
    has_content = False
    for record in records:
        has_records = True
        if record.tokens or record.error is not None:
            has_content = True
        yield record
    if has_content or expected.may_be_empty:
        return
    if has_records and expected.may_lack_tokens:
        return
    if not has_records and has_header:
        return
    source = text_input.source
    if not source.has_lines and not text_input.format.is_binary:
        raise source.empty_error()
    if not has_records and _has_header(text_input):
        raise InputError(f"{source.name}: no rows below the names of the columns")
    if text_input.format.is_plain:
        raise InputError(f"{source.name}: no tokens, only blank lines")
    remedy = None
    if text_input.format.has_columns:
        remedy = "Choose the column of the text with {--text-column}."
    raise InputError(f"{source.name}: no tokens", remedy=remedy)


def _has_header(text_input: TextInput) -> bool:
    """Return whether an input begins with the names of its columns."""
    if not text_input.format.lists_columns:
        return False
    try:
        names = text_input.format.column_names(text_input.source, text_input.settings)
    except InputError:  # The reader of the records explains it.
        return False
    return len(names) > 0
