"""The mirror, which is tried before the published addresses of a model.

The environment variable ELMO_MIRROR is its address. A mirror has the layout of the
cache folder, so a copy of a cache folder is a mirror.
"""

import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.pretrained.cache import get_once, published_folder
from elmo_cli.pretrained.download import download_file
from elmo_cli.pretrained.file_checks import check_file
from elmo_cli.pretrained.limits import size_limit
from elmo_cli.pretrained.registry import PublishedModel
from elmo_cli.pretrained.roles import FILE_NAMES, find_candidates, role_of

logger = logging.getLogger(__name__)


def try_mirror(model: PublishedModel, *, with_softmax: bool) -> None:
    """Get a model's missing files from ELMO_MIRROR, if it is set. Log a failure."""
    address = _mirror_address()
    if address is None:
        return
    folder = published_folder(model)
    roles = ["options", "weights"]
    names = list(model.files)
    if with_softmax:
        roles += ["softmax", "vocabulary"]
        # A model counts as complete when it has its weights, so they come last.
        names = [FILE_NAMES["softmax"], FILE_NAMES["vocabulary"], *names]
    try:
        get_once(
            folder,
            find=lambda: all(find_candidates(folder, role) for role in roles),
            get=lambda: _download_missing(address, model, folder=folder, names=names),
        )
    except ModelError as error:
        reason = str(error).removesuffix(".")
        logger.warning("ELMO_MIRROR: %s. Trying the published addresses.", reason)


def _mirror_address() -> str | None:
    """Return the URL of the mirror, or None. The path of a folder becomes a URL."""
    address = os.environ.get("ELMO_MIRROR")
    if not address:
        return None
    if "://" not in address and not address.startswith("file:"):
        return Path(os.path.expanduser(address)).absolute().as_uri()
    return address.rstrip("/")


def _download_missing(
    address: str, model: PublishedModel, folder: Path, names: Sequence[str]
) -> None:
    """Download the missing files of a model into a folder that is locked."""
    for name in names:
        if _is_there(folder, name):
            continue
        role = role_of(name)
        sha256 = model.known_sha256(name)
        download_file(
            [f"{address}/{quote(model.name)}/{quote(name)}"],
            folder / name,
            partial(check_file, role=role, expected_sha256=sha256),
            advice="Correct the mirror, or unset ELMO_MIRROR",
            max_bytes=size_limit(role, model),
            allow_file=True,
        )


def _is_there(folder: Path, name: str) -> bool:
    """Return whether a folder has a file, or another one with its role."""
    role = role_of(name)
    if role is None:
        return (folder / name).exists()
    return bool(find_candidates(folder, role))
