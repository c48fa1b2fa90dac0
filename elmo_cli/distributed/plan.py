"""The plan of a folder: its inputs, settings and parts, fixed by the first run for ever.

The content of a plan follows from the command and from the content of its inputs. It therefore does
not matter which of several equal runs has created it. Any other run is an error.
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
from numpy.typing import NDArray

from elmo_cli.distributed.inputs import (
    Input,
    Part,
    find_input_format,
    find_inputs,
    split_inputs,
)
from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import InputError, OutputError
from elmo_cli.errors.messages import Message, joined
from elmo_cli.errors.wording import first_line, utf8_name
from elmo_cli.files.folder import Folder
from elmo_cli.files.json_form import parse_json
from elmo_cli.inference.selection import choose_layers
from elmo_cli.model.options import ModelOptions
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import DTYPES, OutputSettings
from elmo_cli.options.selection import Selection
from elmo_cli.options.text import TextSettings
from elmo_cli.outputs.comparison import differences
from elmo_cli.outputs.output_formats import as_dtype
from elmo_cli.outputs.parquet import ParquetWriter
from elmo_cli.outputs.parts import OTHER_FOLDER, PLAN, PLAN_SHA256
from elmo_cli.pretrained.checksums import content_sha256
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.pretrained.find import files_of
from elmo_cli.pretrained.registry import default_model, published_model
from elmo_cli.records.record import Record
from elmo_cli.text.choose_tokenizer import choose_tokenizer
from elmo_cli.version import __version__

_PART_MB: Final = 1000.0  # default size of a part, before compression
# maximum by default; the death of a worker costs as many
_PART_TOKENS: Final = 1_000_000
_RECORD_TOKENS: Final = 25
# Columns of a part that have the same type in every folder.
_OWN_COLUMNS: Final = ("index", "sentence", "line", "tokens", "activations")


@dataclass(frozen=True)
class CorpusSettings:
    """Settings that a worker needs to embed a part."""

    model: ModelSettings = field(default_factory=ModelSettings)
    text: TextSettings = field(default_factory=TextSettings)
    selection: Selection = field(default_factory=Selection)
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_choice("--state", self.model.state or "zero", ("zero", "warm"))
        check_choice("dtype", self.dtype, DTYPES)

    def for_workers(self) -> "CorpusSettings":
        """Return the settings with absolute paths, for workers that run in other folders."""
        model = self.model
        names = ("options_file", "weight_file", "vocabulary_file")
        paths: dict[str, Any] = {name: getattr(model, name) for name in names}
        paths["model"] = model.model or (
            None if model.options_file else default_model()
        )
        for name, path in paths.items():
            if (
                path is not None
                and published_model(path) is None
                and os.path.exists(path)
            ):
                paths[name] = os.path.abspath(path)
        return replace(self, model=replace(model, **paths))


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
) -> Plan:
    """Read the plan of a folder, or create it, and refuse one that differs from this run's.

    `patterns` are paths, URIs and patterns of the inputs. A part has about `part_mb` megabytes
    before compression: by default 1,000, or a million tokens if those are less.
    """
    inputs, files = find_inputs(patterns, folder), files_of(settings.model)
    recorded = _record(settings, files) | (
        {"part_size": str(part_mb)} if part_mb else {}
    )
    # A run writes its plan before its parts. So files are other files if the plan comes later.
    names = {*folder.names()}
    stored = read_plan(folder)
    if stored is None:
        if names - {"_elmo"}:
            raise OutputError(
                f"{folder.location}: not an `elmo distribute` folder, and not empty. {OTHER_FOLDER}"
            )
        vector = _empty_vector(settings, files.parsed_options)
        n_tokens = _n_part_tokens(vector, settings, part_mb)
        parts, column_types = split_inputs(
            [path for path, _ in inputs], settings.text, n_tokens
        )
        plan = Plan(recorded, inputs, parts)
        folder.create(PLAN, _encode_file(plan, settings, vector, column_types))
        stored = read_plan(folder) or plan  # Another run may have been faster.
    if differing := _differences(stored, recorded, inputs):
        raise OutputError(
            Message(
                "{folder} belongs to another run. These differ: {differing}. {advice}",
                folder=folder.location,
                differing=joined(differing),
                advice=OTHER_FOLDER,
            )
        )
    return stored


def _differences(
    stored: Plan, settings: dict[str, str], inputs: list[Input]
) -> list[Message | str]:
    differing: list[Message | str] = [*differences(stored.settings, settings)]
    pairs = zip_longest(stored.inputs, inputs, fillvalue=Input("none", ""))
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
    name, metadata = f"{folder.location}/{PLAN}", schema.metadata or {}
    plan = parse_json(metadata.get(b"plan", b""), Plan, name, OTHER_FOLDER)
    if plan.sha256.encode() != metadata.get(PLAN_SHA256.encode()):
        raise InputError(
            f"{name}: the file is damaged: its content does not match its hash. {OTHER_FOLDER}"
        )
    return plan


def read_column_types(folder: Folder, plan_sha256: str) -> dict[str, Any]:
    """Read the types of the ids and of the kept columns from the plan, which must be there."""
    schema = _read_schema(folder)
    if schema is None or schema.metadata[PLAN_SHA256.encode()] != plan_sha256.encode():
        raise OutputError(
            f"{folder.location}: the plan of this run is missing. The folder was moved "
            "or removed, or belongs to another run. Choose another folder."
        )
    return {each.name: each.type for each in schema if each.name not in _OWN_COLUMNS}


def _read_schema(folder: Folder) -> Any:
    import pyarrow

    try:
        return folder.open_parquet(PLAN).schema_arrow
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (pyarrow.ArrowException, OSError) as error:
        name, reason = f"{folder.location}/{PLAN}", first_line(error).rstrip(".")
        raise InputError(
            f"{name}: the file is damaged: {reason}. {OTHER_FOLDER}"
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
    vector: NDArray[Any],
    column_types: dict[str, Any],
) -> bytes:
    """Return a file of Parquet with the plan in its metadata, the columns of the parts, no rows."""
    import pyarrow
    from pyarrow import parquet

    part, file = io.BytesIO(), io.BytesIO()
    writer = open_writer(part, settings, plan.inputs[0].path, column_types, {})
    is_plain = find_input_format(settings.text, plan.inputs[0].path).is_plain
    has_lines = settings.text.split_sentences and is_plain
    record = Record("a", ["a"], line=1 if has_lines else None)
    writer.write(0, record, as_dtype(vector, settings.dtype))
    writer.finish({})
    metadata = {PLAN_SHA256: plan.sha256, "plan": plan.encode()}
    schema = parquet.read_schema(pyarrow.BufferReader(part.getvalue())).with_metadata(
        metadata
    )
    parquet.write_table(schema.empty_table(), file)
    return file.getvalue()


def _record(settings: CorpusSettings, files: ModelFiles) -> dict[str, str]:
    """Return what the values of a folder depend on, apart from the inputs, as attributes."""
    text, options = settings.text, files.parsed_options
    chosen = {
        "precision": settings.model.precision,
        "dtype": settings.dtype,
        "input_format": text.input_format,
        "text_column": text.text_column,
        "key_column": text.id_column,
        "keep_columns": json.dumps(text.keep_columns) if text.keep_columns else None,
        "skip_errors": text.skip_errors,
    }
    return {
        "model": utf8_name(files.name),
        "model_sha256": content_sha256(files),
        "options": json.dumps(asdict(options)),
        **settings.selection.for_model(options.n_layers).to_attributes(),
        "state": settings.model.state or files.initial_state,
        "elmo_cli_version": __version__,
        **choose_tokenizer(text, "lines").to_attributes(),
        **{name: str(value) for name, value in chosen.items() if value is not None},
    }


def _empty_vector(settings: CorpusSettings, options: ModelOptions) -> NDArray[Any]:
    """Return zeros of the shape of a record's activations: of one token, or pooled."""
    selection = settings.selection.for_model(options.n_layers)
    layers = torch.zeros(options.n_layers, 1, options.width, device="cpu")
    vector: NDArray[Any] = choose_layers(selection, layers).numpy()
    return vector.squeeze(-2) if selection.pooling else vector


def _n_part_tokens(
    vector: NDArray[Any], settings: CorpusSettings, part_mb: float | None
) -> float:
    n_bytes = vector.size * (2 if settings.dtype == "float16" else 4)
    n_tokens = (part_mb or _PART_MB) * 1e6 / n_bytes
    n_tokens *= _RECORD_TOKENS if settings.selection.pooling else 1
    return n_tokens if part_mb else min(n_tokens, _PART_TOKENS)
