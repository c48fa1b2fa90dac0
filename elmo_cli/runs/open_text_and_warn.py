"""Opening of a text for a Python function, with warnings in the log.

`cli/command_texts.py` opens the texts of commands.
"""

import logging
from dataclasses import replace
from pathlib import Path
from typing import IO

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.messages import Message
from elmo_cli.options.text import DEFAULT_TEXT_SETTINGS, TextSettings
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.records.first_texts import read_first_texts
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.open_input import open_input
from elmo_cli.text.choose_tokenizer import log_tokenizer_warning
from elmo_cli.text.evidence import find_evidence
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE

logger = logging.getLogger(__name__)


def open_text_and_warn(
    source: IO[str] | str | Path,
    text_settings: TextSettings | None,
    files: ModelFiles,
    *,
    argument: str,
    reads_places: bool = False,
) -> TextInput:
    """Open a text for a model, and log a warning about its tokenizer, if any.

    `argument` is the argument with the text, for errors, and `reads_places` is that of
    `open_input`.
    """
    if text_settings is None:
        text_settings = DEFAULT_TEXT_SETTINGS
    check_type("text_settings", text_settings, TextSettings, "TextSettings")
    text_input = open_input(
        Source(source, argument=argument),
        text_settings,
        trained=files.tokenizer,
        language=files.language,
        reads_places=reads_places,
    )
    log_tokenizer_warning(text_input.tokenizer)
    if text_settings.tokenizer is None and _is_raw_but_split(text_input):
        logger.warning(
            "%s",
            Message(
                f"{text_input.source.name}: the text seems raw, but is split at "
                "white space, as in AllenNLP",
                remedy="Use {--tokenizer auto}.",
            ),
        )
        return replace(text_input, seems_raw=True)
    return text_input


def _is_raw_but_split(text_input: TextInput) -> bool:
    """Return whether a raw file is split at white space, as in AllenNLP."""
    is_split = (
        text_input.format.is_plain and text_input.tokenizer.name == WHITESPACE.name
    )
    if not is_split or not text_input.source.is_file:
        return False
    return find_evidence(read_first_texts(text_input)) == "raw"
