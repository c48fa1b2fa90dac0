"""Download of published models, files of URLs, zip files and models of the hub, each atomically.

A published model is stored in `<cache>/<name>/`, the file of a URL in `<cache>/urls/`, the content
of a zip file in `<cache>/archives/`. The cache folder is ELMO_CACHE, else
$XDG_CACHE_HOME/elmo-cli, else ~/.cache/elmo-cli. Existing files are used without network access.
"""

import hashlib
import logging
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial, partialmethod
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from elmo_cli.atomic import lock, unlock
from elmo_cli.errors import ModelError, first_line, load_extra, size_text
from elmo_cli.model.options import read_options
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.pretrained.checksums import record_sums
from elmo_cli.pretrained.mirror import fetch_from_mirror, mirror_address
from elmo_cli.pretrained.model_files import (
    FILE_NAMES,
    ModelFiles,
    candidates,
    only_file,
    read_folder,
    sha256,
)
from elmo_cli.pretrained.registry import BUNDLED, MODELS, PublishedModel, model_of_url
from elmo_cli.pretrained.transfer import PIECE_BYTES, download_file, hides_bars, not_written

logger = logging.getLogger(__name__)

BUNDLED_FOLDER: Final = Path(__file__).parents[1] / "data" / BUNDLED
HUB_PREFIX: Final = "hf:"

_FROM_HUB: Final = ("*.json", "*.hdf5", "*.safetensors", "*vocab*.txt", "*vocab*.txt.gz", "card.md")
UNPACKED: Final = (".dic", ".gz", ".hdf5", ".json", ".md", ".pkl", ".safetensors", ".txt")
"""Suffixes of files that are unpacked. Zip files of the NLPL repository have other, large files."""


_MAX_UNPACKED_BYTES: Final = 1 << 32
"""Maximum size of an unpacked model whose size is unknown."""
_MAX_RATIO: Final = 2
"""Maximum size of an unpacked model of the registry, per byte of its download."""


def cache_folder() -> Path:
    """Return the folder of downloaded models, which may not exist."""
    if folder := os.environ.get("ELMO_CACHE"):
        return Path(os.path.expanduser(folder))
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(caches)) / "elmo-cli"


def published_folder(model: PublishedModel) -> Path:
    """Return the folder of a published model after its download."""
    return BUNDLED_FOLDER if model.name == BUNDLED else cache_folder() / model.name


def n_bytes_downloaded(model: PublishedModel) -> int | None:
    """Return the size of a published model's options and weights on this disk, or None."""
    folder = published_folder(model)
    files = [only_file(folder, role) for role in ("options", "weights")]
    return sum(file.stat().st_size for file in files if file) if all(files) else None


def download_model(model: PublishedModel, *, with_softmax: bool = False) -> ModelFiles:
    """Return the files of a published model, after downloading missing ones."""
    folder = published_folder(model)
    if model.name != BUNDLED:
        _try_mirror(model, folder, with_softmax=with_softmax)
    if with_softmax and not model.softmax and not candidates(folder, "softmax"):
        names = [each.name for each in MODELS if each.softmax or each.name == BUNDLED]
        raise ModelError(
            f"{model.name}: no softmax is published for this model. Choose one of "
            f"{', '.join(names)}, or a folder that `elmo train` wrote."
        )
    if model.name != BUNDLED:
        if model.archive:
            _fill_published(
                folder, lambda: n_bytes_downloaded(model), lambda: _get_archive(model, folder)
            )
        for role in FILE_NAMES if with_softmax else ("options", "weights"):
            if role in ("options", "weights") or model.urls(role):
                _published_file(model, role)
    return replace(read_folder(folder, model.name), language=model.language_code)


def local_file(file: str | Path, role: str) -> Path:
    """Return a path unchanged. Download the file of an https URL once, and return its path.

    If the URL belongs to a published model, the other URLs of the file serve as fallbacks. The
    role is a key of `FILE_NAMES`.
    """
    url = str(file)
    if "://" not in url:
        return Path(os.path.expanduser(file))
    model = model_of_url(url)
    if model and url in model.urls(role):
        with_softmax = role in ("softmax", "vocabulary")
        _try_mirror(model, published_folder(model), with_softmax=with_softmax)
        return _published_file(model, role)
    name = Path(urlsplit(url).path).name or FILE_NAMES[role]
    path = cache_folder() / "urls" / cache_key(url) / name
    _fill(
        path.parent, path.exists, lambda: download_file([url], path, partial(check_file, role=role))
    )
    return path


def unpacked(archive: Path) -> Path:
    """Return the folder with the content of a zip file. Unpack each file once."""
    status = archive.stat()
    identity = f"{archive.resolve()} {status.st_size} {status.st_mtime_ns}"
    folder = cache_folder() / "archives" / cache_key(identity)
    _fill(folder, lambda: candidates(folder, "weights"), lambda: unpack(archive, folder))
    return folder


def cache_key(identity: str) -> str:
    """Return the name of an entry in the cache folder, from a URL or a path."""
    return hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]


def _fill(folder: Path, find: Callable[[], object], get: Callable[[], object]) -> None:
    """Call `get` under a lock if `find` is false, unless another process was faster."""
    if not find():
        with locked(folder):
            if not find():
                get()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a folder, and lock it against other processes. Remove it at the end if it is empty."""
    path = folder / ".lock"
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held = lock(path)
        except BlockingIOError:
            logger.info("Waiting for another process that is downloading to %s", folder)
            held = lock(path, seconds=-1)
    except OSError as error:
        raise not_written(path, error) from None
    try:
        yield
    finally:
        unlock(held)
        with suppress(OSError):
            for each in made:
                each.rmdir()


def _published_file(model: PublishedModel, role: str) -> Path:
    """Return a file of a published model, after downloading it if it is missing."""
    folder = published_folder(model)
    check = partial(
        check_file, role=role, expected_sha256=model.weights_sha256 if role == "weights" else None
    )
    target, advice = folder / FILE_NAMES[role], _advice(model, folder / FILE_NAMES[role])
    _fill_published(
        folder,
        lambda: candidates(folder, role),
        lambda: download_file(model.urls(role), target, check, advice=advice),
    )
    return candidates(folder, role)[0]


def _fill_published(folder: Path, find: Callable[[], object], get: Callable[[], object]) -> None:
    """Fill a folder, see `_fill`, and record the checksums of new files."""

    def get_and_record() -> None:
        get()
        record_sums(folder)

    _fill(folder, find, get_and_record)


def _try_mirror(model: PublishedModel, folder: Path, *, with_softmax: bool) -> None:
    """Get the missing files of a model from ELMO_MIRROR, if it is set. Log a failure."""
    address = mirror_address()
    roles = ("options", "weights", "softmax", "vocabulary")[: 4 if with_softmax else 2]
    if address is None:
        return
    try:
        _fill_published(
            folder,
            lambda: all(candidates(folder, role) for role in roles),
            lambda: fetch_from_mirror(address, model, folder, with_softmax=with_softmax),
        )
    except ModelError as error:
        reason = str(error).removesuffix(".")
        logger.warning("Warning: ELMO_MIRROR: %s. Trying the published addresses.", reason)


def _advice(model: PublishedModel, target: Path) -> str:
    """Return the advice of the message when all addresses of a file fail."""
    return (
        f"Try again later, set ELMO_MIRROR to a mirror, or get {target.name} elsewhere and run "
        f"`elmo download {model.name} --from FILE`."
    )


def _get_archive(model: PublishedModel, folder: Path) -> None:
    """Download and unpack a model's archive. If that fails, its single files are tried next."""
    archive = folder / "archive.zip"
    try:
        # Unpacking checks the archive. After a damaged archive, the next URL is tried.
        advice = _advice(model, archive)
        check = partial(unpack, folder=folder, model=model)
        download_file(model.archive, archive, check, advice=advice)
        archive.unlink()
    except ModelError as error:
        if not model.weights:
            raise
        logger.info("%s Trying its single files.", error)


def check_file(path: Path, role: str, expected_sha256: str | None = None) -> None:
    """Raise an error unless a file can be read in its role, and has the expected SHA-256."""
    if expected_sha256 is not None and (digest := sha256(path)) != expected_sha256:
        raise ModelError(f"expected the sha256 {expected_sha256}, found {digest}")
    if role == "options":
        read_options(path)
    elif role == "vocabulary":
        read_vocabulary(path)
    else:
        from elmo_cli.model.weights import open_tensors

        with open_tensors(path):
            pass


def unpack(archive: Path, folder: Path, model: PublishedModel | None = None) -> None:
    """Unpack the files of a model into a folder that is `locked`. If one file fails, none appears.

    Folders in the archive are ignored, so that no file is written outside of `folder`. Links
    become files.

    Args:
        archive: Path of the zip file.
        folder: Folder of the files.
        model: Published model of the archive, whose size is known.

    Raises:
        ModelError: The archive is damaged, has no model, or is too large when it is unpacked.
    """
    try:
        with TemporaryDirectory(dir=folder) as made, zipfile.ZipFile(archive) as file:
            temporary = Path(made)
            members = [(PurePosixPath(each.filename).name, each) for each in file.infolist()]
            members = [
                (name, member)
                for name, member in members
                if name.endswith(UNPACKED) and not name.startswith(".")
            ]
            # A member never has more bytes than it says.
            _check_size(archive, sum(member.file_size for _, member in members), model)
            for name, member in members:
                with file.open(member) as source, open(temporary / name, "xb") as target:
                    shutil.copyfileobj(source, target, PIECE_BYTES)
            weights = candidates(temporary, "weights")
            if not (weights and candidates(temporary, "options")):
                names = ", ".join(file.namelist()[:5]) or "no files"
                raise ModelError(
                    f"{archive}: expected options.json and a .hdf5 file, found {names}"
                )
            # The weights come last: a model counts as downloaded when they exist.
            for path in sorted(temporary.iterdir(), key=lambda path: path in weights):
                path.replace(folder / path.name)
    except FileExistsError as error:
        raise ModelError(
            f"{archive}: expected one {Path(error.filename).name}, found several. Unpack it, and "
            "give the folder of one model."
        ) from None
    # NotImplementedError means a rare compression, RuntimeError an encrypted file.
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ModelError(f"{archive}: cannot unpack the zip file: {first_line(error)}") from None


def _check_size(archive: Path, n_bytes: int, model: PublishedModel | None) -> None:
    """Raise a `ModelError` for an archive that is too large when it is unpacked."""
    download_bytes = model.download_bytes if model is not None else None
    limit = _MAX_UNPACKED_BYTES if download_bytes is None else _MAX_RATIO * download_bytes
    if n_bytes > limit:
        raise ModelError(
            f"{archive}: expected at most {size_text(limit)} when it is unpacked, found "
            f"{size_text(n_bytes)}. Unpack it, and name the folder, if you trust it."
        )


def find_in_hub(name: str, *, with_softmax: bool = False) -> ModelFiles:
    """Find the files of a model of the hub, and download missing ones.

    The hub's own package downloads them to its own cache (HF_HOME). It supports private models,
    mirrors (HF_ENDPOINT) and HF_HUB_OFFLINE.

    Args:
        name: `hf:OWNER/NAME`. `@` and a branch, a tag or a commit may follow. The default is
            `main`.
        with_softmax: Download the softmax, too.
    """
    from tqdm import tqdm

    class Bars(tqdm):  # type: ignore[misc]
        __init__ = partialmethod(tqdm.__init__, disable=hides_bars())

    hub = load_extra(name, "huggingface_hub", "hub")
    repository, _, revision = name.removeprefix(HUB_PREFIX).partition("@")
    try:
        folder = hub.snapshot_download(
            repository,
            revision=revision or None,
            allow_patterns=_FROM_HUB,
            ignore_patterns=None if with_softmax else "*softmax*",
            tqdm_class=Bars,
        )
    except hub.errors.RepositoryNotFoundError:
        raise ModelError(
            f"{name}: no such model on the hub. For a private model run `hf auth login` first."
        ) from None
    except hub.errors.RevisionNotFoundError:
        raise ModelError(f"{name}: the model has no revision {revision}") from None
    except Exception as error:  # The errors of the network differ between versions.
        reason = first_line(error.__cause__ or error)
        raise ModelError(f"{name}: cannot download from the hub: {reason}") from None
    return read_folder(Path(folder), name)
