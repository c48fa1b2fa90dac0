"""The plan of a folder: its parts and settings, fixed by the first run.

A folder without a plan gets one, which is created exclusively: of two runs that start together,
one creates the plan and the other one compares it with its own. With `overwrite`, a plan that
differs goes to the folder of the next plan, and the folder keeps its result until the parts of
the next plan are complete.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import torch

from elmo_cli.distributed.inputs import find_inputs, split_inputs
from elmo_cli.errors import InputError, OutputError, check_choice, shown, utf8_name
from elmo_cli.inference.selection import choose_layers
from elmo_cli.model.model_options import ModelOptions
from elmo_cli.outputs.output_formats import DTYPES, KEYS
from elmo_cli.outputs.parts import Folder, Plan, next_subfolder, plan_name, read_plan
from elmo_cli.outputs.writer import differences
from elmo_cli.pretrained.files import content_sha256
from elmo_cli.pretrained.find import default_model
from elmo_cli.pretrained.registry import published_model
from elmo_cli.settings import ModelSettings, Selection, TextSettings
from elmo_cli.version import __version__

_PART_MB: Final = 1000.0
"""Default size of a part, before compression."""
_PART_TOKENS: Final = 1_000_000
"""Maximum number of tokens per part by default. The death of a worker costs as many."""
_RECORD_TOKENS: Final = 25


@dataclass(frozen=True)
class CorpusSettings:
    """Settings that a worker needs to embed a part."""

    model: ModelSettings = field(default_factory=ModelSettings)
    text: TextSettings = field(default_factory=TextSettings)
    selection: Selection = field(default_factory=Selection)
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_choice("state", self.model.state or "zero", ("zero", "warm"))
        check_choice("dtype", self.dtype, DTYPES)

    def for_workers(self) -> "CorpusSettings":
        """Return the settings with absolute paths, for workers that run in other folders."""
        model = self.model
        paths: dict[str, Any] = {
            "model": model.model or (None if model.options_file else default_model()),
            "options_file": model.options_file,
            "weight_file": model.weight_file,
            "vocabulary_file": model.vocabulary_file,
        }
        for name, path in paths.items():
            if path is not None and published_model(path) is None and os.path.exists(path):
                paths[name] = os.path.abspath(path)
        return replace(self, model=replace(model, **paths))


def open_plan(
    folder: Folder,
    patterns: tuple[str, ...],
    settings: CorpusSettings,
    *,
    part_mb: float | None = None,
    overwrite: bool = False,
) -> Plan:
    """Read the plan of a folder, or make it.

    Args:
        folder: Folder of the parts. It is made if it is missing.
        patterns: Paths, URIs and patterns of the inputs.
        settings: Settings of the workers.
        part_mb: Approximate megabytes per part before compression. The default is 1,000, or a
            million tokens if those are less. A plan that exists keeps the size of its parts,
            unless `overwrite`.
        overwrite: Make a plan that replaces a plan of other inputs or settings when its parts are
            complete. A plan of the same inputs and settings is kept with its parts.

    Raises:
        InputError: An input cannot be read, or the plan is damaged.
        OutputError: The folder has a plan of other inputs or settings, or other files.
    """
    inputs = find_inputs(patterns)
    values, options = _recorded(settings)
    values |= {f"input {i}": ", ".join(each) for i, each in enumerate(inputs, start=1)}

    def make() -> Plan:
        n_tokens = _tokens_per_part(settings, options, part_mb)
        parts, has_ids, types = split_inputs(inputs, settings.text, n_tokens)
        recorded = {**values, **({KEYS: "True"} if has_ids else {})}
        return Plan(recorded, parts, part_mb, column_types=types)

    names = {*folder.names()}  # Before the plan is read: a run that writes parts has a plan.
    try:
        stored = read_plan(folder)
    except InputError:
        if not overwrite:
            raise
        return _open_next(folder, values, part_mb, make)  # The plan is damaged.
    if stored is None:
        stored = _create(folder, make, names)
    differing = _differences(stored, values, part_mb if overwrite else None)
    if not differing:
        return stored
    if overwrite:
        return _open_next(folder, values, part_mb, make)
    raise OutputError(
        f"{folder.location} was written by a run that differs in {shown(', '.join(differing))}. "
        "Use --overwrite to start over."
    )


def _create(folder: Folder, make: Callable[[], Plan], names: set[str]) -> Plan:
    """Create the plan of a folder; if another run was faster, return its plan."""
    if names - {"_elmo"}:  # These may be parts whose plan is lost.
        raise OutputError(
            f"{folder.location}: expected a folder of `elmo distribute`, or an empty one, "
            "found other files in it. Choose another folder."
        )
    folder.create(plan_name(), make().encode())
    # Object stores cannot refuse a name that exists, so that the last plan holds.
    stored = read_plan(folder)
    if stored is None:
        raise OutputError(f"{folder.location}: the plan is lost: another process has removed it.")
    return stored


def _open_next(
    folder: Folder, values: dict[str, str], part_mb: float | None, make: Callable[[], Plan]
) -> Plan:
    """Read the next plan with these settings, or make it."""
    for name in folder.names("_elmo"):
        if name.startswith("next-"):
            with suppress(InputError):  # A damaged plan is left alone.
                stored = read_plan(folder, f"_elmo/{name}")
                if stored is not None and not _differences(stored, values, part_mb):
                    return stored
    plan = replace(make(), is_next=True)
    plan = replace(plan, stored_sha256=plan.sha256)
    folder.write(plan_name(next_subfolder(plan.sha256)), plan.encode())
    return plan


def _differences(stored: Plan, values: dict[str, str], part_mb: float | None) -> list[str]:
    """Return the settings in which a plan differs, as messages show them.

    The size of parts is compared if `part_mb` is given.
    """
    settings = {name: value for name, value in stored.settings.items() if name != KEYS}
    differing = differences(settings, values)
    if part_mb is not None and part_mb != stored.part_mb:
        differing.append(f"part size ({stored.part_mb or 'default'} there, {part_mb} here)")
    if not stored.stored_sha256 and not differing:
        differing.append("form (that of version 0.1 there)")
    return differing


def _recorded(settings: CorpusSettings) -> tuple[dict[str, str], ModelOptions]:
    """Return what the values of a folder depend on, as attributes, and the model's options."""
    files, text = settings.model.find_files(), settings.text
    options = files.parsed_options
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
        **text.make_tokenizer().to_attributes(),
        **{name: str(value) for name, value in chosen.items() if value is not None},
    }, options


def _tokens_per_part(
    settings: CorpusSettings, options: ModelOptions, part_mb: float | None
) -> float:
    selection = settings.selection.for_model(options.n_layers)
    vector = choose_layers(selection, torch.empty(options.n_layers, 1, options.width, device="cpu"))
    vector_bytes = vector.numel() * (2 if settings.dtype == "float16" else 4)
    n_vectors = (part_mb or _PART_MB) * 1e6 / vector_bytes
    n_tokens = n_vectors * (_RECORD_TOKENS if selection.pooling else 1)
    return n_tokens if part_mb else min(n_tokens, _PART_TOKENS)
