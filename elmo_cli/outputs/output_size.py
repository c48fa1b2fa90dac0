"""How large an output will be, and whether the disk has room, before anything is computed."""

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from elmo_cli.errors import OutputError
from elmo_cli.quantities import counted
from elmo_cli.text.records import InputFormat

logger = logging.getLogger(__name__)

COUNTED_BYTES = 32_000_000
"""An input up to this is counted, which takes a second; of a longer one, as much of it."""
_N_PIECES = 32
_PIECE_BYTES = COUNTED_BYTES // _N_PIECES
_MARGIN = 0.9
"""The share of an estimate that is taken for certain: texts are not the same throughout."""

RECORD_BYTES = 400
"""About what HDF5 itself takes for a dataset."""
PACKED_RECORD_BYTES = 16
"""Where the rows and the text of a record end, in the packed layout."""


class InputCount(NamedTuple):
    """What an input holds."""

    n_records: int
    n_tokens: int
    n_bytes: int
    unit: str
    """What a record is called."""
    is_exact: bool


class RecordSize(NamedTuple):
    """The bytes that a record takes in the output."""

    token_bytes: int
    """Of each of its tokens."""
    record_bytes: int
    """Of the record itself, whatever its tokens."""
    text_share: int
    """How often its text is kept: 1 or 0."""


def count_input(source: object, input_format: InputFormat) -> InputCount | None:
    """Count an input, or estimate by parts of it.

    Args:
        source: its path.
        input_format: how its records are written.

    Returns:
        None where that is not cheap: of a stream, or compressed.
    """
    if not isinstance(source, (str, Path)) or str(source).endswith(".gz"):
        return None
    if not os.path.isfile(source):
        return None
    n_bytes, unit = os.path.getsize(source), input_format.unit
    with open(source, "rb") as file:
        is_exact = n_bytes <= COUNTED_BYTES
        n_records = n_tokens = n_counted = 0
        # One by one: a piece's tokens take ten times its bytes.
        for piece in _all_pieces(file) if is_exact else _some_pieces(file, n_bytes):
            more_records, more_tokens = input_format.count(piece)
            n_records, n_tokens = n_records + more_records, n_tokens + more_tokens
            n_counted += len(piece)
    share = n_bytes / n_counted if n_counted else 1
    return InputCount(round(n_records * share), round(n_tokens * share), n_bytes, unit, is_exact)


def _all_pieces(file: BinaryIO) -> Iterator[bytes]:
    """A file in pieces of whole lines."""
    while lines := file.readlines(_PIECE_BYTES):
        yield b"".join(lines)


def _some_pieces(file: BinaryIO, n_bytes: int) -> Iterator[bytes]:
    """Whole lines from all over a file; of a line too long, a part."""
    for number in range(_N_PIECES):
        file.seek(number * (n_bytes - _PIECE_BYTES) // (_N_PIECES - 1))
        piece = file.read(_PIECE_BYTES)
        start = piece.find(b"\n") + 1 if number else 0
        end = piece.rfind(b"\n") + 1
        yield piece[start:end] if start < end else piece + b"\n"


def check_room(
    output: Path,
    count: InputCount | None,
    size: RecordSize,
    *,
    share: float = 1.0,
    n_bytes_there: int = 0,
    is_bound: bool = False,
) -> None:
    """Say how large an output will be, and make sure that there is room for it.

    Args:
        output: the file.
        count: of the input; None where it is not known, and nothing is said.
        size: of a record.
        share: of the input that is embedded.
        n_bytes_there: what an earlier run has written of it.
        is_bound: the output may be smaller, as it is compressed.

    Raises:
        OutputError: there is too little room.
    """
    if count is None:
        return
    n_bytes = round(share * _output_bytes(count, size))
    free = shutil.disk_usage(output.parent).free
    qualifier = "at most" if is_bound else "about"
    content = f"{counted(count.n_tokens, 'token')} in {counted(count.n_records, count.unit)}"
    content = content if count.is_exact else f"about {content}"
    part = "" if share == 1 else f"1/{round(1 / share)} of "
    text = f"{qualifier} {_in_words(n_bytes)} ({part}{content})"
    logger.info("Output: %s; %s free", text, _in_words(free))
    needed = n_bytes - n_bytes_there
    if needed <= free:
        return
    advice = "--layers average, --pooling mean or --dtype float16 write less"
    message = f"{output}: {text} to be written, and {_in_words(free)} free on the disk; {advice}"
    if is_bound or (not count.is_exact and _MARGIN * needed <= free):
        logger.warning("Warning: %s", message)
    else:
        raise OutputError(message)


def _output_bytes(count: InputCount, size: RecordSize) -> int:
    return (
        count.n_tokens * size.token_bytes
        + count.n_records * size.record_bytes
        + count.n_bytes * size.text_share
    )


def _in_words(n_bytes: int) -> str:
    """A number of bytes as people read it, in powers of 1000."""
    amount = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{amount:,.0f} {unit}" if amount >= 10 or unit == "bytes" else f"{amount:.1f} {unit}"
