"""SHA-256 of files, and of all that a model computes with."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.roles import MANY_LANGS_FILES

_PIECE_BYTES: Final = 1 << 24
"""Size of the pieces in which a file is read. Before each, a thread waits for Python's
lock, which an import holds for milliseconds."""


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    piece = memoryview(bytearray(_PIECE_BYTES))
    with open(path, "rb", buffering=0) as file:
        while n_bytes := file.readinto(piece):
            digest.update(piece[:n_bytes])
    return digest.hexdigest()


def check_sha256(path: Path, expected: str | None) -> None:
    """Raise a `ModelError` if a file has another SHA-256 than expected, if any."""
    if expected is None:
        return
    found = sha256(path)
    if found != expected:
        name = path.name.removeprefix(".partial.")
        raise ModelError(
            f"{name}: wrong content: the SHA-256 must be {expected}, not {found}",
            remedy="Give the file of this model, or download it again.",
        )


class _FileVersion(NamedTuple):
    """A file on this disk, until it is changed or replaced."""

    path: Path
    inode: int
    n_bytes: int
    changed_ns: int


class _HashThread(Thread):
    """Thread that computes the SHA-256 of files while the process does other work.

    It is a daemon, so that a command that fails does not wait for it.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(name="SHA-256", daemon=True)
        self._paths = paths
        self.digest: str | None = None
        """The SHA-256, or None after an error, or in a fork of the process."""

    def run(self) -> None:
        """Compute the SHA-256."""
        # An error belongs to the command that asks for the SHA-256, if any.
        with suppress(OSError):
            self.digest = _sha256_of(self._paths)


_threads: Final[dict[tuple[_FileVersion, ...], _HashThread]] = {}
"""Threads by what they read: a process hashes the files of a model once."""


def start_content_sha256(files: ModelFiles) -> None:
    """Start to compute `content_sha256` in a thread, for a later call.

    The earlier the better: importing torch and packing the weights take a second.
    """
    with suppress(OSError):  # `content_sha256` raises it.
        _start_thread(_content_paths(files))


def content_sha256(files: ModelFiles) -> str:
    """Return the SHA-256, in hexadecimal, of all tensors and words of a model.

    The architecture is excluded. Outputs record it separately. The files are read once
    per process, unless they change.
    """
    paths = _content_paths(files)
    thread = _start_thread(paths)
    thread.join()
    if thread.digest is not None:
        return thread.digest
    return _sha256_of(paths)


def _start_thread(paths: Sequence[Path]) -> _HashThread:
    """Return the thread that hashes these files, and start it the first time."""
    versions = []
    for path in paths:
        status = os.stat(path)
        version = _FileVersion(
            path=path,
            inode=status.st_ino,
            n_bytes=status.st_size,
            changed_ns=status.st_mtime_ns,
        )
        versions.append(version)
    key = tuple(versions)
    if key not in _threads:
        _threads[key] = _HashThread(paths)
        _threads[key].start()
    return _threads[key]


def _content_paths(files: ModelFiles) -> list[Path]:
    """Return the files that have the tensors and words of a model."""
    architecture = files.architecture
    paths = [files.weights]
    if isinstance(architecture, ManyLangsArchitecture):
        others = [files.weights.with_name(name) for name in MANY_LANGS_FILES]
        paths += [path for path in others if path.exists()]
    elif architecture.char_cnn is None and files.vocabulary is not None:
        paths.append(files.vocabulary)
    return paths


def _sha256_of(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of a file, or that of the hashes of several."""
    digests = [sha256(path) for path in paths]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()
