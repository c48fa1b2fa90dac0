"""Download of one file from the first URL that works. The file is checked before it appears."""

import errno
import http.client
import logging
import os
import shutil
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import urlsplit

from elmo_cli.atomic import renamed
from elmo_cli.errors import ElmoError, ModelError, first_line
from elmo_cli.version import __version__

# Users set the level of this logger. It decides whether bars are shown, too.
logger = logging.getLogger("elmo_cli.pretrained.download")

ALLOW_HTTP: Final = "ELMO_ALLOW_HTTP"
PIECE_BYTES: Final = 1 << 18

# One of the hosts rejects the name of urllib with status 406.
_USER_AGENT: Final = f"Mozilla/5.0 (compatible; elmo-cli/{__version__})"
_TIMEOUT_SECONDS: Final = 30.0


def download_file(
    urls: Sequence[str],
    destination: Path,
    check: Callable[[Path], object],
    *,
    advice: str | None = None,
    allow_file: bool = False,
) -> None:
    """Download a file from the first URL that works, into a folder that is locked.

    Args:
        urls: URLs in the order in which they are tried. URLs of http, and redirects to them, are
            followed only if the environment variable ELMO_ALLOW_HTTP is 1.
        destination: Path of the file.
        check: Reads the complete file before it gets its name. Raises an `ElmoError` if the file
            is damaged.
        advice: Last sentence of the error if all URLs fail.
        allow_file: Follow URLs of files on this machine, too.
    """
    # The name is hidden. Its suffix tells `check` the format.
    unfinished = destination.with_name(f".partial.{destination.name}")
    errors: list[str] = []
    for url in urls:
        if errors:
            logger.info("cannot download %s; trying %s", errors[-1], urlsplit(url).netloc)
        try:
            with renamed(destination, unfinished):
                _receive(url, unfinished, destination.name, allow_file=allow_file)
                check(unfinished)
            return
        except (ElmoError, http.client.HTTPException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise not_written(destination, error) from None
            reason = str(error.reason) if type(error) is URLError else first_line(error)
            errors.append(f"{url} ({reason.removeprefix(f'{unfinished}: ')})")
    raise ModelError(
        f"cannot download {destination.name}, tried {', '.join(errors)}. "
        + (advice or f"If you can get it elsewhere, save it as {destination}.")
    )


def not_written(path: Path, error: OSError) -> ModelError:
    """Return the error for a file in the cache folder that cannot be written."""
    return ModelError(
        f"{path}: cannot be written: {error.strerror or error}. Set ELMO_CACHE to another folder "
        "for downloads."
    )


def hides_bars() -> bool | None:
    """Return the argument `disable` of tqdm: terminals show bars together with INFO messages."""
    return None if logger.isEnabledFor(logging.INFO) else True


def _receive(url: str, path: Path, name: str, *, allow_file: bool) -> None:
    """Write the content of a URL to a file, through the proxies of the environment."""
    from tqdm import tqdm

    _check_scheme(url, allow_file=allow_file)
    request = urllib.request.Request(url, headers={"User-Agent": _USER_AGENT})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        _check_scheme(response.url, allow_file=allow_file)  # Redirects may have changed it.
        total = int(response.headers.get("Content-Length", 0))
        bar = {"desc": name, "total": total or None, "disable": hides_bars()}
        with open(path, "wb") as file, tqdm.wrapattr(response, "read", **bar) as body:
            shutil.copyfileobj(body, file, PIECE_BYTES)
    if total and (n_bytes := path.stat().st_size) != total:
        raise ModelError(f"the connection ended after {n_bytes:,} of {total:,} bytes")


def _check_scheme(url: str, *, allow_file: bool) -> None:
    """Raise a `ModelError` for an insecure URL, unless the user allows http."""
    scheme = url.lower().partition(":")[0]
    if scheme == "https" or (scheme == "file" and allow_file):
        return
    if os.environ.get(ALLOW_HTTP) != "1":
        raise ModelError(f"expected an https URL; set {ALLOW_HTTP}=1 to allow http")
