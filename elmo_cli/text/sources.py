"""Sources of text: opened once, with their first bytes known, and read by lines.

A file is plain or compressed (gzip, bzip2, xz, zstd), a pipe or standard input. Its
encoding is UTF-8; data of another type is an error. A line ends in LF or CRLF. A file
without any LF at its beginning has lines that end in CR. The lines of pipes and of
standard input are read as they arrive, so their first bytes are not known before.
"""

import io
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

from elmo_cli.callbacks import ignore, never
from elmo_cli.errors.exceptions import ElmoError, InputError
from elmo_cli.errors.messages import PipedCommand
from elmo_cli.errors.missing_files import (
    empty_file_error,
    files_of_pattern,
    missing_file_error,
    unreadable_file_error,
)
from elmo_cli.errors.wording import kind_of
from elmo_cli.files.compression import decompressed
from elmo_cli.text.line_reader import (
    Line,
    LineReader,
    keep_line_ends,
    lines_of_open_file,
)
from elmo_cli.text.pipe import Pipe, open_standard_input

logger = logging.getLogger(__name__)

STANDARD_INPUT: Final = "-"
_NAMES: Final = {None: "the input", STANDARD_INPUT: "standard input"}
HEAD_BYTES: Final = 4096
"""Number of bytes at the beginning of a file that show its type and format."""
_NO_LISTS: Final = frozenset({".parquet", ".hdf5", ".h5", ".npy", ".npz"})
"""Suffixes of files of vectors, which are hardly lists of words."""
_OF_TEXT: Final = frozenset({"", ".txt"})
"""Suffixes of files that can be read one after another, as one text."""
_LIKE_A_FILE: Final = re.compile(r"\S*\.\S*")
"""Name with a suffix and without spaces, which is hardly a text."""


class Source:
    """Input that is opened once: a path, `-` for standard input, or an open text file.

    The first use of its content opens it. Who reads its records, or its last reference,
    closes it.
    """

    def __init__(
        self,
        given: object,
        advice: str | None = None,
        *,
        shell_advice: str | None = None,
        argument: str = "the input",
    ) -> None:
        """Take an input.

        Args:
            given: Path, `-` or open text file.
            advice: Remedy for a name that seems to be no name of a file, if the input
                is a list. Without it, the command line advises to pipe a text.
            shell_advice: Its replacement on the command line, a template in which
                `{quoted}` is the name and `{piped}` the command that reads a pipe.
            argument: Argument with the input, for errors.
        """
        is_path = isinstance(given, (str, Path))
        is_binary = isinstance(given, (io.RawIOBase, io.BufferedIOBase))
        if not is_path and (is_binary or not hasattr(given, "read")):
            kind = "a binary file" if is_binary else kind_of(given)
            raise InputError(
                f"{argument}: expected a path or an open text file, found {kind}"
            )
        if getattr(given, "closed", False):
            raise InputError(
                f"{argument}: expected an open text file, found a closed one",
                remedy="Open it again, or give its path.",
            )
        self._given = given
        self._advice = advice
        self._shell_advice = shell_advice or advice
        self.path = str(given) if is_path else None
        """Path or `-`; None for an open text file."""
        self.name = _NAMES.get(self.path) or str(self.path)
        """Name in messages."""
        self._file: BinaryIO | None = None
        self.has_lines = False
        """True once a line was read, even a blank one."""

    @property
    def is_open_text(self) -> bool:
        """True if it was given as an open text file."""
        return self.path is None

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @contextmanager
    def closed_after_error(self) -> Iterator[None]:
        """Close the source if the block raises an error."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @cached_property
    def is_file(self) -> bool:
        """True for a regular file, which has a head and a size, and can be reread."""
        if self.path is None or self.path == STANDARD_INPUT:
            return False
        return os.path.isfile(self.path)

    def check_exists(self) -> None:
        """Raise an `InputError` if the path of a file leads nowhere."""
        if self.path is None or self.path == STANDARD_INPUT:
            return
        if not os.path.exists(self.path):
            raise missing_file_error(self.path, InputError)

    @property
    def size(self) -> int | None:
        """Size of a file in bytes; None for a stream."""
        return os.path.getsize(str(self.path)) if self.is_file else None

    @cached_property
    def head(self) -> bytes:
        """First bytes, decompressed; empty for a stream, and for an unreadable file."""
        if not self.is_file:
            return b""
        content = b""
        # The reader of the whole file explains the error.
        with suppress(Exception):
            content = decompressed(self.open()).read(HEAD_BYTES)
        self.rewind()
        return content

    @cached_property
    def first_line(self) -> bytes:
        """First line of standard input, which stays readable; empty for a terminal."""
        if self.path != STANDARD_INPUT or sys.stdin is None or sys.stdin.isatty():
            return b""
        file = self.open()
        if isinstance(file, Pipe):
            return file.peek_line()
        if not file.seekable():
            return b""
        start = file.tell()
        line = file.readline()
        file.seek(start)
        return line

    @property
    def is_rereadable(self) -> bool:
        """True if the input can be read twice, unlike a pipe."""
        if self.is_file:
            return True
        file = self._given if self.path is None else self.open()
        return bool(getattr(file, "seekable", lambda: False)())

    @contextmanager
    def peeking(self) -> Iterator[None]:
        """Let all that is read in the block be read again after it."""
        if self.path is None:
            given: Any = self._given
            keep_line_ends(given)
            lines: list[str] = []
            self._given = _note_lines(given, lines)
            try:
                yield
            finally:
                self._given = chain(lines, given)
            return
        file = self.open()
        if isinstance(file, Pipe):
            with file.peeking():
                yield
            return
        if not file.seekable():
            raise InputError(f"{self.name}: it cannot be read twice")
        start = file.tell()
        try:
            yield
        finally:
            # Reading may have closed the file.
            self.open().seek(start)

    def open(self, should_stop: Callable[[], bool] = never) -> BinaryIO:
        """Return the open file; a pipe that waits for input calls `should_stop`."""
        if self._file is None or self._file.closed:
            if self.path == STANDARD_INPUT:
                self._file = open_standard_input(should_stop)
            else:
                self._file = self._open_path(should_stop)
        elif isinstance(self._file, Pipe):
            self._file.should_stop = should_stop
        return self._file

    def _open_path(self, should_stop: Callable[[], bool]) -> BinaryIO:
        path = str(self.path)
        try:
            if not Path(path).is_fifo():
                return open(path, "rb")
            # Linux does not wait for the writer here. Other systems would report an
            # empty pipe.
            flag = os.O_NONBLOCK if sys.platform == "linux" else 0
            return Pipe(os.open(path, os.O_RDONLY | flag), should_stop)
        except OSError as error:
            remedy = None
            shell_remedy = None
            is_missing = isinstance(error, FileNotFoundError)
            if is_missing and not _LIKE_A_FILE.fullmatch(path):
                remedy = self._advice
                shell_remedy = self._shell_advice or (
                    "Give the name of a file, or pipe a text: "
                    "`echo {quoted} | {piped}`."
                )
            if is_missing and files_of_pattern(path):
                shell_remedy = self._pattern_remedy(path)
            if isinstance(error, IsADirectoryError):
                shell_remedy = (
                    "To read the files in it, use `cat {folder}/* | {piped}`."
                )
            raise unreadable_file_error(
                path,
                "input",
                error=error,
                kind=InputError,
                remedy=remedy,
                shell_remedy=shell_remedy,
                excluded=() if self._advice is None else _NO_LISTS,
                quoted=shlex.quote(path),
                pattern=_quoted_pattern(path),
                folder=shlex.quote(os.path.normpath(path)),
                piped=PipedCommand(path),
            ) from None

    def _pattern_remedy(self, path: str) -> str | None:
        """Return the remedy for a pattern of text files, which a pipe can read."""
        files = files_of_pattern(path)
        are_text = all(Path(file).suffix in _OF_TEXT for file in files)
        if self._advice is not None or not are_text or len(files) < 2:
            return None
        return (
            "The shell does not replace a pattern in quotes. To read its "
            f"{len(files):,} files, pipe them: `cat {{pattern}} | {{piped}}`."
        )

    def check(self) -> None:
        """Raise an `InputError` if a file cannot be opened; streams are not opened."""
        if self.path is None or self.path == STANDARD_INPUT:
            return
        if not Path(self.path).is_fifo():
            self.open()

    def rewind(self) -> None:
        """Go back to the beginning of a file."""
        if self._file is not None:
            self._file.seek(0)

    def close(self) -> None:
        """Close a file that was opened here. If it is used again, it is reopened."""
        # The constructor may have failed.
        file = getattr(self, "_file", None)
        self._file = None
        if file is not None and self.path != STANDARD_INPUT:
            file.close()

    def lines(
        self,
        on_bytes: Callable[[int], object] = ignore,
        *,
        skip_errors: bool = False,
        should_stop: Callable[[], bool] = never,
        splits_at_cr: bool = False,
        keep_ends: bool = False,
    ) -> tuple[Iterator[Line], Callable[[], bool]]:
        """Return the lines, and a function that says whether the next one is ready.

        Args:
            on_bytes: Called with the number of bytes of each line of a path.
            skip_errors: Return a line that is not UTF-8 with an `error`.
            should_stop: Called while a pipe waits for input. True stops the waiting.
            splits_at_cr: End a line at a lone CR too, even if other lines end in LF.
            keep_ends: Keep the white space around the lines.
        """
        if self.path is None:
            given: Any = self._given
            lines = lines_of_open_file(
                given, splits_at_cr=splits_at_cr, keep_ends=keep_ends
            )
            return self._note_first(lines), lambda: True
        reader = LineReader(
            self.name, self.open(should_stop), splits_at_cr=splits_at_cr
        )
        lines = reader.lines(on_bytes, skip_errors=skip_errors, keep_ends=keep_ends)
        return self._note_first(lines), reader.is_ready

    def _note_first(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Yield lines, and note that there is one."""
        for line in lines:
            self.has_lines = True
            yield line
            break
        yield from lines

    def empty_error(self) -> ElmoError:
        """Return the error for an input without a single line."""
        if self.path == STANDARD_INPUT:
            return InputError(
                f"{self.name} is empty",
                remedy="Check the command or the file that it comes from.",
            )
        if self.path is None:
            return InputError(f"{self.name} is empty")
        return empty_file_error(self.path, InputError)


def _note_lines(lines: Iterable[str], noted: list[str]) -> Iterator[str]:
    """Yield lines, and add each to a list."""
    for line in lines:
        noted.append(line)
        yield line


def _quoted_pattern(pattern: str) -> str:
    """Return a pattern as it is typed: all but its wildcards is quoted as needed."""
    return re.sub(r"[^*?]+", lambda part: shlex.quote(part[0]), pattern)
