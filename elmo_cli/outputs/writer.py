"""Writer of an output, opened once: new, at a checkpoint, or complete already.

It has what all formats share: the name of the file until it is complete, checkpoints,
and errors.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from elmo_cli.arrays import AnyArray
from elmo_cli.callbacks import never
from elmo_cli.errors.exceptions import ElmoError, OutputError
from elmo_cli.errors.messages import Message, joined
from elmo_cli.files.output_checks import check_output, is_written_error, output_error
from elmo_cli.files.output_names import unfinished_paths
from elmo_cli.files.resumable.checkpoint_log import State
from elmo_cli.files.resumable.resumable_file import ResumableFile
from elmo_cli.options.output import STANDARD_OUTPUT, OutputSettings
from elmo_cli.options.output_format import HDF5, PARQUET
from elmo_cli.options.shard import shard_of
from elmo_cli.outputs.attributes import Attributes
from elmo_cli.outputs.comparison import differences, is_other_input
from elmo_cli.outputs.convert_dtype import as_dtype
from elmo_cli.outputs.format_writer import FormatWriter
from elmo_cli.outputs.hdf5_allennlp import AllenNlpWriter
from elmo_cli.outputs.hdf5_packed import PackedWriter
from elmo_cli.outputs.json_lines_writer import JsonlWriter
from elmo_cli.outputs.npy import NpyWriter, ids_path, rename_with_ids
from elmo_cli.outputs.npz import NpzWriter
from elmo_cli.outputs.parquet_writer import ParquetWriter
from elmo_cli.outputs.saved_output import (
    ResumePoint,
    SavedOutput,
    read_saved_at_end,
    saved_at_checkpoint,
)
from elmo_cli.outputs.sentence_rows import SentenceRows
from elmo_cli.records.record import Record


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
        rows_type: type[SentenceRows] | None = None,
        should_stop: Callable[[], bool] = never,
    ) -> None:
        """Open the output; `rows_type` replaces the rows of Parquet.

        With `settings.overwrite`, an existing file is replaced, and so is an unfinished
        run that is damaged or has other attributes. Resuming reads the unfinished file,
        until `should_stop` returns True.
        """
        if os.path.islink(path):
            path = os.path.realpath(path)
        self.path = Path(path)
        self.settings = settings
        self.is_complete = False
        """True if the file is finished already. It is not changed then, but `publish`
        may have to give it its name."""
        self.n_records = 0
        """Number of records written, by an earlier run too."""
        self.resume_point: ResumePoint | None = None
        """Point from which a run resumes: the last checkpoint, or a complete file's
        end.

        None without a checkpoint."""
        self._attributes: dict[str, str] = {**attributes, **settings.to_attributes()}
        """Attributes of the file. A run resumes only if they are equal."""
        self._rows_type = rows_type
        self._shard = shard_of(attributes)
        self._format_writer: FormatWriter | None = None
        """Writer of the format, from the first record on. A checkpoint closes it until
        the next record."""
        self._file: ResumableFile | None = None
        """File that is written, or that waits for its name. Standard output is no
        file."""
        self._skipped_ids: list[str] = []
        """Ids of the records in an array that waits for its name."""
        if str(path) == STANDARD_OUTPUT:
            return
        check_output(self.path, may_exist=True, is_compared=not settings.overwrite)
        if settings.format.has_ids_beside:
            # A killed run may have given the ids their name before the vectors.
            unfinished = unfinished_paths(self.path).partial
            is_begun = self.path.exists() or os.path.lexists(unfinished)
            ids_may_exist = settings.overwrite or is_begun
            check_output(ids_path(self.path), may_exist=ids_may_exist)
        if os.path.exists(self.path) and not settings.overwrite:
            self._leave_complete()
            return
        self._file = self._begin_file(should_stop)

    @property
    def partial(self) -> Path:
        """Path of the file that is written or read, which has its name at the end."""
        return self.path if self._file is None else self._file.path

    def clear(self) -> None:
        """Drop what an unfinished run has written."""
        if self._format_writer is not None:
            self._format_writer.close()
        if self._file is not None:
            with self._as_output_errors():
                self._file.start_over()
        self._format_writer = None
        self.n_records = 0
        self.resume_point = None

    def skip_written(self, index: int, record: Record) -> None:
        """Skip a record that an earlier run has written, by its index from 0."""
        if self.is_complete:
            if self.settings.format.has_ids_beside and record.id is not None:
                self._skipped_ids.append(record.id)
            return
        index_in_input = self._shard.index_in_input(index)
        with self._as_output_errors():
            self._writer_for_next_record().skip_written(index_in_input, record)

    def write(self, record: Record, values: AnyArray) -> None:
        """Add the activations of the next record: float, (L, T, W) or (T, W).

        Pooled ones have no axis T.
        """
        values = as_dtype(values, self.settings.dtype)
        index = self._shard.index_in_input(self.n_records)
        with self._as_output_errors():
            self._writer_for_next_record().write(index, record, values)
        self.n_records += 1

    def describe(self, example: Record, values: AnyArray) -> None:
        """Give an output without rows the columns and types of an example."""
        values = as_dtype(values, self.settings.dtype)
        with self._as_output_errors():
            self._writer_for_next_record().describe(example, values)

    def checkpoint(self, resume_point: ResumePoint) -> None:
        """Make a checkpoint, from which a run resumes, if the format can resume."""
        if self._file is None or not self.settings.can_resume:
            return
        with self._as_output_errors():
            writer = self._writer_for_next_record()
            writer.flush()
            writer.close()  # The next record reopens it.
            self._file.commit(self._saved_at(resume_point))
        self.resume_point = resume_point

    def finish(self, end: ResumePoint, attributes: Attributes) -> None:
        """Complete the file with attributes that are known only now, and rename it.

        `end` is the end of the input.
        """
        with self._as_output_errors():
            writer = self._writer_for_next_record()
            writer.finish(attributes)
            if self._file is not None:
                state = self._saved_at(end)
                writer.publish(self.path, partial(self._file.finish, state))

    def publish(self) -> None:
        """Give a complete file its name, if an earlier run could not.

        All of its records have been skipped.
        """
        if self._file is None:
            return
        with self._as_output_errors():
            if self.settings.format.has_ids_beside:
                rename_with_ids(
                    self.path,
                    self._skipped_ids,
                    self._file.publish,
                    overwrite=self.settings.overwrite,
                )
            else:
                self._file.publish()

    def __enter__(self) -> "ActivationsWriter":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file, at its last checkpoint if it is not finished."""
        if self._file is not None and not self._file.file.closed:
            if self._format_writer is not None:
                with suppress(Exception):  # The first error is raised already.
                    self._format_writer.close()
            self._file.roll_back()

    def _begin_file(self, should_stop: Callable[[], bool]) -> ResumableFile:
        """Begin the file, or continue it."""
        try:
            file = ResumableFile(
                self.path,
                overwrite=self.settings.overwrite,
                should_stop=should_stop,
            )
            if file.state is not None:
                self._resume_or_start_over(file, file.state)
        except BlockingIOError:
            raise is_written_error(self.path) from None
        except OSError as error:
            raise output_error(self.path, error) from error
        return file

    def _resume_or_start_over(
        self, file: ResumableFile, stored: Mapping[str, Any]
    ) -> None:
        """Resume an unfinished file, or start it over if it has other attributes.

        Without `overwrite`, other attributes are an error.
        """
        if "settings" in stored:
            saved = saved_at_checkpoint(stored)
        else:
            # Earlier versions stored nothing of a complete file, which was HDF5.
            saved = read_saved_at_end(file.path)
        differing = self._differences(saved)
        if not differing:
            self._take_progress_of(saved)
            self.is_complete = file.is_finished
        elif self.settings.overwrite:
            file.start_over()
        else:
            file.close()
            raise OutputError(
                "{path}: an unfinished run with {what}: {differing}",
                remedy="Use {--overwrite True} to start over.",
                path=file.path,
                what=self._what_differs(saved),
                differing=joined(differing),
            )

    def _leave_complete(self) -> None:
        """Check that this run would write the same as a complete file, and leave it."""
        self.is_complete = True
        saved = read_saved_at_end(self.path)
        differing = self._differences(saved)
        if differing:
            raise OutputError(
                "{path}: already exists, with {what}: {differing}",
                remedy="Use {--overwrite True} to replace it.",
                path=self.path,
                what=self._what_differs(saved),
                differing=joined(differing),
            )
        self._take_progress_of(saved)

    def _what_differs(self, saved: SavedOutput) -> str:
        """Return what a saved output has: another input, or else other options."""
        if is_other_input(saved.attributes, self._attributes):
            return "another input"
        return "other options"

    def _differences(self, saved: SavedOutput) -> list[Message]:
        """Describe the attributes that differ in a saved output and in this one."""
        there = {**saved.attributes, "output format": saved.file_format}
        here = {**self._attributes, "output format": self.settings.name}
        return differences(there, here)

    def _saved_at(self, point: ResumePoint) -> State:
        """Return what a log stores of this output, at a point of the input."""
        saved = SavedOutput(
            attributes=self._attributes,
            n_records=self.n_records,
            resume_point=point,
            file_format=self.settings.name,
        )
        return saved.to_json()

    def _take_progress_of(self, saved: SavedOutput) -> None:
        self.n_records = saved.n_records
        self.resume_point = saved.resume_point

    def _writer_for_next_record(self) -> FormatWriter:
        """Return the writer of the format, made if this is the first record."""
        if self._format_writer is None:
            self._format_writer = self._make_format_writer()
        return self._format_writer

    def _make_format_writer(self) -> FormatWriter:
        """Make the writer of the format, which continues after `n_records`."""
        if self.is_complete:
            raise ValueError(f"{self.path} is complete: it takes no more records")
        settings = self.settings
        file: Any = sys.stdout.buffer if self._file is None else self._file.file
        if settings.format is HDF5:
            hdf5_type = PackedWriter if settings.is_packed else AllenNlpWriter
            return hdf5_type(file, settings, self._attributes, self.n_records)
        if settings.format is PARQUET:
            return ParquetWriter(file, settings, self._attributes, self._rows_type)
        return _SIMPLE_WRITERS[settings.name](file, settings, self._attributes)

    @contextmanager
    def _as_output_errors(self) -> Iterator[None]:
        """Turn errors of the disk and of HDF5 into ours. Other errors propagate."""
        try:
            yield
        except ElmoError:
            raise
        except Exception as error:
            # It explains an error of HDF5, which does not see it.
            self._raise_stored_error()
            if self._file is not None and isinstance(error, OSError):
                raise output_error(self.path, error) from error
            raise
        self._raise_stored_error()

    def _raise_stored_error(self) -> None:
        """Raise the error that the file has stored, if any: of the disk, or Ctrl-C."""
        if self._file is None:
            return
        error = self._file.file.error
        if isinstance(error, OSError):
            raise output_error(self.path, error) from error
        if error is not None:
            raise error


_SIMPLE_WRITERS: Final[Mapping[str, type[FormatWriter]]] = {
    "jsonl": JsonlWriter,
    "npz": NpzWriter,
    "npy": NpyWriter,
}
"""Writers of formats that take nothing more than a file."""
