"""URLs of one file to that file, whole or not at all; and a zip file to a folder.

A file appears under its name when it is complete and checked.
"""

import errno
import hashlib
import http.client
import logging
import os
import shutil
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from elmo_cli import __version__
from elmo_cli.atomic import lock, rename_synced, unlock
from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.pretrained.model_files import MANY_LANGS_FILES

logger = logging.getLogger(__name__)

OnProgress = Callable[[str, int, int | None], object]
"""Called with the name of the file, the bytes received, and how many there will be, if known."""
Check = Callable[[Path], object]
"""Reads a complete file; raises an `ElmoError` where it is not what it should be."""

ALLOW_HTTP: Final = "ELMO_ALLOW_HTTP"

# One of the hosts refuses urllib's own name with status 406.
_USER_AGENT: Final = f"Mozilla/5.0 (compatible; elmo-cli/{__version__})"
_TIMEOUT_SECONDS: Final = 30.0
_PIECE_BYTES: Final = 1 << 18


def silent(name: str, n_bytes: int, total: int | None) -> None:
    """The `OnProgress` that does nothing."""


def download(
    urls: Sequence[str],
    destination: Path,
    check: Check,
    sha256: str | None = None,
    on_progress: OnProgress = silent,
) -> None:
    """Download a file from the first URL that gives it.

    Args:
        urls: tried in order. Those of http, and redirects to such, are only followed where
            the environment variable ELMO_ALLOW_HTTP is 1.
        destination: in a folder that is `locked`.
        check: applied to the complete file before it is renamed.
        sha256: its checksum, in hexadecimal, where it is known.
        on_progress: called for each piece.

    Raises:
        ModelError: no URL gave the file, or it cannot be written.
    """
    # Hidden, and with the suffix by which `check` knows its format.
    partial = destination.with_name(f".partial.{destination.name}")
    errors: list[str] = []
    try:
        for url in urls:
            if errors:
                logger.info("cannot download %s; trying %s", errors[-1], url)
            try:
                _receive(url, partial, sha256, on_progress, destination.name)
                check(partial)
            except ElmoError as error:
                errors.append(f"{url} ({str(error).removeprefix(f'{partial}: ')})")
            else:
                return rename_synced(partial, destination)
    except OSError as error:
        raise _not_written(destination, error) from None
    finally:
        partial.unlink(missing_ok=True)
    raise ModelError(
        f"cannot download {destination.name}, tried {', '.join(errors)}; "
        f"if you can get it elsewhere, save it as {destination}"
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other processes from filling it meanwhile.

    Raises:
        ModelError: it cannot be made.
    """
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held = lock(path)
        except BlockingIOError:
            logger.info("waiting for another process, which is filling %s", folder)
            held = lock(path, seconds=-1)
    except OSError as error:
        raise _not_written(path, error) from None
    try:
        yield
    finally:
        unlock(held)


def _not_written(path: Path, error: OSError) -> ModelError:
    reason = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        reason += "; make room there"
    return ModelError(
        f"cannot write {path}: {reason}; ELMO_CACHE names another folder for downloads"
    )


def _receive(url: str, path: Path, sha256: str | None, on_progress: OnProgress, name: str) -> None:
    """Write what a URL gives to a file; a `ModelError` says why it does not give all of it."""
    n_bytes, total, digest = 0, None, hashlib.sha256()
    with open(path, "wb") as file:
        for piece, total in _pieces(url):
            file.write(piece)
            digest.update(piece)
            n_bytes += len(piece)
            on_progress(name, n_bytes, total)
    if total is not None and n_bytes != total:
        raise ModelError(f"broke off after {n_bytes:,} of {total:,} bytes")
    if sha256 is not None and digest.hexdigest() != sha256:
        raise ModelError(f"expected the sha256 {sha256}, found {digest.hexdigest()}")


def _pieces(url: str) -> Iterator[tuple[bytes, int | None]]:
    """What a URL gives, by the proxies of the environment; each piece with the size of all."""
    _check_scheme(url)
    request = urllib.request.Request(url, headers={"User-Agent": _USER_AGENT})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            _check_scheme(response.url)  # to which redirects have led
            total = response.headers.get("Content-Length")
            while piece := response.read(_PIECE_BYTES):
                yield piece, total and int(total)
    except urllib.error.HTTPError as error:
        error.close()
        raise ModelError(f"status {error.code} {error.reason}") from None
    except (http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        message = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise ModelError(message) from None


def _check_scheme(url: str) -> None:
    scheme = url.partition(":")[0].lower()
    if scheme == "http" and os.environ.get(ALLOW_HTTP) != "1":
        raise ModelError(f"not encrypted; {ALLOW_HTTP}=1 allows http")
    if scheme not in ("http", "https"):
        raise ModelError(f"expected an https URL, found {scheme}:")


# Zip files, as the NLPL repository has them.

_WEIGHTS: Final = (".hdf5", ".safetensors")
_KINDS: Final = {".dic", ".json", ".md", ".txt", *_WEIGHTS}


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of a model into a folder, all or none.

    Args:
        archive: the zip file. Files of other kinds are left out.
        folder: one that is `locked`. Subfolders of the archive are not made, so that no
            member leads out of it; links become files.

    Raises:
        ModelError: the archive is damaged or has no weights, or the folder cannot be
            written.
    """
    temporary = folder / ".unpacked"
    shutil.rmtree(temporary, ignore_errors=True)  # what a killed process left
    try:
        temporary.mkdir()
        with zipfile.ZipFile(archive) as file:
            members = _members(archive, file)
            for name, member in members.items():
                with file.open(member) as source, open(temporary / name, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        # The weights last: a model counts as there when they are.
        for name in sorted(members, key=lambda name: name.endswith((*_WEIGHTS, ".pkl"))):
            os.replace(temporary / name, folder / name)
    except OSError as error:
        raise ModelError(
            f"{folder}: cannot unpack {archive.name}: {error.strerror or error}"
        ) from None
    # NotImplementedError, a RuntimeError: a rare compression; RuntimeError: encryption.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ModelError(f"{archive}: cannot unpack the zip file: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _members(archive: Path, file: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files to unpack, by their name without folders."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in file.infolist():
        path = PurePosixPath(member.filename.replace("\\", "/"))
        name = path.name.removesuffix(".gz")
        wanted = PurePosixPath(name).suffix in _KINDS or name in MANY_LANGS_FILES
        if not wanted or member.is_dir() or path.name.startswith("."):
            continue
        if path.name in members:
            raise ModelError(
                f"{archive}: expected one {path.name}, found several; unpack it, and name the "
                "folder of one model"
            )
        members[path.name] = member
    if (
        not any(name.endswith(_WEIGHTS) for name in members)
        and not members.keys() >= MANY_LANGS_FILES
    ):
        found = ", ".join(file.namelist()[:5]) or "nothing"
        raise ModelError(f"{archive}: expected options.json and a .hdf5 file, found {found}")
    return members
