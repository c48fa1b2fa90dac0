"""The folder that keeps what is downloaded, and what is unpacked.

A published model is kept in `<cache>/<name>/`, what a URL gave in `<cache>/urls/`, a zip
unpacked in `<cache>/archives/`. The cache folder is ELMO_CACHE, else
$XDG_CACHE_HOME/elmo-cli, else ~/.cache/elmo-cli. Files that are there are used without a
look at the network.
"""

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from elmo_cli.pretrained.archive import unpack
from elmo_cli.pretrained.download import OnProgress, download, locked
from elmo_cli.pretrained.integrity import check_of
from elmo_cli.pretrained.model_files import FILE_NAMES, candidates


def cache_folder() -> Path:
    """The folder that keeps downloaded models. It need not exist."""
    if named := os.environ.get("ELMO_CACHE"):
        return Path(os.path.expanduser(named))
    caches = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules say to ignore a path that is not absolute.
    if caches and os.path.isabs(caches):
        return Path(caches) / "elmo-cli"
    return Path("~/.cache/elmo-cli").expanduser()


def file_of_url(url: str, role: str, on_progress: OnProgress) -> Path:
    """The file that a URL gives, downloaded once.

    Args:
        url: https.
        role: `options`, `weights`, `softmax` or `vocabulary`.
        on_progress: told of each piece of the download.

    Raises:
        ModelError: it cannot be downloaded.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "_", Path(urlsplit(url).path).name).lstrip(".")
    path = cache_folder() / "urls" / _key(url) / (name or FILE_NAMES[role])
    download([url], path, check=check_of(role), on_progress=on_progress)
    return path


def unpacked(archive: Path) -> Path:
    """The folder of what is in a zip file, unpacked once; another file of its name, anew.

    Raises:
        ModelError: it cannot be unpacked.
    """
    status = archive.stat()
    identity = f"{archive.resolve()} {status.st_size} {status.st_mtime_ns}"
    folder = cache_folder() / "archives" / _key(identity)
    if not candidates(folder, "weights"):
        with locked(folder / ".lock"):
            if not candidates(folder, "weights"):  # another process may have been faster
                unpack(archive, folder)
    return folder


def _key(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
