"""Writer of an output, opened once: new, at a checkpoint, or complete already.

It has what all formats share: the name of the file until it is complete, checkpoints,
and errors.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from elmo_cli.callbacks import never
from elmo_cli.errors.exceptions import ElmoError, InputError, OutputError
from elmo_cli.errors.messages import Message, joined
from elmo_cli.files.output_checks import check_output, exists_error, output_error
from elmo_cli.files.resumable import resumable_file
from elmo_cli.files.resumable.checkpoint_log import remove_log
from elmo_cli.files.resumable.resumable_file import ResumableFile
from elmo_cli.options.output import STANDARD_OUTPUT, OutputSettings
from elmo_cli.options.output_format import HDF5, PARQUET
from elmo_cli.options.shard import shard_of
from elmo_cli.outputs.attributes import KEYS, Attributes
from elmo_cli.outputs.comparison import differences
from elmo_cli.outputs.format_writer import FormatWriter
from elmo_cli.outputs.hdf5_allennlp import AllenNlpWriter
from elmo_cli.outputs.hdf5_packed import PackedWriter
from elmo_cli.outputs.json_lines_writer import JsonlWriter
from elmo_cli.outputs.npy import NpyWriter, ids_path
from elmo_cli.outputs.npz import NpzWriter
from elmo_cli.outputs.output_formats import as_dtype
from elmo_cli.outputs.parquet_writer import ParquetWriter
from elmo_cli.outputs.reader import open_activations
from elmo_cli.outputs.sentence_rows import SentenceRows
from elmo_cli.records.progress import Progress
from elmo_cli.records.record import Record

_END_ATTRIBUTES: Final = ("records", "input_records", "input_sha256", "skipped", KEYS)
"""Attributes that are known only at the end."""


class ActivationsWriter:
    """Writer of an output, which is called `NAME.partial` until it is complete.

    Records before a checkpoint survive whatever ends the process, and a writer with
    equal attributes resumes from the last checkpoint. Leaving its context without
    `finish` drops everything after that checkpoint.
    """

    def __init__(
        self,
        path: str | Path,
        settings: OutputSettings,
        attributes: Attributes,
        *,
        overwrite: bool = False,
        rows_type: type[SentenceRows] | None = None,
        should_stop: Callable[[], bool] = never,
    ) -> None:
        """Open the output; `rows_type` replaces the rows of Parquet.

        `overwrite` replaces an existing file, and an unfinished run that is damaged or
        has other attributes. Resuming reads the unfinished file, until `should_stop`
        returns True.
        """
        self.settings = settings
        self._attributes: dict[str, str] = {**attributes, **settings.to_attributes()}
        """Attributes of the file. A run resumes only if they are equal."""
        self.is_complete = False
        """True if the file is finished already. It is not changed then."""
        self.n_records = 0
        """Number of records written, by an earlier run too."""
        self.run_state: Mapping[str, Any] = {}
        """State of the run at the last checkpoint."""
        self._rows_type = rows_type
        self._shard = shard_of(attributes)
        self._writer: FormatWriter | None = None
        self._file: ResumableFile | None = None  # Standard output has no file.
        self.path = Path(os.path.realpath(path) if os.path.islink(path) else path)
        if str(path) == STANDARD_OUTPUT:
            return
        check_output(self.path, overwrite=True)
        if settings.format.has_ids_beside:
            replaces_ids = overwrite or self.path.exists()
            check_output(ids_path(self.path), overwrite=replaces_ids)
        if overwrite or not os.path.exists(self.path):
            self._file = self._begin_file(should_stop, overwrite=overwrite)
        if self._file is None:
            self.is_complete = True
            remove_log(self.path)
            what = f"{self.path} already exists, and was written with"
            self._resume(finished_state(self.path), what)

    @property
    def partial(self) -> Path:
        """Path of the file until it is complete."""
        return self.path if self._file is None else self._file.path

    def clear(self) -> None:
        """Drop what an unfinished run has written."""
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            with self._as_output_errors():
                self._file.start_over()
        self._writer = None
        self.n_records = 0
        self.run_state = {}

    def skip(self, number: int, record: Record) -> None:
        """Pass over a record that an earlier run has written, by its number from 0."""
        with self._as_output_errors():
            self._format_writer().skip(self._shard.number_in_input(number), record)

    def write(self, record: Record, values: NDArray[Any]) -> None:
        """Add the activations of the next record: float, (L, T, W) or (T, W).

        Pooled ones have no axis T.
        """
        values = as_dtype(values, self.settings.dtype)
        number = self._shard.number_in_input(self.n_records)
        with self._as_output_errors():
            self._format_writer().write(number, record, values)
        self.n_records += 1

    def describe(self, example: Record, values: NDArray[Any]) -> None:
        """Give an output without rows the columns and types of an example."""
        values = as_dtype(values, self.settings.dtype)
        with self._as_output_errors():
            self._format_writer().describe(example, values)

    def checkpoint(self, run_state: Mapping[str, Any]) -> None:
        """Make a checkpoint with JSON values, if the format can resume."""
        if self._file is None or not self.settings.can_resume:
            return
        state = {
            "settings": self._attributes,
            "n_records": self.n_records,
            "run": run_state,
        }
        with self._as_output_errors():
            self._format_writer().flush()
            self._format_writer().close()  # The next record reopens it.
            self._file.commit(state)
        self.run_state = run_state

    def finish(self, attributes: Attributes) -> None:
        """Complete the file with attributes that are known only now, and rename it."""
        with self._as_output_errors():
            self._format_writer().finish(attributes)
            if self._file is not None:
                self._format_writer().publish(self.path, self._file.finish)

    def __enter__(self) -> "ActivationsWriter":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file, at its last checkpoint if it is not finished."""
        if self._file is not None and not self._file.file.closed:
            if self._writer is not None:
                with suppress(Exception):  # The first error is raised already.
                    self._writer.close()
            self._file.roll_back()

    def _begin_file(
        self, should_stop: Callable[[], bool], *, overwrite: bool
    ) -> ResumableFile | None:
        """Begin the file, or continue it; None if an earlier run had finished it."""
        try:
            file = resumable_file.begin(
                self.path, overwrite=overwrite, should_stop=should_stop
            )
            if file is not None and file.state is not None:
                self._resume_file(file, file.state, overwrite=overwrite)
        except BlockingIOError:
            message = f"{self.path}: another process is writing it. Wait, or stop it."
            raise OutputError(message) from None
        except OSError as error:
            raise output_error(self.path, error) from error
        return file

    def _resume_file(
        self, file: ResumableFile, state: dict[str, Any], *, overwrite: bool
    ) -> None:
        """Resume an unfinished file, or start over if it has other attributes."""
        try:
            self._resume(state, f"{file.path} is an unfinished run with")
        except OutputError:
            if not overwrite:
                file.close()
                raise
            file.start_over()

    def _resume(self, state: dict[str, Any], what: str) -> None:
        """Resume from a state; raise an error that begins with `what` if it differs."""
        # Only HDF5 stores a state.
        there = {**state["settings"], "output format": "hdf5"}
        here = {**self._attributes, "output format": self.settings.name}
        differing = differences(there, here)
        if differing:
            raise OutputError(
                Message(
                    "{what} other options: {differing}",
                    remedy="Use {--overwrite} to start over.",
                    what=what,
                    differing=joined(differing),
                )
            )
        self.n_records = state["n_records"]
        self.run_state = state["run"]

    def _format_writer(self) -> FormatWriter:
        """Return the writer of the format, which is made for the first record."""
        if self._writer is None:
            self._writer = self._make_writer()
        return self._writer

    def _make_writer(self) -> FormatWriter:
        settings = self.settings
        file: Any = sys.stdout.buffer if self._file is None else self._file.file
        if settings.format is HDF5:
            hdf5_type = PackedWriter if settings.is_packed else AllenNlpWriter
            return hdf5_type(file, settings, self._attributes, self.n_records)
        if settings.format is PARQUET:
            return ParquetWriter(file, settings, self._attributes, self._rows_type)
        return _WRITERS[settings.name](file, settings, self._attributes)

    @contextmanager
    def _as_output_errors(self) -> Iterator[None]:
        """Turn errors of the disk and of HDF5 into ours. Other errors propagate."""
        error: BaseException | None = None
        try:
            yield
        except Exception as exception:
            error = exception
        if self._file is not None and not isinstance(error, ElmoError):
            # HDF5 does not see the error that the file has stored.
            error = self._file.file.error or error
            if isinstance(error, OSError):
                raise output_error(self.path, error) from error
        if error is not None:
            raise error


_WRITERS: Final[Mapping[str, type[FormatWriter]]] = {
    "jsonl": JsonlWriter,
    "npz": NpzWriter,
    "npy": NpyWriter,
}
"""Writers of formats that take nothing more than a file."""


def end_attributes(
    n_records: int,
    progress: Progress,
    skipped: Mapping[str, str],
    *,
    has_keys: bool = False,
) -> dict[str, str]:
    """Return the attributes that are known only at the end.

    `skipped` has the reason for each skipped record, by its name.
    """
    attributes = {
        "records": str(n_records),
        "input_records": str(progress.n_records),
        "input_sha256": progress.sha256,
    }
    if skipped:
        attributes["skipped"] = json.dumps(skipped, sort_keys=True)
    if has_keys:
        attributes[KEYS] = "True"
    return attributes


def finished_state(path: Path) -> dict[str, Any]:
    """Return the state of the writer that finished a file."""
    with suppress(InputError, KeyError), open_activations(path) as activations:
        stored = activations.attributes
        settings = {
            name: str(value)
            for name, value in stored.items()
            if name not in _END_ATTRIBUTES
        }
        progress = Progress(int(stored["input_records"]), str(stored["input_sha256"]))
        return {
            "settings": settings,
            "n_records": int(stored["records"]),
            "run": {"place": progress},
        }
    raise exists_error(path)
