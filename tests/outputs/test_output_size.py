"""The size of an output, told before it is computed."""

import dataclasses
import logging
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import GOLDEN

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import OutputError
from elmo_cli.outputs.output_size import (
    COUNTED_BYTES,
    InputCount,
    RecordSize,
    check_room,
    count_input,
)
from elmo_cli.text.records import FASTA, TEXT


class Usage(NamedTuple):
    """What `shutil.disk_usage` gives."""

    total: int
    used: int
    free: int


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the bytes that are free on the disk."""

    def set_free(n_bytes: int) -> None:
        monkeypatch.setattr(
            "elmo_cli.outputs.output_size.shutil.disk_usage", lambda path: Usage(9**20, 0, n_bytes)
        )

    return set_free


def test_lines_and_tokens_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("a b\n\n東京\u3000x\n last".encode())
    assert count_input(path, TEXT) == (4, 5, len(b"a b\n\n last\n") + 10, "line", True)
    path.write_bytes(b"")
    assert count_input(str(path), TEXT) == (0, 0, 0, "line", True)


def test_sequences_and_residues_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.fasta"
    path.write_text(">a b\nMVL\nSP\n>c\nK*\n")
    assert count_input(path, FASTA) == (2, 7, 18, "sequence", True)


def test_a_text_is_counted_in_pieces_of_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text"
    path.write_bytes("a b\n\n東京\u3000x y z\n last".encode() * 100)
    pieces = []

    def count(piece: bytes) -> tuple[int, int]:
        pieces.append(piece)
        return TEXT.count(piece)

    expected = count_input(path, TEXT)
    monkeypatch.setattr("elmo_cli.outputs.output_size._PIECE_BYTES", 64)
    assert count_input(path, dataclasses.replace(TEXT, count=count)) == expected
    assert max(map(len, pieces)) < 100
    assert b"".join(pieces) == path.read_bytes()


@pytest.mark.parametrize("source", ["-", "text.gz", "missing", "pipe"])
def test_what_cannot_be_counted_cheaply_is_not(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.gz").write_bytes(b"a b\n")
    os.mkfifo("pipe")
    assert count_input(source, TEXT) is None


def test_a_long_text_is_estimated_by_parts_of_it(tmp_path: Path) -> None:
    choose = random.Random(3)
    block = "".join(" ".join(["word"] * choose.randint(0, 40)) + "\n" for _ in range(10_000))
    n_blocks = 2 * COUNTED_BYTES // len(block)
    path = tmp_path / "text"
    path.write_text(block * n_blocks)
    count = count_input(path, TEXT)
    assert count is not None
    assert not count.is_exact
    assert count.n_tokens == pytest.approx(n_blocks * len(block.split()), rel=0.02)
    assert count.n_records == pytest.approx(n_blocks * 10_000, rel=0.02)


@pytest.mark.parametrize("layers", ["all", "top", "word_emb"])
@pytest.mark.parametrize("pooling", [None, "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_told_is_what_is_written(
    layers: str, pooling: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "The cat sat on the mat and looked at the bank\n"
    settings = {"output_format": layers, "pooling": pooling, "dtype": dtype}
    assert_told_is_written(line * 300, tmp_path, monkeypatch, **settings)


def test_what_is_told_is_what_is_written_in_the_packed_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Short lines, so that what a record takes matters, and many: a dataset has whole chunks.
    assert_told_is_written("a\n" * 100_000, tmp_path, monkeypatch, layout="packed")


def assert_told_is_written(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> None:
    told: list[int] = []

    def note(n_bytes: int) -> str:
        told.append(n_bytes)
        return ""

    monkeypatch.setattr("elmo_cli.outputs.output_size._in_words", note)
    (folder / "text").write_text(text)
    ElmoEmbedder(model=GOLDEN / "relu").embed_file(folder / "text", folder / "out", **settings)
    assert told[0] == pytest.approx((folder / "out").stat().st_size, rel=0.15)


def test_too_little_room_is_an_error_with_the_figures(
    free: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    count = InputCount(1000, 1_000_000, 5_000_000, "line", is_exact=True)
    size = RecordSize(token_bytes=12_288, record_bytes=400, text_share=1)
    output = tmp_path / "out"
    free(12_000_000_000)
    with pytest.raises(OutputError) as caught:
        check_room(output, count, size)
    assert str(caught.value) == (
        f"{output}: about 12 GB (1,000,000 tokens in 1,000 lines) to be written, and 12 GB free "
        "on the disk; --layers average, --pooling mean or --dtype float16 write less"
    )
    caplog.clear()  # a test before may have set the level
    with caplog.at_level(logging.INFO, "elmo_cli"):
        check_room(output, count, size, n_bytes_there=1_000_000_000)
        check_room(output, count, size, share=1 / 16)
    assert caplog.messages == [
        "Output: about 12 GB (1,000,000 tokens in 1,000 lines); 12 GB free",
        "Output: about 768 MB (1/16 of 1,000,000 tokens in 1,000 lines); 12 GB free",
    ]


def test_where_the_size_is_not_sure_little_room_is_a_warning(
    free: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    count = InputCount(10, 1000, 5000, "line", is_exact=False)
    size = RecordSize(token_bytes=1000, record_bytes=0, text_share=0)
    free(950_000)
    check_room(tmp_path / "out", count, size)
    free(1000)
    check_room(tmp_path / "out", count, size, is_bound=True)
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert "about 1.0 MB (about 1,000 tokens in 10 lines) to be written, and 950 kB" in warnings[0]
    assert "at most 1.0 MB" in warnings[1]
    with pytest.raises(OutputError):
        check_room(tmp_path / "out", count, size)
    check_room(tmp_path / "out", None, size)
