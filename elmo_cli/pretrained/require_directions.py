"""Errors for what a model that only reads forward cannot do."""

from collections.abc import Collection

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.types import ReadingDirection


def require_both_directions(files: ModelFiles) -> None:
    """Raise a `ModelError` for a model that only reads forward."""
    if "backward" not in files.architecture.directions:
        raise ModelError(
            f"{files.name}: the model only reads forward, and ELMo needs both "
            "directions",
            remedy="Use LanguageModel.",
            shell_remedy="Use `elmo surprisal`, `elmo perplexity` or `elmo predict`.",
        )


def require_directions(
    files: ModelFiles, directions: Collection[ReadingDirection]
) -> None:
    """Raise a `ModelError` if predictions need a direction that a model lacks."""
    if not set(directions) <= set(files.architecture.directions):
        raise ModelError(
            f"{files.name}: the model only reads forward, so it cannot predict a word "
            "from the words after it"
        )
