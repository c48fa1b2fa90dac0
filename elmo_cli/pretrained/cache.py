"""The cache folder: where downloaded models are, and how two processes fill it once.

The cache folder is ELMO_CACHE, else $XDG_CACHE_HOME/elmo-cli, else ~/.cache/elmo-cli:

    NAME/           files of a published model
    urls/KEY/       a file of a URL
    archives/KEY/   content of a zip file

Existing files are used without network access.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.files import disk
from elmo_cli.files.locks import LOCK_FILE, locked_folder
from elmo_cli.pretrained.registry import BUNDLED, PublishedModel
from elmo_cli.pretrained.roles import find_candidates, only_file

logger = logging.getLogger(__name__)

BUNDLED_FOLDER: Final = Path(__file__).parents[1] / "data" / BUNDLED


def cache_folder() -> Path:
    """Return the folder of downloaded models, which may not exist."""
    folder = os.environ.get("ELMO_CACHE")
    if folder:
        return Path(os.path.expanduser(folder))
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(caches)) / "elmo-cli"


def published_folder(model: PublishedModel) -> Path:
    """Return the folder of a published model after its download."""
    return BUNDLED_FOLDER if model.name == BUNDLED else cache_folder() / model.name


def hashed_folder(kind: str, identity: str) -> Path:
    """Return the cache folder `KIND/KEY` for a URL or a file, whose hash is the key."""
    key = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    return cache_folder() / kind / key


def n_bytes_downloaded(model: PublishedModel) -> int | None:
    """Return the size of a model's options and weights on this disk, or None."""
    folder = published_folder(model)
    options = only_file(folder, "options")
    weights = only_file(folder, "weights")
    if options is None or weights is None:
        return None
    return options.stat().st_size + weights.stat().st_size


def get_once(
    folder: Path, *, find: Callable[[], object], get: Callable[[], object]
) -> None:
    """Call `get` if `find` finds nothing, with the folder locked.

    If another process has got the files in the meantime, `get` is not called.
    """
    if find():
        return
    with locked(folder):
        if not find():
            get()


def locked(folder: Path) -> AbstractContextManager[None]:
    """Make a folder, and lock it against other processes.

    It is removed at the end if it is empty.
    """

    def log_wait() -> None:
        logger.info("Waiting for another process that is downloading to %s", folder)

    lock_error = partial(not_written_error, folder / LOCK_FILE)
    return locked_folder(folder, lock_error, log_wait)


def move_model(source: Path, folder: Path) -> None:
    """Move the files of a model into its folder, with the weights last.

    A model counts as complete when it has its weights.
    """
    weights = find_candidates(source, "weights")
    for path in sorted(source.iterdir()):
        if path not in weights:
            disk.replace(path, folder / path.name)
    disk.sync(folder)
    for path in weights:
        disk.replace(path, folder / path.name)
    disk.sync(folder)


def not_written_error(path: Path, error: OSError) -> ModelError:
    """Return the error for a file in the cache folder that cannot be written."""
    return ModelError(
        f"{path}: cannot be written: {error.strerror or error}",
        remedy="Set ELMO_CACHE to another folder for downloads.",
    )
