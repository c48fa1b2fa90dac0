"""Sources of text: files, compressed data, standard input, pipes, paragraphs."""

import bz2
import gzip
import io
import logging
import lzma
import os
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.errors.exceptions import ElmoError, InputError, StoppedError
from elmo_cli.files.text_files import read_text
from elmo_cli.options.text import TextSettings
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import open_records
from elmo_cli.records.record import Record
from elmo_cli.text.line_reader import Line, LineReader
from elmo_cli.text.pipe import Pipe
from elmo_cli.text.sources import Source
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, make_tokenizer


def lines_of(content: bytes, name: str = "input.txt") -> list[str]:
    return texts_of(LineReader(name, io.BytesIO(content)).lines())


def texts_of(lines: Iterable[Line]) -> list[str]:
    return [line.text for line in lines]


def read_sentences(path: str | Path) -> list[list[str]]:
    """Return the tokens of each line of a file."""
    with Source(path) as source:
        return [WHITESPACE.tokenize(line.text) for line in source.lines()[0]]


def read_records(
    path: Path, tokenizer: Tokenizer | None = None, **settings: Any
) -> list[Record]:
    """Return the records of a file."""
    with open_records(open_input(path, TextSettings(**settings), tokenizer)) as (
        records,
        *_,
    ):
        return list(records)


# Lines


@pytest.mark.parametrize(
    "separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"]
)
def test_only_lf_ends_a_line_of_a_file_with_lf(separator: str) -> None:
    lines = [f"a{separator}b", f"c{separator}d"]
    assert lines_of("".join(f"{line}\n" for line in lines).encode()) == lines


@pytest.mark.parametrize("content", [b"a\r\rb", b"a\r\rb\r"])
def test_cr_ends_the_lines_of_a_file_without_lf(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "input.txt"
    for stored in (gzip.compress(content), content):
        path.write_bytes(stored)
        assert read_sentences(path) == [["a"], [], ["b"]]
    with path.open() as file, Source(file) as source:
        assert texts_of(source.lines()[0]) == ["a", "", "b"]
    assert read_text(path).splitlines() == ["a", "", "b"]


def test_long_files_with_cr_are_read_in_pieces() -> None:
    lines = [f"{'ab' * (i % 7)}{i}" for i in range(40_000)] + ["x" * 300_000, "end"]
    for end in ("\r", "\r\n"):
        content = end.join(lines).encode()
        reader = LineReader("x", io.BytesIO(content), splits_at_cr=True)
        assert texts_of(reader.lines()) == lines


def test_a_reader_may_begin_in_the_middle() -> None:
    for content, expected in ((b"a\nb\rc", ["b\rc"]), (b"a\rb\rc", ["b", "c"])):
        reader = LineReader("x", io.BytesIO(content), first=2)
        reader.seek(2)
        lines = list(reader.lines())
        assert texts_of(lines) == expected
        assert lines[0].number == 2


def test_byte_order_marks_are_no_part_of_first_tokens() -> None:
    text = "\ufeffa b\n\ufeff\ufeffc\n"
    assert lines_of(text.encode()) == ["a b", "c"]
    with Source(io.StringIO(text)) as source:
        assert texts_of(source.lines()[0]) == ["a b", "c"]


@given(st.lists(st.text("ab é東\t", max_size=8), max_size=8))
def test_lines_are_read_back_as_they_were_written(lines: list[str]) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    assert lines_of(content) == [line.strip() for line in lines]
    assert lines_of(gzip.compress(content), "input.txt.gz") == [
        line.strip() for line in lines
    ]


def test_a_file_that_is_open_as_bytes_is_refused() -> None:
    source: Any = io.BytesIO(b"a\n")
    with pytest.raises(InputError, match="found a binary file"), Source(source):
        pass


# Compressed data and archives

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pytest.importorskip("backports.zstd").compress(content),
}
compressions = pytest.mark.parametrize(
    "compress", COMPRESSIONS.values(), ids=COMPRESSIONS
)


@compressions
@pytest.mark.parametrize("name", ["a.txt", "a", "a.txt.gz", "a.jsonl.xz"])
def test_compressed_files_are_read(
    compress: Callable[[bytes], bytes], name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(compress(b'{"text": "a b"}\n' if "jsonl" in name else b"a b\n"))
    assert [record.tokens for record in read_records(path)] == [["a", "b"]]


@compressions
def test_bytes_are_counted_and_damage_is_reported(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a"
    numbers = [pow(3, i, 2**61 - 1) for i in range(9000)]
    long = b"".join(b"%x\n" % number for number in numbers)
    for content in (
        long,
        b"",
        b"a\n",
        b"\xef\xbb\xbfa\r\n\n \xc3\xa9 \nlast",
        b"\n\n\n",
    ):
        path.write_bytes(compress(content))
        counts: list[int] = []
        with Source(path) as source:
            lines = list(source.lines(counts.append)[0])
        n_lines = content.count(b"\n")
        if content and not content.endswith(b"\n"):
            n_lines += 1
        assert len(lines) == n_lines
        assert sum(counts) == Source(path).size == path.stat().st_size
        assert len(counts) >= len(lines)
    if compress is not bytes:
        path.write_bytes(compress(b"The cat sat .\n\nThe end .\n")[:-6])
        with pytest.raises(InputError, match=r"line \d: reading failed"):
            read_sentences(path)


def test_zstd_without_its_package_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd\x04")
    with pytest.raises(ElmoError, match=r'zstd data needs .*\[zstd\]"'):
        read_records(tmp_path / "a.zst")


def test_a_truncated_gzip_file_is_reported_after_its_good_lines() -> None:
    # Lines that hardly compress, so that their file is longer than any buffer.
    numbers = [pow(3, 1000 + i, 2**256 - 189) for i in range(8000)]
    content = gzip.compress(b"".join(b"%x\n" % number for number in numbers))
    truncated = content[: len(content) * 3 // 4]
    lines = LineReader("input.gz", io.BytesIO(truncated)).lines()
    read: list[Line] = []
    with pytest.raises(
        InputError, match=r"^input\.gz, line \d+: reading failed: "
    ) as caught:
        read.extend(lines)
    assert "ended before the end-of-stream marker" in str(caught.value)
    assert 0 < len(read) < 8000
    assert f"line {len(read) + 1}:" in str(caught.value)


def test_what_is_no_gzip_is_reported() -> None:
    for content, message in (
        (
            gzip.compress(b"a\n")[:10] + b"\xff" * 40,
            "line 1: reading failed: Error -3 while ",
        ),
        (
            gzip.compress(b"a\n")[:-8] + bytes(8),
            "line 2: reading failed: CRC check failed",
        ),
    ):
        with pytest.raises(InputError, match=f"^input.gz, {message}"):
            lines_of(content, "input.gz")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_tar_archive_is_refused(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(compress(tarfile.TarInfo("a.txt").tobuf() + bytes(1024)))
    with pytest.raises(InputError, match=r"a tar archive, not UTF-8 text\. Unpack it"):
        read_records(path)


# Standard input and pipes


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_dash_is_standard_input_which_stays_open(
    compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = SimpleNamespace(
        buffer=io.BufferedReader(io.BytesIO(compress(b"a b\n\xc3\xa9\n")))
    )
    monkeypatch.setattr("sys.stdin", stdin)
    assert read_sentences("-") == [["a", "b"], ["é"]]
    assert not stdin.buffer.closed


@contextmanager
def pipe(should_stop: Callable[[], bool] = lambda: False) -> Iterator[tuple[Pipe, int]]:
    """Yield a pipe to read from, and the descriptor to write to."""
    reading, writing = os.pipe()
    with Pipe(reading, should_stop) as file:
        yield file, writing


@contextmanager
def background(function: Callable[..., object], *arguments: object) -> Iterator[None]:
    """Call a function in a thread."""
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    yield
    thread.join()


def write_slowly(descriptor: int, content: bytes, size: int) -> None:
    for start in range(0, len(content), size):
        os.write(descriptor, content[start : start + size])
        time.sleep(0.001)
    os.close(descriptor)


@pytest.mark.parametrize("is_blocking", [True, False])
def test_all_lines_are_read_however_they_come(is_blocking: bool) -> None:
    content = b"".join(b"line %d\n" % number for number in range(200)) + b"the last"
    with pipe() as (file, writing), background(write_slowly, writing, content, 37):
        os.set_blocking(file.fileno(), is_blocking)
        assert b"".join(file) == content


def test_a_long_line_takes_time_in_proportion_to_its_length() -> None:
    content = b"ab " * (16 << 20) + b"\n"
    start = time.process_time()
    with pipe() as (file, writing), background(os.write, writing, content):
        assert file.readline() == content
    os.close(writing)
    assert time.process_time() - start < 3  # Joining again and again took 20 s.


def read_all(name: str, file: BinaryIO) -> bytes:
    return b"".join(iter(LineReader(name, file).next_line, b""))


@pytest.mark.parametrize("end", [b"\n", b"\r", b""])
def test_a_line_that_fills_the_memory_is_an_error(
    end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 200_000
    for module in ("pipe", "line_reader"):
        monkeypatch.setattr(f"elmo_cli.text.{module}.MAX_LINE_BYTES", limit)
    longest = b"a b" + end + b"c" * (limit - 3)
    assert read_all("text.txt", io.BytesIO(longest)) == longest
    long = longest + b"cccc"
    message = rf", line {2 if end else 1}: more than 200,000 bytes$"
    with pytest.raises(InputError, match=f"^text.txt{message}"):
        read_all("text.txt", io.BytesIO(long))
    if end == b"\r":
        return  # A pipe has lines that end in LF.
    with pipe() as (file, writing), background(write_slowly, writing, longest, 9999):
        assert read_all("the pipe", file) == longest
    with (
        pipe() as (file, writing),
        background(write_slowly, writing, long, 9999),
        pytest.raises(InputError, match=f"^the pipe{message}"),
    ):
        read_all("the pipe", file)


def test_a_line_that_is_not_there_is_not_waited_for() -> None:
    with pipe() as (file, writing):
        assert not file.has_line()
        os.write(writing, b"a\nb\nc")
        assert [file.has_line(), file.readline()] == [True, b"a\n"]
        assert [file.has_line(), file.readline()] == [True, b"b\n"]
        assert not file.has_line()
        os.write(writing, b"d\n")
        assert [file.has_line(), file.readline()] == [True, b"cd\n"]
        os.close(writing)
        assert [file.has_line(), file.readline()] == [True, b""]


def test_a_slow_writer_is_not_waited_for_again_and_again() -> None:
    with pipe() as (file, writing), background(write_slowly, writing, b"a\n" * 100, 2):
        answers = [file.has_line() for line in file]
    assert answers.count(False) >= 2
    assert len(answers) == 100


def test_a_reader_that_waits_can_be_stopped() -> None:
    stops = [False]
    with pipe(lambda: stops[0]) as (file, writing):
        os.write(writing, b"a\nb")
        assert file.readline() == b"a\n"
        stops[0] = True
        with pytest.raises(StoppedError, match="stopped while waiting for more input"):
            file.readline()
        os.close(writing)


def test_the_end_that_a_terminal_tells_of_once_is_kept() -> None:
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"a\n\x04")  # Ctrl-D
    with Pipe(terminal, lambda: True) as file:
        assert file.readline() == b"a\n"
        file.has_line()
        assert file.readline() == b""
    os.close(keyboard)


def test_a_terminal_shows_how_a_text_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keyboard, terminal = os.openpty()
    os.write(keyboard, b"a b\n\x04")
    with open(terminal) as file, caplog.at_level(logging.INFO, "elmo_cli"):
        monkeypatch.setattr("sys.stdin", file)
        with Source("-") as source:
            assert texts_of(source.lines()[0]) == ["a b"]
    assert caplog.messages == ["Reading from the terminal; Ctrl-D ends the text."]
    os.close(keyboard)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def test_a_named_pipe_is_opened_once(fifo: Path) -> None:
    Source(fifo).check()
    with background(fifo.write_bytes, b"a\nb\n"), Source(fifo) as source:
        assert texts_of(source.lines()[0]) == ["a", "b"]


def test_a_named_pipe_without_a_writer_can_be_stopped(fifo: Path) -> None:
    with Source(fifo) as source, pytest.raises(StoppedError):
        next(source.lines(should_stop=lambda: True)[0])


def test_a_pipe_of_compressed_data_is_refused(fifo: Path) -> None:
    write = background(fifo.write_bytes, gzip.compress(b"a\n"))
    with write, Source(fifo) as source, pytest.raises(InputError) as caught:
        next(source.lines()[0])
    assert str(caught.value) == (
        f"{fifo}: gzip data, not UTF-8 text. Pipe in `zcat FILE`, or name the file."
    )


def test_lines_that_end_in_cr_come_from_a_pipe() -> None:
    with pipe() as (file, writing):
        os.write(writing, b">a\rMK\n>b\r")
        reader = LineReader("-", file, splits_at_cr=True)
        assert reader.next_line() == b">a\r"
        assert reader.is_ready() is True
        assert reader.next_line() == b"MK\n"
        os.close(writing)
        assert texts_of(reader.lines()) == [">b"]


# Hard-wrapped text


def test_lines_until_a_blank_line_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_bytes(b"\n\nThe river\nrose .\n\n\n\xff\nThe\nend .")
    records = read_records(path, skip_errors=True, paragraphs=True)
    assert [record.text for record in records] == ["The river rose .", "", "The end ."]
    assert [record.error is None for record in records] == [True, False, True]


def test_sentences_of_paragraphs_know_their_line(tmp_path: Path) -> None:
    pytest.importorskip("sentencex")
    path = tmp_path / "book.txt"
    path.write_text("\nOne two\nthree. Four\nfive.\n\n\nSix.\n")
    tokenizer = make_tokenizer("whitespace", "en", split_sentences=True)
    records = read_records(path, tokenizer, paragraphs=True)
    assert [record.text for record in records] == [
        "One two three.",
        "Four five.",
        "Six.",
    ]
    assert [record.line for record in records] == [2, 2, 7]
