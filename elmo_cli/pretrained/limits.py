"""Maximum sizes of what is downloaded and unpacked."""

from typing import Final

from elmo_cli.files.text_files import MAX_TEXT_BYTES
from elmo_cli.model.json_objects import MAX_OPTIONS_BYTES
from elmo_cli.pretrained.registry import PublishedModel

MAX_BYTES: Final = 1 << 32
"""Maximum size of a download, and of an unpacked model, whose size is unknown."""
_MAX_RATIO: Final = 2
"""Maximum size of a download, and of an unpacked model, per byte of its size in the
registry."""


def size_limit(role: str | None, model: PublishedModel | None = None) -> int:
    """Return the maximum size of a model's file with a role, or of its archive."""
    if role == "options":
        return MAX_OPTIONS_BYTES
    if role == "vocabulary":
        return MAX_TEXT_BYTES
    if role == "softmax" or model is None or not model.download_bytes:
        return MAX_BYTES
    return _MAX_RATIO * model.download_bytes
