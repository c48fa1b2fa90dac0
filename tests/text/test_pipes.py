"""Text from pipes: all of it, as it comes, whether they block or not."""

import gzip
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elmo_cli.errors import InputError, StoppedError
from elmo_cli.text.sources import LineReader, Pipe, Source


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
            assert list(source.lines()[0]) == ["a b"]
    assert caplog.messages == ["Reading from the terminal; Ctrl-D ends the text."]
    os.close(keyboard)


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def test_a_named_pipe_is_opened_once(fifo: Path) -> None:
    Source(fifo).check()
    with background(fifo.write_bytes, b"a\nb\n"), Source(fifo) as source:
        assert list(source.lines()[0]) == ["a", "b"]


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
        assert (reader.next_line(), reader.is_ready()) == (b">a\r", True)
        assert reader.next_line() == b"MK\n"
        os.close(writing)
        assert list(reader.lines()) == [">b"]
