"""Is a model's file whole, and still the file that it was?

No checksums of ELMo's files are published. HDF5 and safetensors files say themselves where
they end, which tells a file that is cut off. Which file it was is remembered on first use,
in `checksums.json` beside it.
"""

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

from elmo_cli.errors import ModelError
from elmo_cli.pretrained.download import Check
from elmo_cli.pretrained.model_files import sha256

CHECKSUMS: Final = "checksums.json"

ARCHIVE_ERRORS: Final = (
    *(zipfile.BadZipFile, zlib.error, EOFError, RuntimeError),  # what zipfile promises
    *(IndexError, OverflowError, ValueError, struct.error),  # and what it also raises
)
"""Raised for a zip file that is damaged, besides OSError."""

_HDF5_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
_FIRST_OFFSETS = (0, 512, 1024, 2048, 4096)
_LONGEST_HEADER = 100_000_000
"""Bytes before the values of a safetensors file; the format has this limit."""


def check_of(role: str) -> Check:
    """The check of a file that is downloaded as the `options`, `weights`, ... of a model."""
    checks: dict[str, Check] = {"options": json_fault, "vocabulary": text_fault}
    return checks.get(role, weights_fault)


def weights_fault(path: Path) -> str | None:
    """What keeps a file, whatever its name, from being whole HDF5 or safetensors."""
    with open(path, "rb") as file:
        is_safetensors = file.read(9)[8:] == b"{"
    return safetensors_fault(path) if is_safetensors else hdf5_fault(path)


def hdf5_fault(path: Path) -> str | None:
    """What keeps a file from being whole HDF5: its superblock says where it ends."""
    end = _hdf5_end(path)
    if end is None:
        return f"expected HDF5, found {_seems(path)}"
    size = path.stat().st_size
    return f"cut off: expected {end:,} bytes, found {size:,}" if size < end else None


def _hdf5_end(path: Path) -> int | None:
    """The end-of-file address in the superblock; None if there is no superblock."""
    with open(path, "rb") as file:
        for offset in _FIRST_OFFSETS:
            file.seek(offset)
            block = file.read(64)
            if block.startswith(_HDF5_SIGNATURE) and len(block) == 64:
                break
        else:
            return None
    version = block[8]
    if version > 3:
        return None
    # The base address, another one, and the end-of-file address follow the fixed part.
    size_of_offsets = block[13] if version < 2 else block[9]
    if size_of_offsets not in (2, 4, 8):
        return None
    fixed = {0: 24, 1: 28}.get(version, 12)
    start = fixed + 2 * size_of_offsets
    return int.from_bytes(block[start : start + size_of_offsets], "little")


def safetensors_fault(path: Path) -> str | None:
    """What keeps a file from being whole safetensors: its header says where it ends."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        end = 8 + int.from_bytes(file.read(8), "little")
        if end > _LONGEST_HEADER or file.read(1) != b"{":
            return f"expected safetensors, found {_seems(path)}"
        if size < end:
            return f"cut off: expected more than {end:,} bytes, found {size:,}"
        file.seek(8)
        header = file.read(end - 8)
    try:
        tensors = [value for name, value in json.loads(header).items() if name != "__metadata__"]
        end += max((int(tensor["data_offsets"][1]) for tensor in tensors), default=0)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return "expected safetensors, found a header that cannot be read"
    return f"cut off: expected {end:,} bytes, found {size:,}" if size < end else None


def json_fault(path: Path) -> str | None:
    """What keeps a file from being a JSON object."""
    try:
        if isinstance(json.loads(path.read_text(encoding="utf-8")), dict):
            return None
    except (ValueError, RecursionError):
        pass
    return f"expected a JSON object, found {_seems(path)}"


def text_fault(path: Path) -> str | None:
    """What keeps a file from being a list of words."""
    with open(path, "rb") as file:
        start = file.read(1024)
    if not start or b"\0" in start or start.lstrip().lower().startswith((b"<!", b"<html")):
        return f"expected a word a line, found {_seems(path)}"
    return None


def archive_fault(path: Path) -> str | None:
    """What keeps a file from being a whole zip file; all of it is read."""
    if not zipfile.is_zipfile(path):
        return f"expected a zip file, found {_seems(path)}"
    try:
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
    except (RuntimeError, NotImplementedError):  # encrypted, or packed in a new way
        return None
    except (*ARCHIVE_ERRORS, OSError) as error:
        return f"damaged zip file: {error}"
    return None if damaged is None else f"damaged zip file: {damaged} is not whole"


def _seems(path: Path) -> str:
    """What a file seems to be, for an error message."""
    with open(path, "rb") as file:
        start = file.read(512).lstrip()
    if not start:
        return "an empty file"
    return "a web page" if start[:1] == b"<" else f"something that starts with {start[:8]!r}"


def check_unchanged(*paths: Path | None) -> None:
    """Compare files of one folder with what was remembered of them; remember new ones.

    Their sha256 is only computed again when size or time of change differ.

    Raises:
        ModelError: a file has changed, or a new one is not whole.
    """
    present = [path for path in paths if path is not None]
    folder = present[0].parent
    remembered = _read_checksums(folder)
    current = {path.name: _current(path, remembered.get(path.name)) for path in present}
    if any(remembered.get(name) != record for name, record in current.items()):
        _write_checksums(folder, {**remembered, **current})


def _current(path: Path, record: dict[str, Any] | None) -> dict[str, Any]:
    status = path.stat()
    unchanged = {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
    if record is not None and unchanged.items() <= record.items():
        return record
    if record is None and path.suffix in (".hdf5", ".safetensors"):
        fault = weights_fault(path)
        if fault is not None:
            raise ModelError(f"{path}: {fault}; remove it to download it again")
    found = sha256(path)
    if record is not None and record.get("sha256") != found:
        raise ModelError(
            f"{path}: has changed since its first use: expected sha256 {record.get('sha256')}, "
            f"found {found}; remove it to download it again, or remove "
            f"{path.parent / CHECKSUMS} to accept it"
        )
    return {"sha256": found, **unchanged}


def _read_checksums(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads((folder / CHECKSUMS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and all(isinstance(record, dict) for record in content.values()):
        return content
    raise ModelError(f"{folder / CHECKSUMS}: expected checksums, found something else; remove it")


def _write_checksums(folder: Path, records: dict[str, dict[str, Any]]) -> None:
    partial = folder / f"{CHECKSUMS}.{os.getpid()}.partial"
    try:
        partial.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, folder / CHECKSUMS)
    except OSError:
        # A folder that cannot be written, shared by several users: nothing to remember in.
        partial.unlink(missing_ok=True)
