"""Files recognized by their content, so that they may be moved."""

import hashlib
import os
from pathlib import Path
from typing import TypedDict

from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.missing_files import unreadable_file_error

SAMPLES = 64
"""Number of samples of a large file: its beginning, its end, and 62 between them."""
SAMPLE_BYTES = 1 << 20
"""Size of a sample. Files of up to 64 MiB are read as a whole."""


class FileFingerprint(TypedDict):
    """A file, recognized by its content."""

    name: str
    n_bytes: int
    sha256: str
    """SHA-256 of the file, or of samples of a large file."""


def fingerprint_file(path: Path) -> FileFingerprint:
    """Return a file's fingerprint: its size, and a hash of its content or samples."""
    try:
        with open(path, "rb") as file:
            n_bytes = os.fstat(file.fileno()).st_size
            digest = hashlib.sha256()
            if n_bytes <= SAMPLES * SAMPLE_BYTES:
                digest.update(file.read(n_bytes))
            else:
                last_offset = n_bytes - SAMPLE_BYTES
                for number in range(SAMPLES):
                    file.seek(last_offset * number // (SAMPLES - 1))
                    digest.update(file.read(SAMPLE_BYTES))
    except OSError as error:
        raise unreadable_file_error(
            path, "text", error=error, kind=InputError
        ) from None
    return {"name": str(path), "n_bytes": n_bytes, "sha256": digest.hexdigest()}
