"""The folder of a run: the files that training writes there, and those of others."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import OutputError
from elmo_cli.errors.wording import listed
from elmo_cli.files.output_checks import check_not_read
from elmo_cli.pretrained.roles import FILE_NAMES

OPTIONS_FILE: Final = FILE_NAMES["options"]
WEIGHTS_FILE: Final = FILE_NAMES["weights"]
VOCABULARY_FILE: Final = FILE_NAMES["vocabulary"]
SOFTMAX_FILE: Final = FILE_NAMES["softmax"]
LOG_FILE: Final = "log.jsonl"
REPORT_FILE: Final = "training.json"
CARD_FILE: Final = "card.md"
CHECKPOINT_FILE: Final = "checkpoint.pt"
VALIDATION_TEXT: Final = "validation.txt"
VALIDATION_TOKENS: Final = "validation.jsonl"
WRITTEN_FILES: Final = (
    OPTIONS_FILE,
    WEIGHTS_FILE,
    VOCABULARY_FILE,
    SOFTMAX_FILE,
    LOG_FILE,
    REPORT_FILE,
    CARD_FILE,
    CHECKPOINT_FILE,
    VALIDATION_TEXT,
    VALIDATION_TOKENS,
)
"""Files that training writes, apart from those of TensorBoard."""


def check_no_input(folder: Path, sources: Iterable[str | Path | None]) -> None:
    """Raise an `OutputError` if training would replace a file that it reads.

    A source that is None is skipped.
    """
    sources = list(sources)
    for name in WRITTEN_FILES:
        check_not_read(folder / name, sources)


def check_no_other_files(folder: Path) -> None:
    """Raise an `OutputError` if the folder of a new run has files of its names.

    A run writes its first checkpoint before anything else, so that they are of others.
    """
    if (folder / CHECKPOINT_FILE).exists():
        return
    found = [name for name in WRITTEN_FILES if (folder / name).exists()]
    if found:
        raise OutputError(
            f"{folder}: the folder has no checkpoint, but files that training would "
            f"replace: {listed(found, 'and')}",
            remedy="Move them away, or choose another folder.",
        )
