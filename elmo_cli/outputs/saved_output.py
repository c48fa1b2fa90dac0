"""What an earlier run says of its output: in the log of a checkpoint, or in the file.

The log's keys are older than the names of this module, and stay as they are.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from elmo_cli.errors.exceptions import InputError
from elmo_cli.files.output_checks import exists_error
from elmo_cli.options.output_format import HDF5, FileFormat
from elmo_cli.outputs.attributes import KEYS
from elmo_cli.outputs.reader import open_activations
from elmo_cli.records.progress import Progress

_END_ATTRIBUTES: Final = (
    "records",
    "input_records",
    "input_sha256",
    "records_sha256",
    "skipped",
    KEYS,
)
"""Attributes that are known only at the end."""


@dataclass(frozen=True)
class ResumePoint:
    """Point in an input where a run may stop and the next one resumes."""

    progress: Progress
    """Progress in the input."""
    encoder_state: Mapping[str, str] = field(default_factory=dict)
    """State of the encoder, as texts."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Reason for each skipped record, by its id or number."""
    n_empty: int = 0
    """Number of records without tokens, apart from skipped ones."""


@dataclass(frozen=True)
class SavedOutput:
    """Output as an earlier run left it, at its last checkpoint or at its end."""

    attributes: dict[str, str]
    n_records: int
    resume_point: ResumePoint
    file_format: FileFormat = HDF5.name

    def to_json(self) -> dict[str, Any]:
        """Return the values that the log of a checkpoint stores."""
        point = self.resume_point
        run = {
            "place": [point.progress.n_records, point.progress.text_sha256],
            "records_sha256": point.progress.records_sha256,
            "states": dict(point.encoder_state),
            "skipped": dict(point.skipped),
            "n_empty": point.n_empty,
        }
        return {
            "settings": self.attributes,
            "n_records": self.n_records,
            "file_format": self.file_format,
            "run": run,
        }


def saved_at_checkpoint(stored: Mapping[str, Any]) -> SavedOutput:
    """Return what the log of a checkpoint stores, written by `to_json`."""
    run = stored["run"]
    n_records, text_sha256 = run["place"]
    return SavedOutput(
        attributes=stored["settings"],
        n_records=stored["n_records"],
        resume_point=ResumePoint(
            progress=Progress(n_records, text_sha256, run.get("records_sha256")),
            encoder_state=run["states"],
            skipped=run["skipped"],
            n_empty=run["n_empty"],
        ),
        # Logs of versions that only resumed HDF5 do not say it.
        file_format=stored.get("file_format", HDF5.name),
    )


def read_saved_at_end(path: Path) -> SavedOutput:
    """Return what a complete file of HDF5 says of itself, written by `end_attributes`.

    Any other file that is in the place of an output raises an `OutputError`.
    """
    with suppress(InputError, KeyError), open_activations(path) as activations:
        stored = activations.attributes
        progress = Progress(
            int(stored["input_records"]),
            text_sha256=str(stored["input_sha256"]),
            records_sha256=stored.get("records_sha256"),
        )
        attributes = {
            name: str(value)
            for name, value in stored.items()
            if name not in _END_ATTRIBUTES
        }
        return SavedOutput(
            attributes=attributes,
            n_records=int(stored["records"]),
            resume_point=ResumePoint(progress),
        )
    raise exists_error(path)


def end_attributes(
    n_records: int,
    progress: Progress,
    skipped: Mapping[str, str],
    *,
    has_ids: bool = False,
) -> dict[str, str]:
    """Return the attributes that are known only at the end.

    `skipped` has the reason for each skipped record, by its name.
    """
    attributes = {
        "records": str(n_records),
        "input_records": str(progress.n_records),
        "input_sha256": progress.text_sha256,
    }
    if progress.records_sha256 is not None:
        attributes["records_sha256"] = progress.records_sha256
    if skipped:
        attributes["skipped"] = json.dumps(dict(skipped), sort_keys=True)
    if has_ids:
        attributes[KEYS] = "True"
    return attributes
