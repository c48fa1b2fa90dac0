"""Activations to an output file, which is complete or goes on where it was.

How the records lie in the file is the business of its form (`form`). Here is what all
forms share: the name until the file is complete, checkpoints, and errors.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.atomic import rename_synced
from elmo_cli.errors import ElmoError, OutputError, first_line
from elmo_cli.outputs.allennlp_layout import AllenNlpLayout
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.damage import DAMAGE
from elmo_cli.outputs.earlier_run import check_has_values, find_earlier_run
from elmo_cli.outputs.exports import export
from elmo_cli.outputs.form import choose_form
from elmo_cli.outputs.output_path import check_output, open_partial, output_error
from elmo_cli.outputs.packed_file import PackedFile
from elmo_cli.text.lines import Record


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
        file_format: str | None = None,
        layout: str | None = None,
        compression: str | None = None,
        overwrite: bool = False,
        append: bool = False,
    ) -> None:
        """Open the file, at the last checkpoint of an unfinished run if there is one.

        A finished file of the same settings is opened at its end (see `is_complete`).

        Args:
            path: the output file; `-` is standard output, for text.
            attributes: what to record about its making; `pooling` among them says that
                the values of a record have no axis of tokens.
            dtype: of the values, `float32` or `float16`.
            forget_sentences: leave the sentences out.
            use_sentence_keys: name datasets by their text, not by key or number.
            file_format: one of `OUTPUT_FORMATS`; by the suffix of the path if not given.
            layout: of HDF5, `allennlp` (if not given) or `packed`.
            compression: of HDF5, `gzip`, `lzf` or `zstd`.
            overwrite: replace a file that is there, and forget an unfinished run that has
                other settings.
            append: a finished file may have an unfinished run beside it, which continues it.

        Raises:
            InputError: there is no such form of a file, or its parts do not go together.
            ElmoError: a package for it is not installed.
            OutputError: the file is there already and does not say what made it, or says
                other settings than these; an unfinished run had others; the file cannot
                be written, or another process is writing it.
        """
        self.path = Path(path)
        self._dtype = np.dtype(dtype)
        self.form = choose_form(
            path,
            file_format,
            layout,
            compression,
            pooled="pooling" in attributes,
            forget_sentences=forget_sentences,
            use_sentence_keys=use_sentence_keys,
        )
        self._layout = self.form.open()
        self.settings: dict[str, str] = {
            **attributes,
            "layout": self.form.layout,
            **({"compression": compression} if compression else {}),
            "dtype": dtype,
            "sentence_keys": str(use_sentence_keys),
            "forget_sentences": str(forget_sentences),
        }
        """What the file says of its making, and has to be the same to go on with it."""
        check_output(self.path, overwrite=overwrite, or_finished=True)
        self._sink = open_partial(self.path)
        try:
            earlier = find_earlier_run(
                self.path, self._sink, self.settings, overwrite=overwrite, append=append
            )
        except BaseException:
            self._sink.discard()
            raise
        self.is_complete = earlier.is_complete
        """Whether the file is there and finished. With a record more, it is continued in a
        copy, which takes its place at the end."""
        self.n_records = earlier.n_records
        """Records that are written."""
        self.run_state = earlier.run_state
        """What the run that wrote them said of itself at the last checkpoint."""
        self._n_skipped = 0
        self._is_open = False
        self._end_attributes: Mapping[str, str] = {}

    @property
    def can_go_on(self) -> bool:
        """Whether a run that is stopped can go on with what is written."""
        return isinstance(self._sink, CheckpointedFile)

    @property
    def partial(self) -> Path:
        """Where the file is until it is complete."""
        return self._sink.path

    def clear(self) -> None:
        """Forget what an unfinished run has written. Before anything is written."""
        self._sink.clear()
        self.n_records, self.run_state = 0, {}

    def open(self) -> None:
        """Begin the file, or go on with it, when it is known that there is something to write.

        Raises:
            OutputError: it cannot be continued.
        """
        if self._is_open:
            return
        self._is_open = True
        with self._faults_named():
            if self.is_complete:
                self._continue_in_copy()
            else:
                self._layout.open(self._sink, self.settings, self.n_records)

    def _continue_in_copy(self) -> None:
        """Go on with a copy of the finished file, which stays until the copy takes its place."""
        assert isinstance(self._sink, CheckpointedFile)  # standard output is never complete
        check_has_values(self.path)
        self.is_complete = False
        self._sink.copy_from(self.path)
        self._sink.checkpoint(self._state())
        try:
            self._layout.open(self._sink, self.settings, self.n_records)
        except DAMAGE as error:
            self._raise_fault()
            self._sink.clear()
            raise OutputError(
                f"{self.path} exists already and is damaged: {first_line(error)}; --overwrite "
                "replaces it"
            ) from None

    def skip(self, record: Record) -> None:
        """Pass a record that an earlier run has written, `n_records` of them."""
        self._layout.skip(self._n_skipped, record)
        self._n_skipped += 1

    def write(self, record: Record, values: NDArray[Any]) -> None:
        """Add the activations of the next record.

        Args:
            record: its key, if it has one, is not there yet.
            values: float, (L, T, W) or (T, W), without the T where tokens are pooled.

        Raises:
            InputError: the text cannot be the name of a dataset, and should.
            OutputError: the disk is full, or fails.
        """
        self.open()
        with self._faults_named():
            self._layout.write(self.n_records, record, values.astype(self._dtype, copy=False))
        self.n_records += 1

    def link(self, record: Record, source: Path) -> None:
        """Add the next record as a link to its dataset in another file of AllenNLP's layout.

        Raises:
            OutputError: the disk is full, or fails.
        """
        self.open()
        assert isinstance(self._layout, AllenNlpLayout)
        with self._faults_named():
            self._layout.link(self.n_records, record, source)
        self.n_records += 1

    def checkpoint(self, run_state: dict[str, Any]) -> None:
        """Make what is written so far survive the process.

        Args:
            run_state: what `run_state` is for the writer that goes on; JSON.

        Raises:
            OutputError: the disk is full, or fails.
        """
        self.run_state = run_state
        self.open()
        with self._faults_named():
            self._layout.flush()
            self._raise_fault()
            self._sink.checkpoint(self._state())

    def complete(self, run_state: dict[str, Any], attributes: Mapping[str, str]) -> None:
        """Say that all records are written.

        Args:
            run_state: as for `checkpoint`.
            attributes: what is known of the file only now.
        """
        self.open()
        self.run_state, self._end_attributes = run_state, attributes

    def __enter__(self) -> "ActivationsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish the file; after an error, let go of it at its last checkpoint."""
        try:
            if kind is None and not self.is_complete:
                self._finish()
        finally:
            if not self._sink.closed:
                if self._is_open:
                    with suppress(*DAMAGE):  # which has been named
                        self._layout.close()
                self._sink.discard()

    def _finish(self) -> None:
        self.open()
        with self._faults_named():
            self._layout.finish(self._end_attributes)
            self._raise_fault()
            self._sink.checkpoint(self._state())
            if self.form.is_exported:
                self._export()
            else:
                self._sink.finish(self.path)

    def _export(self) -> None:
        """Make the file of what was packed, which goes away."""
        new = self.path.with_name(f"{self.path.name}.partial.new")
        try:
            with h5py.File(self._sink, "r") as file:
                export(self.form.file_format, PackedFile(file), new)
            rename_synced(new, self.path)
            self._sink.clear()
            self._sink.discard()
        finally:
            new.unlink(missing_ok=True)

    def _state(self) -> dict[str, Any]:
        return {"settings": self.settings, "n_records": self.n_records, "run": self.run_state}

    @contextmanager
    def _faults_named(self) -> Iterator[None]:
        """Turn what goes wrong in the layout or under it into one error of ours."""
        try:
            yield
        except ElmoError:
            raise
        except DAMAGE as error:
            self._raise_fault()
            if not isinstance(self._sink, CheckpointedFile):
                raise
            raise self._fault(error) from None
        self._raise_fault()

    def _raise_fault(self) -> None:
        """Raise what went wrong under HDF5, which is not told."""
        error = self._sink.error
        if isinstance(error, OSError):
            raise output_error(self.path, error) from None
        if error is not None:
            raise error

    def _fault(self, error: Exception) -> OutputError:
        """What to say of an error: of the disk where it has a number, else of HDF5."""
        if isinstance(error, OSError) and error.errno is not None:
            return output_error(self.path, error)
        reason = first_line(error)
        if self._sink.state is None:
            return OutputError(f"{self.path}: cannot write the output: {reason}")
        # What is added to may have been damaged before it was copied.
        way_out = "--overwrite" if os.path.exists(self.path) else "the same command"
        return OutputError(
            f"{self.partial}: the unfinished output is damaged: {reason}; remove it, and {way_out} "
            "starts anew"
        )
