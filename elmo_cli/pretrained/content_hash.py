"""Hash of all that a model computes with. The hashes of large files are recorded in the cache.

Hashing the weights of the original model takes a quarter of a second, a tenth of a short run.
"""

import hashlib
import json
import logging
import os
import time
from pathlib import Path
from typing import Final

from elmo_cli.atomic import renamed
from elmo_cli.errors import system_reason
from elmo_cli.model.options import ManyLangsOptions
from elmo_cli.pretrained.download import cache_folder, cache_key
from elmo_cli.pretrained.model_files import MANY_LANGS_FILES, ModelFiles, sha256

logger = logging.getLogger(__name__)

_MIN_BYTES = 1 << 26
"""Minimum size of a file whose hash is recorded. Smaller files take less than 50 ms."""
_SETTLED_NS: Final = 2 * 10**9
"""Nanoseconds after which a further change of a file changes its times, in every file system."""


def content_sha256(files: ModelFiles) -> str:
    """Return the SHA-256, in hexadecimal, of all tensors and words that a model computes with.

    For character models it is the hash of the weights file. For other models it covers the hashes
    of the weights, the vocabulary, and the other files of ELMoForManyLangs. It excludes the
    options, which outputs record separately.
    """
    options, paths = files.parsed_options, [files.weights]
    if isinstance(options, ManyLangsOptions):
        paths += filter(Path.exists, map(files.weights.with_name, MANY_LANGS_FILES))
    elif options.char_cnn is None and files.vocabulary:
        paths.append(files.vocabulary)
    digests = list(map(recorded_sha256, paths))
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def recorded_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal, from the record of an earlier call if possible.

    The record counts while the file has the size, the inode and the times that it had then.
    """
    stat = _read_stat(path)
    if stat[0] < _MIN_BYTES:
        return sha256(path)
    record = cache_folder() / "hashes" / f"{cache_key(str(path.resolve()))}.json"
    try:
        stored = json.loads(record.read_bytes())
        if stored["stat"] == stat:
            return str(stored["sha256"])
    except (OSError, ValueError, TypeError, KeyError):
        pass  # There is no record, or it is damaged.
    now = time.time_ns()
    digest = sha256(path)
    is_settled = max(stat[2:]) < now - _SETTLED_NS
    if is_settled and _read_stat(path) == stat:
        _write_record(record, {"path": str(path), "stat": stat, "sha256": digest})
    return digest


def _read_stat(path: Path) -> list[int]:
    """Return the size and inode of a file, and the times of its last changes."""
    status = path.stat()
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _write_record(record: Path, content: dict[str, object]) -> None:
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with renamed(record, record.with_name(f".{record.stem}.{os.getpid()}.partial")) as partial:
            partial.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:  # The next run computes the hash again.
        logger.info("%s: cannot be written: %s", record, system_reason(error))
