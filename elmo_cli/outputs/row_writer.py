"""Base of the writers of rows."""

from typing import Any

from elmo_cli.options.output import OutputSettings
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.format_writer import FormatWriter
from elmo_cli.outputs.sentence_rows import SentenceRows
from elmo_cli.outputs.token_rows import TokenRows


class RowWriter(FormatWriter):
    """Writer of rows: one per record, or one per token."""

    def __init__(
        self,
        file: Any,
        settings: OutputSettings,
        attributes: Attributes,
        rows_type: type[SentenceRows] | None = None,
    ) -> None:
        """Write to an open file; `rows_type` replaces the rows of the options."""
        super().__init__(file, settings, attributes)
        if rows_type is None:
            rows_type = TokenRows if settings.rows == "tokens" else SentenceRows
        self.rows = rows_type(settings, attributes)
