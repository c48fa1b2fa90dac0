"""The place of an output file: whether it may be written there, and what is there already."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from elmo_cli.errors import InputError, OutputError
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.finished_output import state_at_end
from elmo_cli.outputs.output_formats import STANDARD_OUTPUT
from elmo_cli.outputs.reader import open_activations
from elmo_cli.outputs.standard_output import StandardOutput

_ADVICE = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room in your quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
}
"""What to do about an output that cannot be written, by the number of the error."""


def check_output(
    path: str | Path,
    *,
    overwrite: bool,
    or_finished: bool = False,
    source: str | Path | None = None,
) -> None:
    """Make sure that an output file can be written, before anything is computed.

    Args:
        path: the output file.
        overwrite: whether it may replace one that is there.
        or_finished: accept a file that a run has finished: this one may be the same.
        source: the input file, which it may not replace.

    Raises:
        OutputError: it is there already, is a directory or the input, or its folder is
            missing or not writable.
    """
    path = Path(path)
    if str(path) == STANDARD_OUTPUT:
        return
    both_there = source is not None and os.path.exists(path) and os.path.exists(source)
    if source is not None and both_there and os.path.samefile(path, source):
        raise OutputError(f"{path} is the input; choose another output")
    # Not the methods of Path: they raise where a name is too long.
    if os.path.isdir(path):
        raise OutputError(f"{path}: expected an output file, found a directory")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OutputError(f"{path}: expected an output file, found a device or a pipe")
    if os.path.exists(path) and not overwrite:
        if not or_finished:
            raise OutputError(f"{path} exists already; --overwrite replaces it")
        finished_state(path)
    if not path.parent.is_dir():
        raise OutputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: the folder {path.parent} is not writable")


def finished_state(path: Path) -> dict[str, Any]:
    """The state in which a run finished a file.

    Raises:
        OutputError: the file does not say.
    """
    state = None
    with suppress(InputError), open_activations(path) as activations:
        state = state_at_end(activations.attributes)
    if state is None:
        raise OutputError(f"{path} exists already; --overwrite replaces it")
    return state


def open_partial(path: Path) -> CheckpointedFile | StandardOutput:
    """Open the file that becomes an output when it is complete, or standard output.

    Raises:
        OutputError: it cannot be written, or another process is writing it.
    """
    if str(path) == STANDARD_OUTPUT:
        return StandardOutput()
    partial = path.with_name(path.name + ".partial")
    try:
        return CheckpointedFile(partial)
    except BlockingIOError:
        raise OutputError(f"{path}: another process is writing it; wait, or stop it") from None
    except OSError as error:
        raise output_error(path, error) from None


def output_error(path: Path, error: OSError) -> OutputError:
    """What to say of an output that cannot be written."""
    advice = f"; {_ADVICE[error.errno]} and run the command again" if error.errno in _ADVICE else ""
    return OutputError(f"{path}: cannot write the output: {error.strerror}{advice}")
