"""Inputs split into parts: any split gives the records of the whole, with their numbers."""

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from elmo_cli.distributed.inputs import Part, find_inputs, read_part, split_inputs
from elmo_cli.errors import InputError, OtherInputError
from elmo_cli.outputs.parts import Folder
from elmo_cli.settings import TextSettings
from elmo_cli.text.input_formats import open_input, open_records
from elmo_cli.text.records import Record

SPACE, MARK = "\u00a0".encode(), "\ufeff".encode()
LINES = {
    "text": [b"", b"a b", b"c", "東京 naïve".encode(), b"  d\t", b"\r"],
    # One reader may call a line blank, and another one may not.
    "jsonl": [b"", SPACE, MARK, b'{"text": "a b"}', MARK + b'{"text": "c"}', b"[]", b"\xff", b"{"],
    # Text before the first header.
    "odd.fasta": [b"", SPACE, MARK, b">a b", MARK + b">c", b"MV", b" >d", b"\xff", b">"],
    "fasta": [b"\n>%d of it\nMVLS\nPA\n%s" % (i, end) for i in range(5) for end in (b"", b"\n")],
}
"""Lines of which random files are made, by suffix."""


def read_all(path: Path, columns: TextSettings, n_bytes: int) -> tuple[list[Part], list[Record]]:
    n_tokens = n_bytes / (1 if path.suffix == ".fasta" else 6)
    parts, types = split_inputs([str(path)], columns, n_tokens)
    records: list[Record] = []
    for number, part in enumerate(parts):
        new = list(read_part(part, columns, has_ids="id" in types))
        assert (part.number, part.first, part.n_records) == (number, len(records), len(new))
        records += new
    return parts, records


def records_of_embed(path: Path, *, skip_errors: bool = False) -> list[Record]:
    """Return the records of `elmo embed`, which also compares ids."""
    text = open_input(path, TextSettings(skip_errors=skip_errors))
    with open_records(text, ids="any") as (records, *_):
        return list(records)


@pytest.mark.parametrize("suffix", LINES)
@given(data=st.data(), units=st.integers(1, 60), end=st.sampled_from([b"", b"\n"]))
def test_any_cut_gives_the_records_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: Any, units: int, end: bytes
) -> None:
    path = tmp_path_factory.mktemp("cut") / f"a.{suffix}"
    unique_by = bytes.strip if suffix == "fasta" else None  # A repeated id is an error.
    lines = data.draw(st.lists(st.sampled_from(LINES[suffix]), unique_by=unique_by))
    path.write_bytes(b"\n".join(lines) + end)
    records = read_all(path, TextSettings(skip_errors=True), units)[1]
    assert records == records_of_embed(path, skip_errors=True)


def test_read_part_refuses_lines_that_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"a b\n\xff\n c \n" * 5)
    settings = TextSettings(skip_errors=True, tokenizer="moses")
    parts, _ = split_inputs([str(path)], settings, 1)
    path.write_bytes(b"a b\n\xff\n c\n\n" * 5)
    with pytest.raises(OtherInputError, match=r"text.txt: the file has changed"):
        list(read_part(parts[2], settings, has_ids=False))


def test_compressed_data_is_one_part(tmp_path: Path) -> None:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(b"a b\n\nc"))
    parts, records = read_all(path, TextSettings(), 1)
    assert len(parts) == 1
    assert records == records_of_embed(path)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write JSON lines, or Parquet of small row groups."""
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=4)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_json_lines_and_parquet_have_columns(tmp_path: Path) -> None:
    lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    texts = ["a b", ["c d", "e"], None] * 5
    write_rows(lines, [{"t": text, "id": 7} for text in texts])
    columns = TextSettings(text_column="t", id_column="id")
    records = read_all(lines, columns, 20)[1]
    expected = [(["a", "b"], "7"), (["c d", "e"], "7"), ([], "7")] * 5
    assert [(record.tokens, record.id) for record in records] == expected
    texts = ["a b", "", ""] * 5
    write_rows(table, [{"t": text, "id": 7} for text in texts])
    for n_bytes in (1, 30, 100, 10_000):
        parts, records = read_all(table, columns, n_bytes)
        assert [record.text for record in records] == texts
        assert len(parts) == {1: 15, 10_000: 1}.get(n_bytes, len(parts))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_a_record_without_an_id_is_invalid_in_every_part(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_rows(path, [{"text": "a", "id": i if i % 4 == 2 else None} for i in range(8)])
    settings = TextSettings(skip_errors=True)
    expected = [i % 4 != 2 for i in range(8)]
    for n_bytes in (1, 20, 10_000):
        records = read_all(path, settings, n_bytes)[1]
        assert [record.error is not None for record in records] == expected
    unit = "line" if name.endswith("jsonl") else "row"
    error = f"{path}, {unit} 8: field 'id': expected an id, found none"
    assert records[7].error == error
    write_rows(path, [{"text": "a"}] * 3)
    if name.endswith("jsonl"):  # A named column is required, too.
        settings = TextSettings(skip_errors=True, id_column="id")
        assert all(record.error for record in read_all(path, settings, 1)[1])


def test_inputs_with_ids_and_without_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "none.jsonl"]
    write_rows(paths[0], [{"text": "a"}])
    write_rows(paths[1], [{"text": "a", "id": "1"}])
    paths[2].touch()
    inputs = [*map(str, paths)]
    with pytest.raises(InputError, match=r"a.jsonl: no ids, but the records of .*b.jsonl have ids"):
        split_inputs(inputs, TextSettings(), 100)
    assert "id" in split_inputs(inputs[1:], TextSettings(), 100)[1]
    assert "id" not in split_inputs(inputs[2:], TextSettings(), 100)[1]


def test_split_sentences_know_their_lines_in_every_part(tmp_path: Path) -> None:
    pytest.importorskip("sentencex")
    path = tmp_path / "a.txt"
    path.write_text("One. Two.\n" * 9)
    parts, records = read_all(path, TextSettings(split_sentences=True), 20)
    assert len(parts) > 1
    assert [record.attributes["line"] for record in records] == [i // 2 for i in range(18)]


def test_inputs_are_found_by_patterns_and_uris(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).touch()
    by_path = [Path(path).name for path, *_ in find_inputs((f"{tmp_path}/*.txt",), Folder("out"))]
    by_uri = [path for path, *_ in find_inputs((f"file://{tmp_path}/*.txt",), Folder("out"))]
    assert by_path == ["a.txt", "b.txt"]
    assert by_uri == [f"file://{tmp_path}/a.txt", f"file://{tmp_path}/b.txt"]
    bad = os.fsdecode(b"caf\xe9.tsv")
    (tmp_path / bad).touch()
    for name, problem in (
        *((missing, missing) for missing in ("none.txt", "*.none")),
        *((name, r"caf\xe9.tsv: the name of the file is not UTF-8") for name in (bad, "*.tsv")),
    ):
        with pytest.raises(InputError, match=re.escape(problem)):
            find_inputs((f"{tmp_path}/{name}",), Folder("out"))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_files_of_the_output_folder_are_left_out(
    tmp_path: Path, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "out/_elmo").mkdir(parents=True)
    for name in ("a.txt", "out/b.txt", "out/_elmo/c.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    folder = Folder(f"{scheme}{tmp_path}/link")
    found = find_inputs((f"{tmp_path}/**/*.txt", f"{tmp_path}/[ao]*"), folder)
    assert [path for path, _ in found] == [f"{tmp_path}/a.txt"] * 2
    assert "*.txt: skipped 4 files in the output folder" in caplog.text
    with pytest.raises(InputError, match=r"b.txt: the input is in the output folder. Choose"):
        find_inputs((f"{tmp_path}/out/b.txt",), folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"a\nb\nc\xff\n", ", line 3, column 2: not valid UTF-8 (byte 0xff)"),
        ("a.jsonl", b'{"text": "a"}\n\n[]\n', ", line 3: expected a JSON object, found []"),
        ("a.txt.gz", b"\x1f\x8bno gzip", ", line 1: reading failed: Compressed file ended"),
        ("a.parquet", b"no parquet", ": cannot read the Parquet file: Parquet magic bytes not"),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_all(path, TextSettings(), 1)
    assert str(caught.value).startswith(f"{path}{message}")
