"""Mirror of models, at the address in the environment variable ELMO_MIRROR.

A mirror has the layout of the cache folder: `<mirror>/<name>/SHA256SUMS` lists the files of a
model, which are next to it. A copy of a cache folder is a mirror.
"""

import os
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.checksums import SUMS, read_sums
from elmo_cli.pretrained.model_files import role_of, sha256
from elmo_cli.pretrained.registry import PublishedModel
from elmo_cli.pretrained.transfer import download_file

VARIABLE: Final = "ELMO_MIRROR"


def mirror_address() -> str | None:
    """Return the URL of the mirror, or None. The path of a folder becomes a URL."""
    address = os.environ.get(VARIABLE)
    if not address:
        return None
    if "://" not in address and not address.startswith("file:"):
        return Path(os.path.expanduser(address)).absolute().as_uri()
    return address.rstrip("/")


def fetch_from_mirror(
    address: str, model: PublishedModel, folder: Path, *, with_softmax: bool
) -> None:
    """Get the missing files of a model from a mirror into a folder that is locked.

    Raises:
        ModelError: The mirror lacks the model, or a file of it is damaged.
    """
    base = f"{address}/{quote(model.name)}"
    listed = folder / f".mirror.{SUMS}"
    advice = f"Make sure that {base}/{SUMS} exists, or unset {VARIABLE}"
    try:
        download_file([f"{base}/{SUMS}"], listed, read_sums, advice=advice, allow_file=True)
        sums = read_sums(listed)
    finally:
        listed.unlink(missing_ok=True)
    # A model counts as complete when it has its weights, so they come last.
    for name in sorted(sums, key=lambda name: role_of(name) == "weights"):
        role = role_of(name)
        if (folder / name).exists() or (role == "softmax" and not with_softmax):
            continue
        published_sha256 = (
            model.weights_sha256 if role == "weights" and name.endswith(".hdf5") else None
        )
        check = partial(check_sum, expected=published_sha256 or sums[name])
        url = f"{base}/{quote(name)}"
        download_file([url], folder / name, check, advice=advice, allow_file=True)


def check_sum(path: Path, expected: str) -> None:
    """Raise a `ModelError` if a file has another SHA-256 sum than expected."""
    if (digest := sha256(path)) != expected:
        raise ModelError(f"expected the sha256 {expected}, found {digest}")
