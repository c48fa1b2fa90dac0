"""Names of columns in one text, separated by commas.

Quotes enclose a name with a comma, as in CSV: `item,"condition, long"`.
"""

import csv
import io
from collections.abc import Sequence

from elmo_cli.errors.exceptions import SettingsError


def parse_column_names(text: str) -> tuple[str, ...]:
    """Return the names in a text.

    Raise a `SettingsError` if one of them is empty.
    """
    if "," not in text and '"' not in text:
        names = [text]
    else:
        cells = next(csv.reader([text], skipinitialspace=True), [])
        names = [cell.strip() for cell in cells]
    if not all(names) or not names:
        raise SettingsError(f"expected names separated by commas, found {text!r}")
    return tuple(names)


def column_names_text(names: Sequence[str]) -> str:
    """Return a text from which `parse_column_names` reads the names."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()
