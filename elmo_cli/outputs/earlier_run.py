"""What an earlier run has left of an output: a finished file, or one at its last checkpoint."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py

from elmo_cli.errors import OutputError, shown
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.finished_output import is_state
from elmo_cli.outputs.linked_files import is_linked
from elmo_cli.outputs.output_path import finished_state
from elmo_cli.outputs.standard_output import StandardOutput


class EarlierRun(NamedTuple):
    """Where an earlier run of the same settings ended."""

    n_records: int
    """Records that it has written."""
    run_state: dict[str, Any]
    """What it said of itself at its last checkpoint."""
    is_complete: bool
    """Whether it finished its file."""


NO_RUN = EarlierRun(0, {}, is_complete=False)


def find_earlier_run(
    path: Path,
    sink: CheckpointedFile | StandardOutput,
    settings: Mapping[str, str],
    *,
    overwrite: bool,
    append: bool,
) -> EarlierRun:
    """Find the run that a new one goes on from; `NO_RUN` where it begins anew.

    Args:
        path: of the output.
        sink: the file that becomes it. Emptied where its run differs and is overwritten.
        settings: of the new run.
        overwrite: a finished file is to be replaced, and a run that differs to be forgotten.
        append: an unfinished run beside a finished file continues that file.

    Raises:
        OutputError: what is there is of other settings, or of no run that is known.
    """
    state, is_complete = sink.state, False
    if os.path.exists(path) and not overwrite:
        if state is None:
            state, is_complete = finished_state(path), True
        elif not append:
            raise OutputError(
                f"{path} exists already, and an unfinished run beside it; --append goes "
                "on with that, --overwrite replaces the file"
            )
    if state is None:
        return NO_RUN
    if not is_state(state):
        raise OutputError(f"{sink.path} is of no run that is known here; remove it and its log")
    differences = _differences(state["settings"], settings)
    if differences and overwrite:
        sink.clear()
        return NO_RUN
    if differences:
        what = "exists already and" if is_complete else "is of an unfinished run that"
        raise OutputError(
            f"{path if is_complete else sink.path} {what} differs in {differences}; --overwrite "
            "starts anew"
        )
    return EarlierRun(state["n_records"], state["run"], is_complete)


def _differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    found = ", ".join(
        f"{name} ({shown(there.get(name, 'none'))} there, {shown(here.get(name, 'none'))} here)"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    )
    return shown(found)


def check_has_values(path: Path) -> None:
    """Make sure that a finished file has its values in itself, so that it can be added to.

    Raises:
        OutputError: it is of links to shards.
    """
    with h5py.File(path, "r") as file:
        if is_linked(file):
            raise OutputError(
                f"{path} is of links to shards and cannot be added to; "
                "merge the shards without --link, or --overwrite it"
            )
