"""URLs of one file to that file, whole or not at all.

A download that breaks off goes on where it was: after a pause, or in the next run.
The file appears under its name when it is complete and checked.
"""

import errno
import fcntl
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.transfer import (
    Check,
    FaultError,
    OnProgress,
    PassingFaultError,
    Transfer,
    opener_for,
)

__all__ = ["Check", "OnProgress", "download", "locked", "silent"]

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 4
"""At one URL, in a row, that bring nothing."""
_PAUSE_SECONDS = 1.0
"""Before the second attempt; it doubles with each."""


def silent(name: str, n_bytes: int, total: int | None) -> None:
    """The `OnProgress` that does nothing."""


def download(
    urls: Sequence[str],
    destination: Path,
    expected_bytes: int | None = None,
    check: Check = lambda path: None,
    on_progress: OnProgress = silent,
) -> None:
    """Download a file, unless it is there.

    Args:
        urls: where it can be had, tried in order. Those of http, and redirects to such, are
            only followed where the environment variable ELMO_ALLOW_HTTP is 1.
        destination: its path; folders are made.
        expected_bytes: its exact size, where it is known.
        check: looks at the complete file before it moves into place.
        on_progress: told of each piece.

    Raises:
        ModelError: no URL gave the file, all are named with the reason; or it cannot
            be written.
    """
    if destination.exists():
        return
    try:
        with locked(destination.with_name(f".{destination.name}.lock")):
            if not destination.exists():  # another process may have been faster
                transfer = Transfer(destination, expected_bytes, check, on_progress)
                _from_first(urls, transfer)
    except OSError as error:
        raise _not_written(destination, error) from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; another process that wants it waits.

    Raises:
        ModelError: it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "wb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise _not_written(path, error) from None
    with file:  # closing it gives the lock back
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another process, which is filling %s", path.parent)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _from_first(urls: Sequence[str], transfer: Transfer) -> None:
    faults: list[str] = []
    # The host that the first bytes are from has the rest of them.
    for url in sorted(urls, key=lambda url: url != transfer.url):
        if faults:
            logger.info("%s; trying %s", faults[-1], url)
        try:
            return _persist(url, transfer)
        except FaultError as fault:
            faults.append(f"{url} ({fault})")
    raise ModelError(
        f"cannot download {transfer.destination.name}, tried {', '.join(faults)}; "
        f"if you can get it elsewhere, save it as {transfer.destination}"
    )


def _persist(url: str, transfer: Transfer) -> None:
    """Try a URL until the file is whole, or a few attempts in a row bring nothing."""
    opener = opener_for(url)
    failures, most_bytes = 0, transfer.n_bytes
    while True:
        try:
            return transfer.run(url, opener)
        except PassingFaultError as fault:
            failures = 1 if transfer.n_bytes > most_bytes else failures + 1
            most_bytes = max(most_bytes, transfer.n_bytes)
            if failures == _ATTEMPTS:
                raise
            logger.info("%s: %s; trying again", url, fault)
            time.sleep(_PAUSE_SECONDS * 2 ** (failures - 1))


def _not_written(destination: Path, error: OSError) -> ModelError:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason += "; make room, and the download goes on where it was"
    return ModelError(
        f"cannot write {destination}: {reason}; ELMO_CACHE names another folder for downloads"
    )
