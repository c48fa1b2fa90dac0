"""Plan of a run over a file, made before a model is loaded."""

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message, Template
from elmo_cli.files.output_checks import check_not_read, check_output
from elmo_cli.options.model import InitialState
from elmo_cli.options.output import STANDARD_OUTPUT, OutputSettings, is_hdf5_name
from elmo_cli.options.output_format import HDF5
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.shard import Shard
from elmo_cli.outputs.required_packages import load_packages
from elmo_cli.records.input_format import TextInput

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FilePlan:
    """Plan of a run over a file: what it reads, computes and writes."""

    text_input: TextInput
    output_path: str | Path
    shard: Shard | None
    selection: SelectionSettings
    """Selection before the model is known: `for_model` checks it."""
    output_settings: OutputSettings
    """Settings with the name of a format."""

    @property
    def unit(self) -> str:
        """Word for a record in messages."""
        return self.text_input.unit


def plan_file(
    text_input: TextInput,
    output_path: str | Path,
    selection: SelectionSettings,
    output_settings: OutputSettings,
    *,
    state: InitialState | None = None,
    batch_size: int | None = None,
) -> FilePlan:
    """Plan a run over a file, before a model is loaded.

    `state` is the initial state, or None if it is not known yet, and `batch_size` the
    sentences per batch of a carried state.
    """
    check_type("output_file_path", output_path, (str, Path), "a path")
    if text_input.settings.shard is not None and state == "carry":
        raise SettingsError(
            Template(
                "{--shard}: requires {--state zero} or {--state warm}: carried states "
                "need all lines in their order"
            ),
            remedy="Remove {--shard}.",
        )
    if batch_size is not None:
        check_carried_batches(text_input, state, batch_size)
    if output_settings.use_sentence_keys and not text_input.format.is_plain:
        raise SettingsError(
            "{--use-sentence-keys True}: has no effect with {input_name}, which has "
            "ids",
            remedy="Remove {--use-sentence-keys True}.",
            input_name=text_input.format.name,
        )
    # Sequences are much longer than sentences.
    if text_input.format.has_sequences:
        output_settings = replace(output_settings, forget_sentences=True)
    output_settings = output_settings.for_path(
        output_path, pooled=selection.pooling is not None
    )
    load_packages(output_settings)
    text_input.settings.check_whole_records()
    if text_input.settings.keep_columns and not output_settings.format.has_rows:
        problem = "{--keep-columns}: requires Parquet or JSON lines, found {name}"
        raise SettingsError(
            problem,
            remedy="Write a .parquet or .jsonl file.",
            name=output_settings.format.title,
        )
    if (
        text_input.settings.repeated_columns
        and output_settings.format.has_fixed_columns
    ):
        column_types = text_input.format.column_types(text_input.source)
        output_settings = replace(output_settings, column_types=column_types)
    if str(output_path) != STANDARD_OUTPUT:
        # Imported here, because it loads NumPy, which a help does not need.
        from elmo_cli.files.resumable.checkpoint_log import remove_leftovers
        from elmo_cli.outputs.npy import complete_ids, ids_path

        # A kill may have left them beside a complete output, which the check refuses,
        # or which is left unchanged. No later step sees them.
        remove_leftovers(Path(os.path.realpath(output_path)))
        if output_settings.format.has_ids_beside:
            complete_ids(Path(os.path.realpath(output_path)))
            check_not_read(ids_path(Path(output_path)), [text_input.source.path])
        # HDF5 resumes, and a complete file of the same run is left unchanged.
        may_exist = output_settings.overwrite or output_settings.can_resume
        check_output(
            output_path,
            text_input.source.path,
            may_exist=may_exist,
            is_compared=not output_settings.overwrite,
        )
    return FilePlan(
        text_input=text_input,
        output_path=output_path,
        shard=text_input.settings.parse_shard(),
        selection=selection,
        output_settings=output_settings,
    )


def warn_about_suffix(
    plan: FilePlan, *, remedy: str = "Choose another format with {--format}."
) -> None:
    """Log a warning if an output becomes HDF5, although its name has another suffix."""
    path = plan.output_path
    if plan.output_settings.format is HDF5 and not is_hdf5_name(path):
        logger.warning("%s", Message(f"{path} will be HDF5", remedy=remedy))


def check_carried_batches(
    text_input: TextInput, state: InitialState | None, batch_size: int
) -> None:
    """Raise a `SettingsError` for a carried state that would mix the texts of a table.

    The sentences of a text are one stream, so a batch has one sentence.
    """
    if text_input.splits_records and state == "carry" and batch_size != 1:
        raise SettingsError(
            "{--state carry} with {--split-sentences True} of a table requires "
            "{--batch-size 1}, not {batch_size}",
            batch_size=batch_size,
        )
