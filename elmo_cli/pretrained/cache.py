"""The folder that keeps what is downloaded, and what is unpacked.

A published model is kept in `<cache>/<name>/`, what a URL gave in `<cache>/urls/`, a zip
unpacked in `<cache>/archives/`. The cache folder is ELMO_CACHE, else
$XDG_CACHE_HOME/elmo-cli, else ~/.cache/elmo-cli. Files that are there are used without a
look at the network.
"""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from elmo_cli.errors import ModelError
from elmo_cli.model.options import read_options
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.pretrained.download import Check, OnProgress, download, locked, silent, unpack
from elmo_cli.pretrained.model_files import (
    FILE_NAMES,
    ModelFiles,
    candidates,
    only_file,
    read_folder,
)
from elmo_cli.pretrained.registry import BUNDLED, MODELS, PublishedModel, model_of_url

logger = logging.getLogger(__name__)

BUNDLED_FOLDER: Final = Path(__file__).parents[1] / "data" / BUNDLED


def cache_folder() -> Path:
    """The folder that keeps downloaded models. It need not exist."""
    if named := os.environ.get("ELMO_CACHE"):
        return Path(os.path.expanduser(named))
    caches = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules say to ignore a path that is not absolute.
    if caches and os.path.isabs(caches):
        return Path(caches) / "elmo-cli"
    return Path(os.path.expanduser("~/.cache/elmo-cli"))


def published_folder(model: PublishedModel) -> Path:
    """The folder where a published model is, once it is downloaded."""
    return BUNDLED_FOLDER if model.name == BUNDLED else cache_folder() / model.name


def n_bytes_here(model: PublishedModel) -> int | None:
    """The bytes of a published model's options and weights on this disk; None if not there."""
    folder = published_folder(model)
    files = [only_file(folder, role) for role in ("options", "weights")]
    return sum(file.stat().st_size for file in files if file) if all(files) else None


def model_state(model: PublishedModel) -> str:
    """`bundled`, `downloaded`, or `available` to be downloaded."""
    if model.name == BUNDLED:
        return "bundled"
    return "available" if n_bytes_here(model) is None else "downloaded"


def remove_model(model: PublishedModel) -> tuple[Path, int]:
    """Delete the files of a published model.

    Returns:
        The folder that they were in, and their bytes.

    Raises:
        ModelError: there are none, they are bundled, or they cannot be deleted.
    """
    folder = published_folder(model)
    if model.name == BUNDLED:
        raise ModelError(f"{BUNDLED} is bundled with elmo-cli, and cannot be removed")
    if not folder.is_dir():
        raise ModelError(f"{model.name} is not downloaded: there is no {folder}")
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    try:
        with locked(folder):
            shutil.rmtree(folder)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be removed: {error.strerror or error}") from None
    return folder, n_bytes


def models_with_softmax() -> list[str]:
    """The names of the models whose softmax is bundled or published."""
    return [
        model.name
        for model in MODELS
        if model.softmax or (model.name == BUNDLED and candidates(BUNDLED_FOLDER, "softmax"))
    ]


def download_model(
    model: PublishedModel, *, with_softmax: bool = False, on_progress: OnProgress = silent
) -> ModelFiles:
    """Download what is missing of a published model.

    Args:
        with_softmax: also get the softmax and its vocabulary, which perplexity needs.

    Raises:
        ModelError: no URL gave a whole file, or there is no softmax.
    """
    folder = published_folder(model)
    if with_softmax and not model.softmax and not candidates(folder, "softmax"):
        raise ModelError(
            f"no softmax of the model {model.name} is published, only of "
            f"{', '.join(models_with_softmax())}; name one of those, or a folder that `elmo train` "
            "made"
        )
    if model.name != BUNDLED:
        _fill(folder, partial(n_bytes_here, model), partial(_get, model, folder, on_progress))
        for role in ("softmax", "vocabulary") if with_softmax and model.softmax else ():
            _file_of_model(model, role, on_progress)
    try:
        return replace(read_folder(folder, model.name), language=model.language_code)
    except ModelError as error:
        if model.name != BUNDLED:
            raise
        raise ModelError(
            f"the bundled model {BUNDLED} is not in this installation ({error}); "
            "install elmo-cli again, or name another model"
        ) from None


def _fill(folder: Path, find: Callable[[], object], get: Callable[[], object]) -> None:
    """Get what is not found in a folder, unless another process was faster."""
    if not find():
        with locked(folder):
            if not find():
                get()


def _get(model: PublishedModel, folder: Path, on_progress: OnProgress) -> None:
    """Get the options and the weights: from an archive, or where that fails one by one."""
    archive = folder / "archive.zip"
    try:
        if model.archive:
            # Unpacking is the check: from a damaged archive to the next mirror.
            check = partial(unpack, folder=folder)
            download(model.archive, archive, check, on_progress=on_progress)
            archive.unlink()
            return
    except ModelError as error:
        if not model.weights:
            raise
        logger.info("%s; trying its files", error)
    for role in ("options", "weights"):
        _download_file(model, role, folder, on_progress)


def _download_file(model: PublishedModel, role: str, folder: Path, on_progress: OnProgress) -> None:
    sha256 = model.weights_sha256 if role == "weights" else None
    download(model.urls(role), folder / FILE_NAMES[role], _check_of(role), sha256, on_progress)


def local_file(file: str | Path, role: str, on_progress: OnProgress = silent) -> Path:
    """A path as it is, or the file that a URL gives, downloaded once.

    Args:
        file: a path, or an https URL; those of published models stand for all their mirrors.
        role: `options`, `weights`, `softmax` or `vocabulary`.

    Raises:
        ModelError: the URL cannot be downloaded.
    """
    if isinstance(file, Path) or not re.match(r"[a-z][a-z0-9+.-]*://", file, re.IGNORECASE):
        return Path(os.path.expanduser(file))
    if known := model_of_url(file):
        return _file_of_model(*known, on_progress)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", Path(urlsplit(file).path).name).lstrip(".")
    path = cache_folder() / "urls" / _key(file) / (name or FILE_NAMES[role])
    get = partial(download, [file], path, _check_of(role), on_progress=on_progress)
    _fill(path.parent, path.exists, get)
    return path


def _file_of_model(model: PublishedModel, role: str, on_progress: OnProgress) -> Path:
    folder = published_folder(model)
    find = partial(candidates, folder, role)
    _fill(folder, find, partial(_download_file, model, role, folder, on_progress))
    return find()[0]


def unpacked(archive: Path) -> Path:
    """The folder of what is in a zip file, unpacked once; another file of its name, anew.

    Raises:
        ModelError: it cannot be unpacked.
    """
    status = archive.stat()
    identity = f"{archive.resolve()} {status.st_size} {status.st_mtime_ns}"
    folder = cache_folder() / "archives" / _key(identity)
    _fill(folder, partial(candidates, folder, "weights"), partial(unpack, archive, folder))
    return folder


def _check_of(role: str) -> Check:
    checks: dict[str, Check] = {"options": read_options, "vocabulary": read_vocabulary}
    return checks.get(role, _check_tensors)


def _check_tensors(path: Path) -> None:
    from elmo_cli.model.tensor_files import open_tensors

    with open_tensors(path):
        pass


def _key(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
