"""The log of a checkpoint: what `CheckpointedFile` has to know to go back to it.

A line with the SHA-256 of all that follows; a line of JSON, with the size of the file, the
state of its owner and the lengths of the changed pages by their numbers; and these pages,
one after another. A log that is cut off, or was never finished, does not have its sum.
"""

import errno
import hashlib
import json
from pathlib import Path
from typing import Any, Final

PAGE_BYTES: Final = 4096


def encode_log(
    size: int, state: dict[str, Any], pages: dict[int, bytearray]
) -> list[bytes | bytearray]:
    """The log, in parts that follow one another."""
    table = {str(number): len(page) for number, page in pages.items()}
    header = json.dumps({"size": size, "state": state, "pages": table}).encode() + b"\n"
    checksum = hashlib.sha256(header)
    for page in pages.values():
        checksum.update(page)
    return [checksum.hexdigest().encode() + b"\n", header, *pages.values()]


def decode_log(path: Path) -> tuple[int, dict[str, Any], dict[int, bytearray]] | None:
    """What `encode_log` was given; None where there is no whole log.

    Raises:
        OSError: it is whole and has another content.
    """
    try:
        checksum, body = path.read_bytes().split(b"\n", 1)
    except (FileNotFoundError, ValueError):
        return None
    if hashlib.sha256(body).hexdigest().encode() != checksum:
        return None
    try:
        return _decode_body(body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        reason = f"{path} is no log of an unfinished run; remove it to start anew"
        raise OSError(errno.EINVAL, reason) from None


def _decode_body(body: bytes) -> tuple[int, dict[str, Any], dict[int, bytearray]]:
    header, content = body.split(b"\n", 1)
    found = json.loads(header)
    size, state, pages, start = found["size"], found["state"], {}, 0
    for number, length in found["pages"].items():
        pages[int(number)] = bytearray(content[start : start + length])
        start += length
    places = [size, *(number * PAGE_BYTES for number in pages)]
    if not isinstance(state, dict) or any(
        type(place) is not int or not 0 <= place < 1 << 62 for place in places
    ):
        raise ValueError
    return size, state, pages
