"""Activations to an output file, in the form that `allennlp elmo` wrote.

One float32 dataset a line of the input, named by the line's number from "0":
(L, T, W), or (T, W) where one layer is chosen or mixed; a blank line gives an
empty one. And `sentence_to_index`, shape (1,): a JSON string that maps each
sentence to the name of its dataset, the last one of equal sentences.
Attributes of the file say what made it.
"""

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import InputError, OutputError

SENTENCE_TO_INDEX = "sentence_to_index"


class ActivationsWriter:
    """Writes an output file, which appears under its name only when it is complete.

    A context manager: until it ends well, the file is called `NAME.partial`; where
    it does not, that file is removed.
    """

    def __init__(
        self,
        path: str | Path,
        attributes: Mapping[str, str],
        *,
        dtype: str = "float32",
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
        overwrite: bool = False,
    ) -> None:
        """Open the file.

        Args:
            path: the output file.
            attributes: what to record about its making.
            dtype: of the values, `float32` or `float16`.
            forget_sentences: leave `sentence_to_index` out.
            use_sentence_keys: name datasets by their sentence, not by number.
            overwrite: replace a file that is there.

        Raises:
            OutputError: the file is there already, or cannot be written.
        """
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self._dtype = np.dtype(dtype)
        self._use_sentence_keys = use_sentence_keys
        self._index: dict[str, str] | None = None if forget_sentences or use_sentence_keys else {}
        self._n_lines = 0
        check_output(self.path, overwrite=overwrite)
        try:
            self._sink = _Sink(self.partial, "w+b")
        except OSError as error:
            raise _output_error(self.path, error) from None
        self._file = h5py.File(self._sink, "w")
        self._file.attrs.update(attributes)

    def write(self, sentence: str, values: NDArray[Any]) -> None:
        """Add the activations of the next line.

        Args:
            sentence: the line, without white space at its ends.
            values: float, shape (L, T, W) or (T, W).

        Raises:
            InputError: the sentence cannot be the name of a dataset.
            OutputError: the disk is full, or fails.
        """
        key = self._sentence_key(sentence) if self._use_sentence_keys else str(self._n_lines)
        self._n_lines += 1
        if key is None:
            return
        self._file.create_dataset(key, data=values.astype(self._dtype, copy=False))
        self._check()
        if self._index is not None and sentence:
            self._index[sentence] = key

    def _sentence_key(self, sentence: str) -> str | None:
        """The sentence as the name of a dataset; None for a blank line, which has none."""
        if not sentence:
            return None
        advice = "leave out --use-sentence-keys"
        place = f"line {self._n_lines + 1}: the sentence {sentence[:60]!r}"
        # "/" parts names into groups, and "." is the group itself.
        if "\0" in sentence or any(part in ("", ".") for part in sentence.split("/")):
            raise InputError(f"{place} cannot name a dataset; {advice}")
        try:
            taken = sentence in self._file
        except (KeyError, ValueError):
            taken = True
        parents = sentence.split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            taken |= isinstance(self._file.get("/".join(parents[:depth])), h5py.Dataset)
        if taken:
            raise InputError(f"{place} names a dataset that is there already; {advice}")
        return sentence

    def __enter__(self) -> "ActivationsWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Finish the file, or remove what there is of it."""
        if kind is None:
            try:
                self._finish()
            except BaseException:
                self._discard()
                raise
        else:
            self._discard()

    def _finish(self) -> None:
        if self._index is not None:
            text = json.dumps(self._index)
            string = h5py.string_dtype(encoding="utf-8")
            self._file.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=string)[0] = text
        self._file.close()
        self._check()
        try:
            self._sink.close()
            os.replace(self.partial, self.path)
        except OSError as error:
            raise _output_error(self.path, error) from None

    def _check(self) -> None:
        """Raise what went wrong under HDF5."""
        error = self._sink.error
        if isinstance(error, OSError):
            raise _output_error(self.path, error) from None
        if error is not None:
            raise error

    def _discard(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._sink.close()
        self.partial.unlink(missing_ok=True)


class _Sink(FileIO):
    """The file under HDF5, which never hears of an error: `error` is the first.

    HDF5 cannot bear a write that fails: it goes on, the data lost, and crashes when the
    file is closed (seen with HDF5 2.0 on a full disk).
    """

    error: BaseException | None = None

    def write(self, data: Any, /) -> int:
        def write_all() -> None:
            rest = memoryview(data)
            while rest:
                rest = rest[FileIO.write(self, rest) :]

        self._attempt(write_all)
        return len(data)

    def truncate(self, size: int | None = None, /) -> int:
        self._attempt(lambda: FileIO.truncate(self, size))
        return size or 0

    def _attempt(self, act: Callable[[], object]) -> None:
        if self.error is None:
            try:
                act()
            except BaseException as error:  # Ctrl-C too, which may come here
                self.error = error


def check_output(path: str | Path, *, overwrite: bool) -> None:
    """Make sure that an output file can be written, before anything is computed.

    Raises:
        OutputError: it is there already, is a directory, or its folder is missing
            or not writable.
    """
    path = Path(path)
    # Not the methods of Path: they raise where a name is too long.
    if os.path.isdir(path):
        raise OutputError(f"{path}: expected an output file, found a directory")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OutputError(f"{path}: expected an output file, found a device or a pipe")
    if os.path.exists(path) and not overwrite:
        raise OutputError(f"{path} exists already; --overwrite replaces it")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {path.parent} is not writable")


def _output_error(path: Path, error: OSError) -> OutputError:
    advice = "; make room and run the command again" if error.errno == errno.ENOSPC else ""
    return OutputError(f"{path}: cannot write the output: {error.strerror}{advice}")
