"""Parquet whose damage is found: the checksum of the footer."""

import io
import re
import zlib
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from elmo_cli.files.parquet_files import (
    FOOTER_CRC32,
    NO_CRC32,
    SealedFile,
    has_checksums,
    open_parquet,
    read_metadata,
)


def write(path: Path, metadata: dict[str, str]) -> None:
    """Write a small file with metadata, as `ParquetWriter` of outputs does."""
    file = io.BytesIO()
    sealed = SealedFile(file)
    table = pyarrow.table({"numbers": list(range(9))})
    writer = parquet.ParquetWriter(sealed, table.schema, write_page_checksum=True)
    writer.write_table(table)
    writer.add_key_value_metadata({**metadata, FOOTER_CRC32: NO_CRC32})
    sealed.begin_footer()
    writer.close()
    sealed.write_footer()
    path.write_bytes(file.getvalue())


@pytest.mark.parametrize("n_bytes", [0, 70_000, 1_000_000])
def test_a_footer_of_any_size_is_checked(folder: Path, n_bytes: int) -> None:
    path = folder / "a.parquet"
    write(path, {"text": "a" * n_bytes})
    content = path.read_bytes()
    assert has_checksums(read_metadata(path))
    assert open_parquet(path).read().column("numbers").to_pylist() == list(range(9))

    n_footer = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - n_footer : -8]
    stored = parquet.read_metadata(path).metadata[FOOTER_CRC32.encode()]
    cleared = footer.replace(stored, NO_CRC32.encode())
    assert int(stored, 16) == zlib.crc32(cleared)

    is_key = re.compile(re.escape(FOOTER_CRC32.encode()) + rb"\x18\x08")
    step = max(1, n_footer // 200)
    for position in range(len(content) - 8 - n_footer, len(content), step):
        damaged = bytearray(content)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        # A file whose checksum has lost its name is read as one without a checksum.
        if is_key.search(damaged):
            with pytest.raises((pyarrow.ArrowInvalid, OSError)):
                read_metadata(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1"])
def test_what_is_no_parquet_is_an_error_of_pyarrow(
    folder: Path, content: bytes
) -> None:
    Path("a.parquet").write_bytes(content)
    with pytest.raises(pyarrow.ArrowInvalid):
        open_parquet("a.parquet")
