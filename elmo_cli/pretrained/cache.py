"""Published models, files of URLs, zip files and models of the hub, fetched into the cache folder.

A published model is stored in `<cache>/<name>/`, the file of a URL in `<cache>/urls/`, the content
of a zip file in `<cache>/archives/`. The cache folder is ELMO_CACHE, else
$XDG_CACHE_HOME/elmo-cli, else ~/.cache/elmo-cli. Existing files are used without network access.
A file is downloaded from the first URL that works, and checked before it gets its name. Downloads
have a maximum size and a minimum speed. Each step of a redirect is checked before it is followed.

The environment variable ELMO_MIRROR is the address of a mirror, which is tried first. It has the
layout of the cache folder, so a copy of a cache folder is a mirror.
"""

import errno
import hashlib
import http.client
import logging
import os
import shutil
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial, partialmethod
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import quote, urlsplit

from elmo_cli.errors.exceptions import ElmoError, ModelError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import first_line, shown, size_text
from elmo_cli.files.atomic import renamed
from elmo_cli.files.locks import LOCK_FILE, locked_folder
from elmo_cli.files.text_files import MAX_TEXT_BYTES
from elmo_cli.model.json_objects import MAX_OPTIONS_BYTES
from elmo_cli.pretrained.files import (
    FILE_NAMES,
    ModelFiles,
    candidates,
    check_file,
    check_sha256,
    only_file,
    read_folder,
    role_of,
)
from elmo_cli.pretrained.registry import BUNDLED, MODELS, PublishedModel, model_of_url
from elmo_cli.version import __version__

# Users set the level of this logger. It decides whether bars are shown, too.
logger = logging.getLogger("elmo_cli.pretrained.cache")

_PIECE_BYTES: Final = 1 << 18
# One of the hosts rejects the name of urllib with status 406.
_USER_AGENT: Final = f"Mozilla/5.0 (compatible; elmo-cli/{__version__})"
TIMEOUT_SECONDS: Final = 30.0  # without a byte
_MIN_BYTES: Final = 30_000  # in this time

BUNDLED_FOLDER: Final = Path(__file__).parents[1] / "data" / BUNDLED
HUB_PREFIX: Final = "hf:"

_FROM_HUB: Final = (
    "*.json",
    "*.hdf5",
    "*.safetensors",
    "*vocab*.txt",
    "*vocab*.txt.gz",
    "card.md",
)
_UNPACKED: Final = (
    ".dic",
    ".gz",
    ".hdf5",
    ".json",
    ".md",
    ".pkl",
    ".safetensors",
    ".txt",
)
"""Suffixes of files that are unpacked. Zip files of the NLPL repository have other, large files."""
MAX_BYTES: Final = 1 << 32
"""Maximum size of a download, and of an unpacked model, whose size is unknown."""
_MAX_RATIO: Final = 2
"""Maximum size of a download, and of an unpacked model, per byte of its size in the registry."""
_MAX_MEMBERS: Final = 100  # files that are unpacked; a model has up to six


def download_file(
    urls: Sequence[str],
    destination: Path,
    check: Callable[[Path], object],
    *,
    advice: str | None = None,
    max_bytes: int = MAX_BYTES,
    allow_file: bool = False,
) -> None:
    """Download a file from the first URL that works, into a folder that is locked.

    `check` reads the complete file before it gets its name, and raises an `ElmoError` if the file
    is damaged. `advice` is the last sentence of the error if all URLs fail.
    """
    # The name is hidden. Its suffix tells `check` the format.
    unfinished = destination.with_name(f".partial.{destination.name}")
    errors: list[str] = []
    for url in urls:
        host = urlsplit(url).netloc or url
        if errors:
            logger.info("%s", errors[-1])
        logger.info("Downloading %s from %s", destination.name, host)
        try:
            with renamed(destination, unfinished):
                _receive(
                    url, unfinished, destination.name, max_bytes, allow_file=allow_file
                )
                check(unfinished)
            return
        except (ElmoError, http.client.HTTPException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (
                errno.ENOSPC,
                errno.EDQUOT,
            ):
                raise not_written(destination, error) from None
            reason = _reason(error).removeprefix(f"{unfinished}: ").removesuffix(".")
            reason = reason.removeprefix(f"{destination.name}: ")
            errors.append(f"cannot download {destination.name} from {host}: {reason}")
    advice = (
        advice
        or "If you can get the file elsewhere, give its path in place of the URL."
    )
    raise ModelError(f"{errors[-1]}. {advice}")


def _reason(error: Any) -> str:
    cause: Any = error.reason if type(error) is URLError else error
    return getattr(cause, "strerror", None) or first_line(cause)


def not_written(path: Path, error: OSError) -> ModelError:
    """Return the error for a file in the cache folder that cannot be written."""
    remedy = "Set ELMO_CACHE to another folder for downloads."
    return ModelError(f"{path}: cannot be written: {error.strerror or error}. {remedy}")


def hides_bars() -> bool | None:
    """Return the argument `disable` of tqdm: terminals show bars together with INFO messages."""
    return None if logger.isEnabledFor(logging.INFO) else True


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follower of redirects, which checks each address before it is opened."""

    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        _check_scheme(arguments[-1], allow_file=False)
        return super().redirect_request(*arguments)


def _receive(
    url: str, path: Path, name: str, max_bytes: int, *, allow_file: bool
) -> None:
    """Write the content of a URL to a file, through the proxies of the environment."""
    from tqdm import tqdm

    _check_scheme(url, allow_file=allow_file)
    request = urllib.request.Request(url, headers={"User-Agent": _USER_AGENT})
    opener = urllib.request.build_opener(_Redirects)
    with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
        length = response.headers.get("Content-Length") or ""
        n_bytes, total = 0, int(length) if length.isdecimal() else 0
        least, ends = _MIN_BYTES, time.monotonic() + TIMEOUT_SECONDS
        bar = {"desc": name, "total": total or None, "disable": hides_bars()}
        with open(path, "wb") as file, tqdm.wrapattr(file, "write", **bar) as body:
            while max(n_bytes, total) <= max_bytes and (
                piece := response.read1(_PIECE_BYTES)
            ):
                n_bytes += body.write(piece)
                if time.monotonic() > ends:
                    if n_bytes < least:
                        raise ModelError("the server sends less than 1 kB per second")
                    least, ends = (
                        n_bytes + _MIN_BYTES,
                        time.monotonic() + TIMEOUT_SECONDS,
                    )
    if max(n_bytes, total) > max_bytes:
        raise ModelError(
            f"it is larger than {size_text(max_bytes)}, the limit for this file"
        )
    if total and n_bytes != total:
        raise ModelError(f"the connection ended after {n_bytes:,} of {total:,} bytes")


def _check_scheme(url: str, *, allow_file: bool) -> None:
    """Raise a `ModelError` for an insecure URL, unless it has http and the user allows that."""
    scheme = url.lower().partition(":")[0]
    is_allowed = scheme == "http" and os.environ.get("ELMO_ALLOW_HTTP") == "1"
    if not (is_allowed or scheme == "https" or (scheme == "file" and allow_file)):
        advice = (
            "Set ELMO_ALLOW_HTTP=1 for http."
            if scheme == "http"
            else "Use https or a path."
        )
        raise ModelError(f"{shown(url)}: not an https URL. {advice}")


def _max_bytes(role: str | None, model: PublishedModel | None = None) -> int:
    """Return the maximum size of a model's file with a role, or of its archive or lexicon."""
    limit = (
        _MAX_RATIO * model.download_bytes
        if model and model.download_bytes
        else MAX_BYTES
    )
    limits = {
        "options": MAX_OPTIONS_BYTES,
        "vocabulary": MAX_TEXT_BYTES,
        "softmax": MAX_BYTES,
    }
    return limits.get(role or "", limit)


def cache_folder() -> Path:
    """Return the folder of downloaded models, which may not exist."""
    if folder := os.environ.get("ELMO_CACHE"):
        return Path(os.path.expanduser(folder))
    return (
        Path(os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache"))
        / "elmo-cli"
    )


def published_folder(model: PublishedModel) -> Path:
    """Return the folder of a published model after its download."""
    return BUNDLED_FOLDER if model.name == BUNDLED else cache_folder() / model.name


def n_bytes_downloaded(model: PublishedModel) -> int | None:
    """Return the size of a published model's options and weights on this disk, or None."""
    files = [
        only_file(published_folder(model), role) for role in ("options", "weights")
    ]
    return sum(file.stat().st_size for file in files if file) if all(files) else None


def download_model(model: PublishedModel, *, with_softmax: bool = False) -> ModelFiles:
    """Return the files of a published model, after downloading missing ones."""
    folder = published_folder(model)
    if model.name != BUNDLED:
        _try_mirror(model, folder, with_softmax=with_softmax)
    if (
        with_softmax
        and "softmax" not in model.urls
        and not candidates(folder, "softmax")
    ):
        names = [
            each.name
            for each in MODELS
            if "softmax" in each.urls or each.name == BUNDLED
        ]
        remedy = (
            f"Choose one of {', '.join(names)}, or a folder that `elmo train` wrote."
        )
        raise ModelError(
            f"{model.name}: no softmax is published for this model. {remedy}"
        )
    if model.name != BUNDLED:
        if "archive" in model.urls:
            _fill(
                folder,
                lambda: n_bytes_downloaded(model),
                lambda: _get_archive(model, folder),
            )
        for role in FILE_NAMES if with_softmax else ("options", "weights"):
            if role in ("options", "weights") or role in model.urls:
                _published_file(model, role)
    return replace(read_folder(folder, model.name), language=model.language_code)


def local_file(file: str | Path, role: str) -> Path:
    """Return a path unchanged. Download the file of an https URL once, and return its path.

    If the URL belongs to a published model, the other URLs of the file serve as fallbacks.
    """
    url = str(file)
    if "://" not in url:
        return Path(os.path.expanduser(file))
    model = model_of_url(url)
    if model and url in model.urls.get(role, ()):
        with_softmax = role in ("softmax", "vocabulary")
        _try_mirror(model, published_folder(model), with_softmax=with_softmax)
        return _published_file(model, role)
    name = Path(urlsplit(url).path).name or FILE_NAMES[role]
    path = cache_folder() / "urls" / _cache_key(url) / name
    check = partial(check_file, role=role)
    limit = _max_bytes(role)
    _fill(
        path.parent,
        path.exists,
        lambda: download_file([url], path, check, max_bytes=limit),
    )
    return path


def unpacked(archive: Path) -> Path:
    """Return the folder with the content of a zip file. Unpack each file once."""
    status = archive.stat()
    identity = f"{archive.resolve()} {status.st_size} {status.st_mtime_ns}"
    folder = cache_folder() / "archives" / _cache_key(identity)
    _fill(
        folder, lambda: candidates(folder, "weights"), lambda: unpack(archive, folder)
    )
    return folder


def _cache_key(identity: str) -> str:
    return hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]


def _fill(folder: Path, find: Callable[[], object], get: Callable[[], object]) -> None:
    """Call `get` under a lock if `find` is false, unless another process was faster."""
    if not find():
        with locked(folder):
            if not find():
                get()


def locked(folder: Path) -> AbstractContextManager[None]:
    """Create a folder, and lock it against other processes. Remove it at the end if it is empty."""
    return locked_folder(
        folder,
        partial(not_written, folder / LOCK_FILE),
        lambda: logger.info(
            "Waiting for another process that is downloading to %s", folder
        ),
    )


def _published_file(model: PublishedModel, role: str) -> Path:
    """Return a file of a published model, after downloading it if it is missing."""
    folder = published_folder(model)
    target, urls = folder / FILE_NAMES[role], model.urls.get(role, ())
    check = partial(
        check_file, role=role, expected_sha256=model.known_sha256(target.name)
    )
    advice, limit = _advice(model), _max_bytes(role, model)
    get = partial(download_file, urls, target, check, advice=advice, max_bytes=limit)
    _fill(folder, lambda: candidates(folder, role), get)
    return candidates(folder, role)[0]


def _get_archive(model: PublishedModel, folder: Path) -> None:
    """Download and unpack a model's archive. If that fails, its single files are tried next."""
    archive = folder / "archive.zip"
    try:
        # Unpacking checks the archive. After a damaged archive, the next URL is tried.
        check = partial(unpack, folder=folder, model=model)
        urls, limit = model.urls["archive"], _max_bytes("archive", model)
        download_file(urls, archive, check, advice=_advice(model), max_bytes=limit)
        archive.unlink()
    except ModelError as error:
        if "weights" not in model.urls:
            raise
        logger.info("%s Trying its single files.", error)


def _advice(model: PublishedModel) -> str:
    command = f"`elmo download {model.name} --from FOLDER`"
    elsewhere = f"get the model elsewhere and run {command}"
    return f"Try again later, set ELMO_MIRROR to a mirror, or {elsewhere}."


def _try_mirror(model: PublishedModel, folder: Path, *, with_softmax: bool) -> None:
    """Get the missing files of a model from ELMO_MIRROR, if it is set. Log a failure."""
    if (address := mirror_address()) is None:
        return
    roles = ("options", "weights", "softmax", "vocabulary")[: 4 if with_softmax else 2]
    softmax = [FILE_NAMES[role] for role in roles[2:]]
    try:
        _fill(
            folder,
            lambda: all(candidates(folder, role) for role in roles),
            # A model counts as complete when it has its weights, so they come last.
            lambda: _get_from_mirror(address, model, folder, [*softmax, *model.files]),
        )
    except ModelError as error:
        reason = str(error).removesuffix(".")
        logger.warning(
            "Warning: ELMO_MIRROR: %s. Trying the published addresses.", reason
        )


def mirror_address() -> str | None:
    """Return the URL of the mirror, or None. The path of a folder becomes a URL."""
    address = os.environ.get("ELMO_MIRROR")
    if not address:
        return None
    if "://" not in address and not address.startswith("file:"):
        return Path(os.path.expanduser(address)).absolute().as_uri()
    return address.rstrip("/")


def _get_from_mirror(
    address: str, model: PublishedModel, folder: Path, names: Sequence[str]
) -> None:
    """Download the missing files of a model from a mirror into a folder that is locked."""
    for name in names:
        role, url = role_of(name), f"{address}/{quote(model.name)}/{quote(name)}"
        if not (candidates(folder, role) if role else (folder / name).exists()):
            check = partial(
                check_file, role=role, expected_sha256=model.known_sha256(name)
            )
            advice, n = (
                "Correct the mirror, or unset ELMO_MIRROR",
                _max_bytes(role, model),
            )
            download_file(
                [url], folder / name, check, allow_file=True, advice=advice, max_bytes=n
            )


def unpack(archive: Path, folder: Path, model: PublishedModel | None = None) -> None:
    """Unpack the files of a model into a folder that is `locked`. If one file fails, none appears.

    Folders in the archive are ignored, so that no file is written outside of `folder`. Links
    become files. A published model limits the size.
    """
    try:
        with TemporaryDirectory(dir=folder) as made, zipfile.ZipFile(archive) as file:
            temporary = Path(made)
            named = [
                (PurePosixPath(each.filename).name, each) for each in file.infolist()
            ]
            visible = [each for each in named if not each[0].startswith(".")]
            members = [each for each in visible if each[0].endswith(_UNPACKED)]
            if len(members) > _MAX_MEMBERS:
                found = f"{len(members):,} files. Unpack it, and give the folder of one model."
                raise ModelError(
                    f"{archive}: expected the files of one model, found {found}"
                )
            # A member never has more bytes than it says.
            _check_size(archive, sum(member.file_size for _, member in members), model)
            for name, member in members:
                with (
                    file.open(member) as source,
                    open(temporary / name, "xb") as target,
                ):
                    shutil.copyfileobj(source, target, _PIECE_BYTES)
            weights = candidates(temporary, "weights")
            if not (weights and candidates(temporary, "options")):
                names = ", ".join(file.namelist()[:5]) or "no files"
                problem = f"expected options.json and a .hdf5 file, found {names}"
                remedy = "Give the zip file or folder of an ELMo model, or a name of `elmo models`."
                raise ModelError(f"{archive}: {problem}. {remedy}")
            if model is not None:
                check_sha256(weights[0], model.known_sha256(weights[0].name))
            # The weights come last: a model counts as downloaded when they exist.
            for path in sorted(temporary.iterdir(), key=lambda path: path in weights):
                path.replace(folder / path.name)
    except FileExistsError as error:
        problem = f"expected one {Path(error.filename).name}, found several"
        remedy = "Unpack it, and give the folder of one model."
        raise ModelError(f"{archive}: {problem}. {remedy}") from None
    # NotImplementedError means a rare compression, RuntimeError an encrypted file.
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        problem = f"cannot unpack the zip file: {first_line(error).removesuffix('.')}"
        remedy = "Download it again, or unpack it yourself, and give the folder."
        raise ModelError(f"{archive}: {problem}. {remedy}") from None


def _check_size(archive: Path, n_bytes: int, model: PublishedModel | None) -> None:
    if n_bytes > (limit := _max_bytes("archive", model)):
        expected = f"at most {size_text(limit)} when it is unpacked, found {size_text(n_bytes)}"
        remedy = "If you trust it, unpack it, and give the folder."
        raise ModelError(f"{archive}: expected {expected}. {remedy}")


def find_in_hub(name: str, *, with_softmax: bool = False) -> ModelFiles:
    """Find the files of `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`, and download missing ones.

    The hub's own package has its own cache (HF_HOME), mirrors (HF_ENDPOINT) and HF_HUB_OFFLINE.
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
        remedy = "For a private model run `hf auth login` first."
        raise ModelError(f"{name}: no such model on the hub. {remedy}") from None
    except hub.errors.RevisionNotFoundError:
        raise ModelError(f"{name}: the model has no revision {revision}") from None
    except Exception as error:  # The errors of the network differ between versions.
        reason = _reason(error.__cause__ or error).removesuffix(".")
        problem = f"{name}: cannot download from the hub: {reason}"
        raise ModelError(f"{problem}. If you have a copy, give its path.") from None
    return read_folder(Path(folder), name)
