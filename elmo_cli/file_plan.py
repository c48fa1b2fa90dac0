"""Plan of a run over a file, made before a model is loaded."""

from dataclasses import dataclass, replace
from pathlib import Path

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.messages import Message
from elmo_cli.files.output_checks import check_output
from elmo_cli.options.model import InitialState
from elmo_cli.options.output import STANDARD_OUTPUT, OutputSettings
from elmo_cli.options.selection import Selection
from elmo_cli.options.shard import Shard
from elmo_cli.outputs.output_formats import load_packages
from elmo_cli.records.input_format import TextInput


@dataclass(frozen=True)
class FilePlan:
    """Plan of a run over a file: what it reads, computes and writes."""

    text: TextInput
    output: str | Path
    shard: Shard | None
    selection: Selection  # selection that is not checked for a model yet
    output_format: OutputSettings  # settings with the name of a format
    overwrite: bool

    @property
    def unit(self) -> str:
        """Word for a record in messages."""
        return self.text.unit


def plan_file(
    text: TextInput,
    output: str | Path,
    selection: Selection,
    written: OutputSettings,
    *,
    state: InitialState | None = None,
) -> FilePlan:
    """Plan a run over a file, before a model is loaded; `state` is None if it is not known."""
    check_type("output_file_path", output, (str, Path), "a path")
    if text.settings.shard is not None and state == "carry":
        problem = (
            "{--shard} requires {--state zero} or warm: carried states need all lines in "
            "their order"
        )
        raise SettingsError(Message(problem, remedy="Remove {--shard}."))
    if written.use_sentence_keys and not text.format.is_plain:
        problem = "{--use-sentence-keys} has no effect with {input_name}, which has ids"
        raise SettingsError(Message(problem, input_name=text.format.name))
    # Sequences are much longer than sentences.
    forget_sentences = written.forget_sentences or text.format.has_sequences
    output_format = replace(written, forget_sentences=forget_sentences).for_path(
        output, pooled=selection.pooling is not None
    )
    load_packages(output_format)
    text.settings.check_whole_records()
    if text.settings.keep_columns:
        if not output_format.format.has_rows:
            problem = "{--keep-columns} requires Parquet or JSON lines, found {name}"
            raise SettingsError(Message(problem, name=output_format.format.title))
        if output_format.format.has_fixed_columns:
            column_types = text.format.column_types(text.source)
            output_format = replace(output_format, column_types=column_types)
    if str(output) != STANDARD_OUTPUT:
        check_output(output, text.source.path, overwrite=True)
    shard = text.settings.parse_shard()
    return FilePlan(text, output, shard, selection, output_format, written.overwrite)
