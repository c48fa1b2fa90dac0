"""File that appears when it is complete, and that continues at a checkpoint.

`commit` makes a checkpoint, `roll_back` returns to the last one, and `finish` gives the
file its name. docs/architecture.md says why HDF5 needs this, and
lists the steps of a checkpoint.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from elmo_cli.callbacks import never
from elmo_cli.errors.exceptions import OutputError
from elmo_cli.files import disk
from elmo_cli.files.atomic import check_is_own, give_name
from elmo_cli.files.locks import lock, unlock
from elmo_cli.files.output_names import unfinished_paths
from elmo_cli.files.resumable.checkpoint_log import (
    START_OVER,
    FileCheckpoint,
    State,
    read_checkpoint_log,
    write_log,
)
from elmo_cli.files.resumable.paged_file import PagedFile, Stop

_FINISHED: Final = "finished"
"""Key in the state of a complete file that still has to be renamed."""


class ResumableFile:
    """Unfinished file at its last checkpoint.

    `file` is the file object to write to, for example by HDF5.
    """

    def __init__(
        self, final: Path, *, overwrite: bool = False, should_stop: Stop = never
    ) -> None:
        """Begin a file, or continue it at its last checkpoint.

        The file is locked against other processes and read as a whole, until
        `should_stop` returns True. A damaged one is an `OutputError`. With `overwrite`,
        it is begun again, and so is a complete one. `final` is the later name.

        Raises:
            BlockingIOError: Another process has the file open.
        """
        paths = unfinished_paths(final)
        self.path = paths.partial
        self.state: State | None = None
        """State of the run at the last checkpoint; None if there is none."""
        self._final = final
        self._overwrite = overwrite
        self._log = paths.log
        self._checksum = 0  # checksum of the last checkpoint
        self._lock = lock(paths.lock)
        try:
            self._create()
            self.file = PagedFile(self.path)
            self._identity = disk.identity(self.file)
        except BaseException:
            self._unlock()
            raise
        try:
            self._restore(should_stop, overwrite=overwrite)
        except BaseException:
            self.close()
            raise

    @property
    def is_finished(self) -> bool:
        """Whether the file is complete, and only lacks its name."""
        return self.state is not None and _FINISHED in self.state

    def commit(self, state: State) -> None:
        """Make a checkpoint.

        If this raises an `OSError`, a later run may resume from this checkpoint or from
        the one before.
        """
        file = self.file
        if file.error is not None:
            raise file.error
        check_is_own(self.path, self._identity)
        file.sync_appended()
        checkpoint = FileCheckpoint(
            size=file.size,
            state=state,
            pages=file.changed,
            checksum=file.checksum_after(self._checksum),
        )
        write_log(self._log, checkpoint)
        self.state = state
        self._apply(checkpoint)

    def roll_back(self) -> None:
        """Drop what was written after the last checkpoint, and close the file.

        A file without a checkpoint is removed.
        """
        with suppress(OSError):  # The next process cuts the file too.
            self.file.cut_to_checkpoint()
        with suppress(OSError):
            self.file.close()
            is_own = disk.identity_at(self.path) == self._identity
            if self.state is None and is_own:
                disk.remove(self.path, missing_ok=True)
                disk.remove(self._log, missing_ok=True)
        self.close()

    def start_over(self) -> None:
        """Remove the checkpoint, and empty the file. An error closes it."""
        try:
            write_log(self._log, FileCheckpoint())
            self.state = None
            self.file.seek(0)
            self._apply(FileCheckpoint())
        except BaseException:
            self.close()
            raise

    def finish(self, state: State) -> None:
        """Make a last checkpoint if there is one, and give the file its name.

        Without `overwrite`, a file that somebody else has created there is an error,
        after which this file waits for its name, with this state.
        """
        file = self.file
        if file.error is not None:
            raise file.error
        if self.state is not None or self._has_appeared():
            self.commit({**state, _FINISHED: True})
        file.sync_whole()
        self.publish()

    def publish(self) -> None:
        """Give a file that is complete on the disk its name, and close it."""
        try:
            check_is_own(self.path, self._identity)
            self.file.close()  # Windows cannot rename an open file.
            give_name(self.path, self._final, overwrite=self._overwrite)
            # A power failure must not remove the log before the file has its name.
            disk.sync(self._final.parent)
            disk.remove(self.path, missing_ok=True)  # It was linked, not renamed.
            disk.remove(self._log, missing_ok=True)
        finally:
            self.close()

    def _has_appeared(self) -> bool:
        """Return whether somebody else has created a file at the final name."""
        return not self._overwrite and os.path.lexists(self._final)

    def close(self) -> None:
        """Close the file, and unlock it."""
        try:
            self.file.close()
        finally:
            self._unlock()

    def _create(self) -> None:
        """Create the log and then an empty file, unless both are there."""
        if not os.path.lexists(self.path):
            if os.path.lexists(self._log):
                # A run may have been killed while it finished.
                read_checkpoint_log(self._log)
            write_log(self._log, FileCheckpoint())
            disk.create(self.path).close()
        elif self.path.is_symlink() or not self._log.is_file():
            raise OutputError(
                f"{self.path}: not an unfinished `elmo embed` output",
                remedy="Move it away, or choose another output.",
            )

    def _restore(self, should_stop: Stop, *, overwrite: bool) -> None:
        """Return to the checkpoint in the log, or start over from a damaged file."""
        # What is no log may belong to another program, so that it is never replaced.
        checkpoint = read_checkpoint_log(self._log)
        try:
            self._check_size(checkpoint)
            self._apply(checkpoint)
            self._check_content(checkpoint, should_stop)
        except OutputError:
            if not overwrite:
                raise
            self.start_over()
        else:
            self.state = checkpoint.state
        if self.is_finished and overwrite:
            self.start_over()

    def _check_size(self, checkpoint: FileCheckpoint) -> None:
        n_bytes = os.fstat(self.file.fileno()).st_size
        if n_bytes < checkpoint.size:
            problem = f"expected {checkpoint.size:,} bytes, found {n_bytes:,}"
            raise self._damage_error("truncated", problem)

    def _check_content(self, checkpoint: FileCheckpoint, should_stop: Stop) -> None:
        size = checkpoint.size
        self._checksum = self.file.checksum_of(0, size, should_stop)
        if checkpoint.old_checksum is None:
            is_damaged = self._checksum != checkpoint.checksum
        else:
            old_checksum = self.file.old_checksum(size, should_stop)
            is_damaged = old_checksum != checkpoint.old_checksum
        if is_damaged:
            problem = "its bytes have changed since the last checkpoint"
            raise self._damage_error("damaged", problem)

    def _damage_error(self, kind: str, problem: str) -> OutputError:
        return OutputError(
            f"{self.path}: the file is {kind}: {problem}", remedy=START_OVER
        )

    def _apply(self, checkpoint: FileCheckpoint) -> None:
        self.file.apply(checkpoint.pages, checkpoint.size)
        self._checksum = checkpoint.checksum

    def _unlock(self) -> None:
        unlock(self._lock)
        self._lock = None
