"""Download of a file from the first URL that works.

A file is checked before it gets its name. Each step of a redirect is checked before it
is followed. Downloads have a maximum size, and `timed_download` gives them a minimum
speed.
"""

import errno
import http.client
import logging
import os
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeGuard
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from elmo_cli.errors.exceptions import ElmoError, ModelError
from elmo_cli.errors.messages import Message, problem_of
from elmo_cli.errors.wording import first_line, shown, size_text
from elmo_cli.files import disk
from elmo_cli.files.atomic import path_of_new_file
from elmo_cli.pretrained import timed_download
from elmo_cli.pretrained.cache import not_written_error
from elmo_cli.pretrained.limits import MAX_BYTES
from elmo_cli.pretrained.timed_download import TIMED_HANDLERS, TooSlowError
from elmo_cli.version import __version__

logger = logging.getLogger(__name__)
"""Logger whose level users set. The level also decides whether bars are shown."""

_ADVICE: Final = "If you can get the file elsewhere, give its path in place of the URL."
_TRUE: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
"""Values of ELMO_ALLOW_HTTP that allow http: those that click takes for a flag."""
_PIECE_BYTES: Final = 1 << 18
# One of the hosts rejects the name of urllib with status 406.
_USER_AGENT: Final = f"Mozilla/5.0 (compatible; elmo-cli/{__version__})"


def download_file(
    urls: Sequence[str],
    destination: Path,
    check: Callable[[Path], object],
    *,
    max_bytes: int = MAX_BYTES,
    model: str | None = None,
    advice: str = _ADVICE,
    allow_file: bool = False,
) -> None:
    """Download a file from the first URL that works, into a folder that is locked.

    `check` reads the complete file before it gets its name, and raises an `ElmoError`
    if the file is damaged. `advice` is the last sentence of the error if all URLs fail.
    URLs of http are only tried if the user allows http, or if there are no others.
    """
    start = "" if model is None else f"{model}: "
    tried = [url for url in urls if is_allowed(url, allow_file=allow_file)] or urls
    has_answered = False
    # The name is hidden. Its suffix tells `check` the format.
    unfinished = destination.with_name(f".partial.{destination.name}")
    problem = f"{start}cannot download {destination.name}: it has no URL"
    for index, url in enumerate(tried):
        if index > 0:
            logger.warning("%s. Trying another address.", problem)
        host = urlsplit(url).netloc or url
        logger.info("Downloading %s from %s", destination.name, host)
        try:
            with path_of_new_file(destination, unfinished):
                _receive(
                    url,
                    unfinished,
                    name=destination.name,
                    max_bytes=max_bytes,
                    allow_file=allow_file,
                )
                check(unfinished)
            return
        except ElmoError as error:
            # The check names the file, which the problem names already.
            reason = str(problem_of(error)).partition("\n")[0]
            for name in (str(unfinished), destination.name):
                reason = reason.removeprefix(f"{name}: ")
        except (
            _NotReceivedError,
            TooSlowError,
            http.client.HTTPException,
            OSError,
            ValueError,
        ) as error:
            if _is_full_disk(error):
                raise not_written_error(destination, error) from None
            reason = failure_reason(error)
            has_answered = isinstance(error, HTTPError)
        reason = reason.removesuffix(".")
        problem = f"{start}cannot download {shown(url)}: {reason}"
    if has_answered and len(tried) < len(urls):
        advice = f"To try http too, set ELMO_ALLOW_HTTP=1. {advice}"
    raise ModelError(problem, remedy=advice)


class _NotReceivedError(Exception):
    """Reason why a URL does not give a file, such as `it is too large`."""


def _is_full_disk(error: Exception) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def failure_reason(error: BaseException) -> str:
    """Return why a download failed, in the words of the system or of the error."""
    cause: Any = error.reason if type(error) is URLError else error
    return getattr(cause, "strerror", None) or first_line(cause)


def tqdm_disable() -> bool | None:
    """Return the argument `disable` of tqdm.

    Terminals (None) show bars together with INFO messages.
    """
    return None if logger.isEnabledFor(logging.INFO) else True


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follower of redirects, which checks each address before it is opened."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_scheme(newurl, allow_file=False)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _receive(
    url: str, path: Path, *, name: str, max_bytes: int, allow_file: bool
) -> None:
    """Write the content of a URL to a file, through the proxies of the environment."""
    from tqdm import tqdm

    _check_scheme(url, allow_file=allow_file)
    request = urllib.request.Request(url, headers={"User-Agent": _USER_AGENT})
    opener = urllib.request.build_opener(_Redirects, *TIMED_HANDLERS)
    with opener.open(request, timeout=timed_download.TIMEOUT_SECONDS) as response:
        length = response.headers.get("Content-Length") or ""
        total = int(length) if length.isdecimal() else None
        if total is not None and total > max_bytes:
            raise _too_large_error(max_bytes)
        n_bytes = 0
        with (
            disk.create(path) as file,
            tqdm.wrapattr(
                file, "write", desc=name, total=total or None, disable=tqdm_disable()
            ) as body,
        ):
            while piece := response.read1(_PIECE_BYTES):
                n_bytes += body.write(piece)
                if n_bytes > max_bytes:
                    raise _too_large_error(max_bytes)
    if total and n_bytes != total:
        raise _NotReceivedError(
            f"the connection ended after {n_bytes:,} of {total:,} bytes"
        )


def _too_large_error(max_bytes: int) -> _NotReceivedError:
    limit = size_text(max_bytes)
    return _NotReceivedError(f"it is larger than {limit}, the limit for this file")


def is_allowed(url: str, *, allow_file: bool = False) -> bool:
    """Return whether a URL has https, or http that the user allows.

    With `allow_file`, it may also be the URL of a file.
    """
    scheme = _scheme(url)
    if scheme == "http":
        return os.environ.get("ELMO_ALLOW_HTTP", "").strip().lower() in _TRUE
    return scheme == "https" or (scheme == "file" and allow_file)


def _check_scheme(url: str, *, allow_file: bool) -> None:
    """Raise an error for a URL that is not allowed."""
    if is_allowed(url, allow_file=allow_file):
        return
    remedy = "Use https or a path."
    if _scheme(url) == "http":
        remedy = "Set ELMO_ALLOW_HTTP=1 for http."
    raise _NotReceivedError(Message("not an https URL", remedy=remedy))


def _scheme(url: str) -> str:
    return url.lower().partition(":")[0]
