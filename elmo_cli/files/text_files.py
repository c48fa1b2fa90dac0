"""Small text files that are read as a whole, such as vocabularies and word lists."""

import errno
from pathlib import Path
from typing import Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.compression import decompressed, is_damage
from elmo_cli.files.file_types import binary_error, utf8_command
from elmo_cli.files.named_pipes import refuse_named_pipe

BYTE_ORDER_MARK: Final = "\ufeff"
MAX_TEXT_BYTES: Final = 1 << 28
"""Maximum size of a file that is read as a whole."""
_WHITE_SPACE: Final = b"\t\n\v\f\r"
_ESCAPE: Final = b"\x1b"
"""Byte that begins a change of colour in the output of a program."""


def read_text(path: str | Path, max_bytes: int | None = None) -> str:
    """Read a whole UTF-8 file, decompressed, without its byte order mark, CR as LF.

    An error of the file is an `OSError`, and so is a size of more than `max_bytes`, by
    default `MAX_TEXT_BYTES`.
    """
    if max_bytes is None:
        max_bytes = MAX_TEXT_BYTES
    refuse_named_pipe(path)
    with open(path, "rb") as file:
        try:
            content = decompressed(file).read(max_bytes + 1)
        except Exception as error:
            if not is_damage(error) or (isinstance(error, OSError) and error.errno):
                raise
            raise OSError(errno.EIO, f"damaged data: {error}", str(path)) from None
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"more than {max_bytes:,} bytes", str(path))
    text = content.decode("utf-8-sig")
    return text if "\n" in text else text.replace("\r", "\n")


def not_utf8_error(name: str, error: UnicodeDecodeError, number: int = 1) -> InputError:
    """Return the error for a text that is not UTF-8 and begins with line `number`."""
    # Neither `error.object` nor the positions of the error include the byte order mark.
    content: bytes = error.object
    if number == 1:
        other_type = binary_error(name, content)
        if other_type is not None:
            return other_type
    start = content.rfind(b"\n", 0, error.start) + 1
    line = number + content.count(b"\n", 0, start)
    column = len(content[start : error.start].decode("utf-8")) + 1
    # Windows-1252 is Latin-1 with letters and quotes in place of control characters.
    advice = (
        "If it is Windows-1252 or Latin-1, convert it with "
        f"{utf8_command(name, 'windows-1252')}."
    )
    if any(byte < 32 and byte not in _WHITE_SPACE + _ESCAPE for byte in content):
        advice = "It contains control characters, so it is probably not a text."
    return InputError(
        f"{name}, line {line}, column {column}: not valid UTF-8 (byte "
        f"0x{content[error.start]:02x})",
        remedy=advice,
    )
