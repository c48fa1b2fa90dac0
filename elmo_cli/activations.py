"""Activations to an output file, in the form that `allennlp elmo` wrote.

One float32 dataset a line of the input, named by the line's number from "0" (or a
record of FASTA, named by its key, with its attributes):
(L, T, W), or (T, W) where one layer is chosen or mixed, and without the T where
tokens are pooled; a blank line gives an empty one, or zeros. And
`sentence_to_index`, shape (1,): a JSON string that maps each sentence to the name
of its dataset, the last one of equal sentences.
Attributes of the file say what made it.
"""

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.checkpointed_file import CheckpointedFile
from elmo_cli.errors import InputError, OutputError
from elmo_cli.text import Record

SENTENCE_TO_INDEX = "sentence_to_index"


class ActivationsWriter:
    """Writes an output file, which appears under its name only when it is complete.

    Until then it is called `NAME.partial`. Checkpoints make sure that what is written
    survives whatever ends the process; a writer of the same settings goes on from the
    last one (see `checkpointed_file`). A context manager: where it ends with an error,
    what was written since the last checkpoint is dropped, and without one, all of it.
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
        """Open the file, at the last checkpoint of an unfinished run if there is one.

        Args:
            path: the output file.
            attributes: what to record about its making.
            dtype: of the values, `float32` or `float16`.
            forget_sentences: leave `sentence_to_index` out.
            use_sentence_keys: name datasets by their text, not by key or number.
            overwrite: replace a file that is there, and forget an unfinished run.

        Raises:
            OutputError: the file is there already, cannot be written, is being written
                by another process, or is of an unfinished run with other settings.
        """
        self.path = Path(path)
        self._dtype = np.dtype(dtype)
        self._use_sentence_keys = use_sentence_keys
        self._index: dict[str, str] | None = None if forget_sentences or use_sentence_keys else {}
        self._settings = {
            **attributes,
            "dtype": dtype,
            "sentence keys": str(use_sentence_keys),
            "forget sentences": str(forget_sentences),
        }
        check_output(self.path, overwrite=overwrite)
        self._sink = _open_partial(self.path)
        if overwrite:
            self._sink.clear()
        state = self._sink.state or {}
        self._check_settings(state)
        self.n_records: int = state.get("n_records", 0)
        """Records that are written."""
        self._n_skipped = 0
        self.run_state: dict[str, Any] = state.get("run", {})
        """What the run that wrote them said of itself at the last checkpoint."""
        self._file = h5py.File(self._sink, "r+" if self._sink.state else "w")
        self._file.attrs.update(attributes)

    @property
    def partial(self) -> Path:
        """Where the file is until it is complete."""
        return self._sink.path

    def _check_settings(self, state: dict[str, Any]) -> None:
        settings = state.get("settings", self._settings)
        differences = [
            f"{name} ({settings.get(name)} there, {self._settings.get(name)} here)"
            for name in sorted({*settings, *self._settings})
            if settings.get(name) != self._settings.get(name)
        ]
        if differences:
            self._sink.close()
            raise OutputError(
                f"{self._sink.path} is of an unfinished run that differs in "
                f"{', '.join(differences)}; --overwrite starts anew"
            )

    def skip(self, record: Record) -> None:
        """Pass a record that an earlier run has written, `n_records` of them."""
        if self._index is not None and record.text:
            self._index[record.text] = record.key or str(self._n_skipped)
        self._n_skipped += 1

    def write(self, record: Record, values: NDArray[Any]) -> None:
        """Add the activations of the next record.

        Args:
            record: its key, if it has one, is the name of a dataset and not there yet.
            values: float, of any shape.

        Raises:
            InputError: the text cannot be the name of a dataset, and should.
            OutputError: the disk is full, or fails.
        """
        key = record.key or str(self.n_records)
        if self._use_sentence_keys:
            key = self._sentence_key(record.text)
        if key:
            data = values.astype(self._dtype, copy=False)
            self._file.create_dataset(key, data=data).attrs.update(record.attributes)
            self._check()
            if self._index is not None and record.text:
                self._index[record.text] = key
        self.n_records += 1

    def checkpoint(self, run_state: dict[str, Any]) -> None:
        """Make what is written so far survive the process.

        Args:
            run_state: what `run_state` is for the writer that goes on; JSON.

        Raises:
            OutputError: the disk is full, or fails.
        """
        self.run_state = run_state
        self._file.flush()
        self._check()
        try:
            self._sink.checkpoint(self._state())
        except OSError as error:
            raise _output_error(self.path, error) from None

    def _sentence_key(self, sentence: str) -> str:
        """The sentence as the name of a dataset; "" for a blank line, which has none."""
        if not sentence:
            return ""
        advice = "leave out --use-sentence-keys"
        place = f"line {self.n_records + 1}: the sentence {sentence[:60]!r}"
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
        """Finish the file; after an error, let go of it at its last checkpoint."""
        try:
            if kind is None:
                self._finish()
        finally:
            if not self._sink.closed:
                self._file.close()
                self._sink.discard()

    def _finish(self) -> None:
        if self._index is not None:
            text = json.dumps(self._index)
            string = h5py.string_dtype(encoding="utf-8")
            if SENTENCE_TO_INDEX in self._file:  # of a run that was killed as it finished
                del self._file[SENTENCE_TO_INDEX]
            self._file.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=string)[0] = text
        self._file.close()
        self._check()
        try:
            self._sink.checkpoint(self._state())
            self._sink.finish(self.path)
        except OSError as error:
            raise _output_error(self.path, error) from None

    def _state(self) -> dict[str, Any]:
        return {"settings": self._settings, "n_records": self.n_records, "run": self.run_state}

    def _check(self) -> None:
        """Raise what went wrong under HDF5."""
        error = self._sink.error
        if isinstance(error, OSError):
            raise _output_error(self.path, error) from None
        if error is not None:
            raise error


def _open_partial(path: Path) -> CheckpointedFile:
    partial = path.with_name(path.name + ".partial")
    try:
        return CheckpointedFile(partial)
    except BlockingIOError:
        raise OutputError(f"{path}: another process is writing it; wait, or stop it") from None
    except OSError as error:
        raise _output_error(path, error) from None


def check_output(path: str | Path, *, overwrite: bool, source: str | Path | None = None) -> None:
    """Make sure that an output file can be written, before anything is computed.

    Args:
        path: the output file.
        overwrite: whether it may replace one that is there.
        source: the input file, which it may not replace.

    Raises:
        OutputError: it is there already, is a directory or the input, or its folder is
            missing or not writable.
    """
    path = Path(path)
    both_there = source is not None and os.path.exists(path) and os.path.exists(source)
    if source is not None and both_there and os.path.samefile(path, source):
        raise OutputError(f"{path} is the input; choose another output")
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
