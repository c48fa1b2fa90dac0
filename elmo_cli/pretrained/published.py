"""Files of a published model, downloaded into the cache folder if they are missing."""

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.files import disk
from elmo_cli.pretrained.archive import unpack
from elmo_cli.pretrained.cache import get_once, n_bytes_downloaded, published_folder
from elmo_cli.pretrained.download import download_file, is_allowed
from elmo_cli.pretrained.file_checks import check_file
from elmo_cli.pretrained.limits import size_limit
from elmo_cli.pretrained.mirror import try_mirror
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.model_folder import read_folder
from elmo_cli.pretrained.registry import BUNDLED, MODELS, PublishedModel
from elmo_cli.pretrained.roles import FILE_NAMES, find_candidates

logger = logging.getLogger(__name__)


def download_model(model: PublishedModel, *, with_softmax: bool = False) -> ModelFiles:
    """Return the files of a published model, after downloading missing ones.

    Raise a `ModelError` if they are missing, and the model has no URLs.
    """
    folder = published_folder(model)
    if model.name != BUNDLED:
        try_mirror(model, with_softmax=with_softmax)
    if model.page is not None and n_bytes_downloaded(model) is None:
        raise ModelError(
            f"{model.name}: cannot be downloaded by elmo-cli",
            remedy=(
                f"Get its files from {model.page}, and run `elmo download "
                f"{model.name} --from FOLDER`."
            ),
        )
    if with_softmax:
        _check_has_softmax(model, folder)
    if model.name != BUNDLED:
        if "archive" in model.urls:
            get_once(
                folder,
                find=lambda: n_bytes_downloaded(model),
                get=lambda: _download_archive(model, folder),
            )
        get_published_file(model, "options")
        get_published_file(model, "weights")
        if with_softmax:
            for role in ("softmax", "vocabulary"):
                if role in model.urls:
                    get_published_file(model, role)
    return replace(read_folder(folder, model.name), language=model.language_code)


def _check_has_softmax(model: PublishedModel, folder: Path) -> None:
    """Raise a `ModelError` if a model has no softmax, on this disk or published."""
    if "softmax" in model.urls or find_candidates(folder, "softmax"):
        return
    names = [
        each.name for each in MODELS if "softmax" in each.urls or each.name == BUNDLED
    ]
    raise ModelError(
        f"{model.name}: no softmax is published for this model",
        remedy=f"Choose one of {', '.join(names)}, or a folder that `elmo train` "
        "wrote.",
    )


def get_published_file(model: PublishedModel, role: str) -> Path:
    """Return a file of a published model, after downloading it if it is missing."""
    folder = published_folder(model)
    target = folder / FILE_NAMES[role]
    sha256 = model.known_sha256(target.name)
    get_once(
        folder,
        find=lambda: find_candidates(folder, role),
        get=lambda: download_file(
            model.urls.get(role, ()),
            target,
            partial(check_file, role=role, expected_sha256=sha256),
            model=model.name,
            advice=_advice(model),
            max_bytes=size_limit(role, model),
        ),
    )
    return find_candidates(folder, role)[0]


def _download_archive(model: PublishedModel, folder: Path) -> None:
    """Download and unpack a model's archive.

    If that fails, a model that has single files too is downloaded from these later.
    """
    archive = folder / "archive.zip"
    try:
        download_file(
            model.urls["archive"],
            archive,
            # Unpacking checks the archive. After a damaged one, the next URL is tried.
            partial(unpack, folder=folder, model=model),
            model=model.name,
            advice=_advice(model),
            max_bytes=size_limit("archive", model),
        )
        disk.remove(archive)
    except ModelError as error:
        if not any(is_allowed(url) for url in model.urls.get("weights", ())):
            raise
        logger.warning("the archive failed, so its single files are tried: %s", error)


def _advice(model: PublishedModel) -> str:
    command = f"`elmo download {model.name} --from FOLDER`"
    elsewhere = f"get the model elsewhere and run {command}"
    return f"Check the network, set ELMO_MIRROR to a mirror, or {elsewhere}."
