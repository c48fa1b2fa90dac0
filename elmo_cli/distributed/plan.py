"""The plan of a folder: inputs, settings and parts, fixed for ever by the first run.

The content of a plan follows from the command and from the content of its inputs. So it
does not matter which of several equal runs has created it. Any other run is an error.
"""

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import IO, Any, Final

import torch

from elmo_cli.arrays import AnyArray
from elmo_cli.distributed.find_inputs import Input, find_input_format, find_inputs
from elmo_cli.distributed.input_part import Part
from elmo_cli.distributed.split_inputs import split_inputs
from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import InputError, OutputError, SettingsError
from elmo_cli.errors.messages import Message, joined
from elmo_cli.errors.missing_files import empty_file_error
from elmo_cli.errors.wording import first_line, system_reason, utf8_name
from elmo_cli.files.json_form import parse_json
from elmo_cli.files.parquet_files import FOOTER_CRC32, NO_CRC32, sealed
from elmo_cli.files.shared_folder import Folder
from elmo_cli.inference.device import CPU
from elmo_cli.inference.precision import find_arithmetic
from elmo_cli.inference.select_activations import choose_layers
from elmo_cli.model.architecture import Architecture
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import DTYPES, Dtype, OutputSettings
from elmo_cli.options.selection import Selection, SelectionSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.outputs.comparison import differences
from elmo_cli.outputs.convert_dtype import as_dtype
from elmo_cli.outputs.parquet_writer import ParquetWriter
from elmo_cli.outputs.part_files import OTHER_FOLDER, PLAN, PLAN_SHA256
from elmo_cli.outputs.record_attributes import ORIGINAL_ID
from elmo_cli.pretrained.checksums import content_sha256
from elmo_cli.pretrained.find_model import find_files_by_settings
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.registry import default_model, published_model
from elmo_cli.records.record import Record
from elmo_cli.text.choose_tokenizer import choose_tokenizer
from elmo_cli.version import __version__

_PART_MB: Final = 1000.0
"""Size of a part before compression, by default."""
_PART_TOKENS: Final = 1_000_000
"""Most tokens of a part, by default. A worker that dies loses as many."""
_RECORD_TOKENS: Final = 25
"""Approximate number of tokens of a record."""
_MAX_RECORDS: Final = 1 << 62
"""Limit for the records of a plan, whose numbers are integers of 64 bits."""
_OWN_COLUMNS: Final = (
    "index",
    ORIGINAL_ID,
    "sentence",
    "line",
    "tokens",
    "activations",
)
"""Columns of a part that have the same type in every folder."""


@dataclass(frozen=True)
class CorpusSettings:
    """Settings that a worker needs to embed a part."""

    model: ModelSettings = field(default_factory=ModelSettings)
    text: TextSettings = field(default_factory=TextSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    dtype: Dtype = "float32"

    def __post_init__(self) -> None:
        state = self.model.state
        if state not in (None, "zero", "warm"):
            problem = "{--state}: expected zero or warm, found {state}"
            raise SettingsError(problem, state=repr(state))
        check_choice("dtype", self.dtype, DTYPES)

    def for_workers(self) -> "CorpusSettings":
        """Return the settings with absolute paths, for workers in other folders."""
        model = self.model
        named = model.model
        if not named:
            named = None if model.options_file else default_model()
        absolute = replace(
            model,
            model=_absolute_path(named),
            options_file=_absolute_path(model.options_file),
            weight_file=_absolute_path(model.weight_file),
            vocabulary_file=_absolute_path(model.vocabulary_file),
        )
        return replace(self, model=absolute)


def _absolute_path(path: Any) -> Any:
    """Return the absolute path of a file; None, URLs and names of models stay."""
    if path is None or published_model(path) is not None or not os.path.exists(path):
        return path
    return os.path.abspath(path)


@dataclass(frozen=True)
class Plan:
    """Inputs and parts of a folder, and the settings that their values depend on."""

    settings: dict[str, str]
    inputs: list[Input]
    parts: list[Part]

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self.encode()).hexdigest()

    def encode(self) -> bytes:
        """Return the content as JSON."""
        inputs = [each._asdict() for each in self.inputs]
        parts = [each._asdict() for each in self.parts]
        content = {"settings": self.settings, "inputs": inputs, "parts": parts}
        return json.dumps(content, sort_keys=True).encode()


def open_plan(
    folder: Folder,
    patterns: tuple[str, ...],
    settings: CorpusSettings,
    *,
    part_mb: float | None = None,
    device: torch.device = CPU,
) -> Plan:
    """Read the plan of a folder, or create it. It must be the plan of this run.

    Args:
        folder: Folder of the parts.
        patterns: Paths, URIs and patterns of the inputs.
        settings: Settings of the run.
        part_mb: Approximate size of a part in megabytes before compression. By default
            it is 1,000, or the size of a million tokens if that is less.
        device: Device of the workers. They must compute the precision as it would be
            computed there, by the processor of this process if it is the CPU.

    Raises:
        OutputError: The folder belongs to another run, or has other files.
        InputError: An input cannot be read.
    """
    inputs = find_inputs(patterns, folder)
    files = find_files_by_settings(settings.model)
    selection = settings.selection.for_model(files.architecture.n_layers)
    recorded = _recorded_settings(settings, files, selection, device)
    if part_mb is not None:
        recorded["part_size"] = str(part_mb)
    # A run writes its plan before its parts. The names are read before the plan: if
    # there is no plan afterwards, no run has written the files.
    names = set(folder.names())
    stored = read_plan(folder)
    if stored is None:
        if names - {"_elmo"}:
            raise OutputError(
                f"{folder.typed}: not an `elmo distribute` folder, and not empty",
                remedy=OTHER_FOLDER,
            )
        vector = _empty_vector(selection, files.architecture)
        parts, column_types = split_inputs(
            [path for path, _ in inputs],
            settings.text,
            n_tokens=_n_part_tokens(vector, settings, part_mb),
        )
        if not parts:
            if len(inputs) == 1:
                raise empty_file_error(patterns[0], InputError)
            raise InputError(f"{' '.join(patterns)}: all files are empty")
        plan = Plan(settings=recorded, inputs=inputs, parts=parts)
        folder.create(
            PLAN, _encode_file(plan, settings, vector=vector, column_types=column_types)
        )
        # Another run may have been faster, and its file stays.
        stored = read_plan(folder) or plan
    differing = _differences(stored, recorded, inputs)
    if differing:
        raise OutputError(
            "{folder} belongs to another run. These differ: {differing}",
            remedy=OTHER_FOLDER,
            folder=folder.location,
            differing=joined(differing),
        )
    return stored


def _differences(
    stored: Plan, settings: dict[str, str], inputs: list[Input]
) -> list[Message | str]:
    """Describe what differs in the settings and inputs of a run."""
    differing: list[Message | str] = [
        *differences(there=stored.settings, here=settings)
    ]
    pairs = zip_longest(stored.inputs, inputs, fillvalue=Input(path="none", sha256=""))
    for number, (there, here) in enumerate(pairs, start=1):
        if there.path != here.path:
            differing.append(f"input {number} ({there.path}, not {here.path})")
        elif there != here:
            differing.append(f"the content of {here.path}")
    return differing


def read_plan(folder: Folder) -> Plan | None:
    """Read the plan of a folder. Return None if it has none."""
    schema = _read_schema(folder)
    if schema is None:
        return None
    path = f"{folder.location}/{PLAN}"
    metadata = schema.metadata or {}
    plan = parse_json(metadata.get(b"plan", b""), Plan, path, remedy=OTHER_FOLDER)
    if plan.sha256.encode() != metadata.get(PLAN_SHA256.encode()):
        raise InputError(
            f"{path}: the file is damaged: its content does not match its hash",
            remedy=OTHER_FOLDER,
        )
    if not _are_consecutive(plan.parts):
        raise InputError(
            f"{path}: the file is damaged: its parts do not follow one another",
            remedy=OTHER_FOLDER,
        )
    return plan


def _are_consecutive(parts: list[Part]) -> bool:
    """Return whether each part begins after the records of those before it."""
    n_records = 0
    for number, part in enumerate(parts):
        if part.number != number or part.first != n_records:
            return False
        if min(part.start, part.line, part.n_lines, part.n_records) < 0:
            return False
        n_records += part.n_records
    return n_records <= _MAX_RECORDS


def read_column_types(folder: Folder, plan_sha256: str) -> dict[str, Any]:
    """Read the types of the ids and the kept columns from a plan, which must exist."""
    schema = _read_schema(folder)
    if schema is None or schema.metadata[PLAN_SHA256.encode()] != plan_sha256.encode():
        raise OutputError(
            f"{folder.location}: the plan of this run is missing",
            remedy=(
                "The folder was moved or removed, or belongs to another run. Choose "
                "another folder."
            ),
        )
    return {each.name: each.type for each in schema if each.name not in _OWN_COLUMNS}


def _read_schema(folder: Folder) -> Any:
    """Read the schema of a folder's plan. Return None without a plan."""
    import pyarrow

    try:
        return folder.open_parquet(PLAN).schema_arrow
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (pyarrow.ArrowException, OSError) as error:
        reason = first_line(error).rstrip(".")
        if isinstance(error, OSError):
            reason = system_reason(error).rstrip(".")
        raise InputError(
            f"{folder.location}/{PLAN}: the file is damaged: {reason}",
            remedy=OTHER_FOLDER,
        ) from None


def open_writer(
    file: IO[bytes],
    settings: CorpusSettings,
    path: str,
    column_types: dict[str, Any],
    attributes: Mapping[str, str],
) -> ParquetWriter:
    """Open the writer of a part of the input `path`."""
    output_format = OutputSettings(
        "parquet",
        compression="zstd",
        dtype=settings.dtype,
        pooled=settings.selection.pooling is not None,
        forget_sentences=find_input_format(settings.text, path).has_sequences,
    )
    writer = ParquetWriter(file, output_format, attributes)
    writer.rows.keeps_tokens = True
    writer.fix_columns(column_types)
    return writer


def _encode_file(
    plan: Plan,
    settings: CorpusSettings,
    vector: AnyArray,
    column_types: dict[str, Any],
) -> bytes:
    """Return a Parquet file without rows.

    It has the plan in its metadata, and the columns of the parts.
    """
    import pyarrow
    from pyarrow import parquet

    # The columns are those of a part with one record.
    path = plan.inputs[0].path
    part = io.BytesIO()
    writer = open_writer(
        part, settings, path=path, column_types=column_types, attributes={}
    )
    input_format = find_input_format(settings.text, path)
    has_lines = settings.text.split_sentences and input_format.is_plain
    record = Record(
        "a",
        ["a"],
        line=1 if has_lines else None,
        original_id="" if input_format.has_sequences else None,
    )
    writer.write(0, record, as_dtype(vector, settings.dtype))
    writer.finish({})

    schema = parquet.read_schema(pyarrow.BufferReader(part.getvalue()))
    schema = schema.with_metadata(
        {PLAN_SHA256: plan.sha256, "plan": plan.encode(), FOOTER_CRC32: NO_CRC32}
    )
    file = io.BytesIO()
    parquet.write_table(schema.empty_table(), file)
    return sealed(file.getvalue())


def _recorded_settings(
    settings: CorpusSettings,
    files: ModelFiles,
    selection: Selection,
    device: torch.device,
) -> dict[str, str]:
    """Return all that the values of a folder depend on, but for the inputs."""
    text_settings = settings.text
    keep_columns = None
    if text_settings.keep_columns:
        keep_columns = json.dumps(text_settings.keep_columns)
    optional = {
        "precision": find_arithmetic(settings.model.precision, device),
        "dtype": settings.dtype,
        "input_format": text_settings.input_format,
        "text_column": text_settings.text_column,
        "key_column": text_settings.id_column_text,
        "keep_columns": keep_columns,
        "skip_errors": text_settings.skip_errors,
    }
    return {
        "model": utf8_name(files.name),
        "model_sha256": content_sha256(files),
        "options": json.dumps(asdict(files.architecture)),
        **selection.to_attributes(),
        "state": settings.model.state or files.initial_state,
        "elmo_cli_version": __version__,
        **choose_tokenizer(text_settings, "lines").to_attributes(),
        **{name: str(value) for name, value in optional.items() if value is not None},
    }


def _empty_vector(selection: Selection, architecture: Architecture) -> AnyArray:
    """Return zeros of the shape of a record's activations: of one token, or pooled."""
    layers = torch.zeros(architecture.n_layers, 1, architecture.width, device="cpu")
    vector: AnyArray = choose_layers(selection, layers).numpy()
    return vector.squeeze(-2) if selection.pooling else vector


def _n_part_tokens(
    vector: AnyArray, settings: CorpusSettings, part_mb: float | None
) -> float:
    """Return the tokens of a part; `vector` is what a token or record takes."""
    value_bytes = 2 if settings.dtype == "float16" else 4
    megabytes = _PART_MB if part_mb is None else part_mb
    n_tokens = megabytes * 1e6 / (vector.size * value_bytes)
    if settings.selection.pooling is not None:
        n_tokens *= _RECORD_TOKENS
    return min(n_tokens, _PART_TOKENS) if part_mb is None else n_tokens
