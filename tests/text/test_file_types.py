"""Types of files: recognized by content, read if compressed, else refused by name."""

import bz2
import gzip
import io
import lzma
import pickle
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest

from elmo_cli.errors import ElmoError, InputError
from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import DEFAULT_SETTINGS, Record, TextSettings
from elmo_cli.text.sources import Source

TEXT = "The cat sat .\n\nThe end .\n"


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pytest.importorskip("backports.zstd").compress(content),
}
compressions = pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)


def records_of(source: Path | TextIO, settings: TextSettings = DEFAULT_SETTINGS) -> list[Record]:
    """Return the records of an input."""
    with open_records(open_input(source, settings)) as (records, *_):
        return list(records)


# Compressed files


@compressions
@pytest.mark.parametrize("name", ["a.txt", "a", "a.txt.gz", "a.jsonl.xz"])
def test_compressed_files_are_read(
    compress: Callable[[bytes], bytes], name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    is_json = "jsonl" in name
    path.write_bytes(compress(b'{"text": "a b"}' if is_json else TEXT.encode()))
    tokens = [record.tokens for record in records_of(path)]
    assert tokens == ([["a", "b"]] if is_json else [line.split() for line in TEXT.splitlines()])


@compressions
def test_bytes_are_counted_and_damage_is_reported(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a"
    long = b"".join(b"%x\n" % pow(3, i, 2**61 - 1) for i in range(9000))
    for content in (long, b"", b"a\n", b"\xef\xbb\xbfa\r\n\n \xc3\xa9 \nlast", b"\n\n\n"):
        path.write_bytes(compress(content))
        counts: list[int] = []
        with Source(path) as source:
            lines = list(source.lines(counts.append)[0])
        assert len(lines) == len(content.split(b"\n")) - (content[-1:] in b"\n")
        assert sum(counts) == Source(path).size == path.stat().st_size
        assert len(counts) >= len(lines)
    if compress is not bytes:
        path.write_bytes(compress(TEXT.encode())[:-6])
        with Source(path) as source, pytest.raises(InputError, match=r"line \d: reading failed"):
            list(source.lines()[0])


def test_zstd_without_its_package_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd\x04")
    with pytest.raises(ElmoError, match=r'zstd data needs .*\[zstd\]"'):
        records_of(tmp_path / "a.zst")


# Files that are not read


def zip_file(name: str = "a.txt", text: str = TEXT) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(zipfile.ZipInfo(name), text)  # A time of today may contain LF.
    return content.getvalue()


TAR = tarfile.TarInfo("a.txt").tobuf() + bytes(1024)
ARRAY = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }\n"


OTHER = {
    "zip": (zip_file(), "a zip file, not UTF-8 text. Unpack it, for example with `unzip -p FILE |"),
    "docx": (zip_file("[Content_Types].xml"), "an Office document, not UTF-8 text. Convert it"),
    "odt": (
        zip_file("mimetype", "application/vnd.oasis.opendocument.text"),
        'an Office document, not UTF-8 text. Convert it with `soffice --convert-to "txt:Text',
    ),
    "xlsx": (
        zip_file("xl/workbook.xml"),
        'a spreadsheet, not UTF-8 text. Convert it with `soffice --convert-to "csv:Text',
    ),
    "ods": (
        zip_file("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        "a spreadsheet, not UTF-8 text. Convert it with `soffice ",
    ),
    "xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document, not UTF-8 text. Convert it"),
    "epub": (zip_file("mimetype", "application/epub+zip"), "an EPUB book, not UTF-8 text."),
    "tar": (TAR, "a tar archive, not UTF-8 text. Unpack it"),
    "tar.gz": (gzip.compress(TAR), "a tar archive, not UTF-8 text. Unpack it"),
    "pdf": (b"%PDF-1.7\n%\xe2", "PDF, not UTF-8 text. Convert it, for example with `pdftotext"),
    "npy": (ARRAY, "a NumPy array, not UTF-8 text."),
    "pickle": (pickle.dumps(["a"]), "a pickle, not UTF-8 text."),
    "HDF5": (b"\x89HDF\r\n\x1a\n", "HDF5, not UTF-8 text."),
    "rtf": (b"{\\rtf1 a}", "RTF, not UTF-8 text. Convert it, for example with `pandoc"),
    "UTF-16": (TEXT.encode("utf-16"), "UTF-16, not UTF-8 text. Convert it with `iconv -f utf-16"),
    "UTF-16be": (b"\xfe\xff" + TEXT.encode("utf-16be"), "UTF-16, not UTF-8 text. Convert it with"),
    "UTF-32": (TEXT.encode("utf-32"), "UTF-32, not UTF-8 text. Convert it with `iconv -f utf-32"),
}
for each in ("utf-16le", "utf-16be"):
    convert = f"Convert it with `iconv -f {each} -t utf-8`."
    OTHER[f"unmarked {each}"] = (TEXT.encode(each), f"UTF-16, not UTF-8 text. {convert}")


@pytest.mark.parametrize(("content", "message"), OTHER.values(), ids=OTHER)
def test_other_data_is_refused_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    for name in (None, "text", "json", "csv"):  # The data is refused even if a format is named.
        with pytest.raises(InputError) as caught:
            records_of(path, TextSettings(name))
        assert str(caught.value).startswith(f"{path}: {message}")


# Formats by content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (">sp|P1 a\nMKV\n", "fasta"),
        (">p1\rMKV\r", "fasta"),
        ('{"text": "a", "n": 1}\n', "jsonl"),
        ('[\n {"text": "a"}]', "json"),
        ("# sent_id = 1\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n", "conllu"),
        (">>> import this\n", "text"),
        ("> said he .\nMKV\n", "text"),
        ("[ Music ]\n", "text"),
        ("[\nx\n", "text"),
        ('{"a": 1}\n', "text"),
        ("PAR1 is a protein .\n", "text"),
        ("BZh is not bzip2 .\n", "text"),
        ("1\ta\n", "text"),
        ("", "text"),
    ],
)
def test_content_tells_the_format_without_a_suffix(
    content: str, expected: str, tmp_path: Path
) -> None:
    for name in ("input", "input.txt"):
        (tmp_path / name).write_text(content)
        assert open_input(tmp_path / name).format.name == expected


@pytest.mark.parametrize(
    ("content", "name"),
    [(">p1\nMK\n", "fasta"), ('{"text": "a"}\n', "jsonl"), ('[{"text": "a"}]\n', "json")],
)
def test_other_formats_in_a_stream_are_refused(content: str, name: str) -> None:
    with pytest.raises(InputError) as caught:
        records_of(io.StringIO(content))
    assert str(caught.value) == (
        f"the input, line 1: it seems to be {name}, not text. Use --input-format {name}, or "
        "--input-format text to read one sentence per line."
    )
    records = records_of(io.StringIO(content), TextSettings("text"))
    assert [record.text for record in records] == content.splitlines()


def test_a_file_that_is_open_as_bytes_is_refused() -> None:
    source: Any = io.BytesIO(b"a\n")
    with pytest.raises(InputError, match="found a binary file"), Source(source):
        pass
