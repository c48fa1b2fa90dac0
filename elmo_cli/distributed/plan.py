"""The plan of a folder: its parts and settings, fixed by the first run."""

import json
import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

import torch

from elmo_cli.distributed.inputs import DEFAULT_TEXT_COLUMN, Part, cut, find_inputs
from elmo_cli.errors import OutputError, check_choice, shown
from elmo_cli.inference.selection import choose_layers
from elmo_cli.model.options import ModelOptions
from elmo_cli.outputs.formats import DTYPES
from elmo_cli.outputs.parts import PLAN, Folder
from elmo_cli.outputs.writer import differences
from elmo_cli.pretrained.loading import default_model
from elmo_cli.pretrained.model_files import content_sha256
from elmo_cli.pretrained.registry import published_model
from elmo_cli.settings import ModelSettings, Selection, TextSettings
from elmo_cli.version import __version__

_PART_MB: Final = 1000.0
"""Size of a part, before compression."""
_PART_TOKENS: Final = 1_000_000
"""The maximum number of tokens in a part, unless its size is given: what a worker's death costs."""
_RECORD_TOKENS: Final = 25


@dataclass(frozen=True)
class CorpusSettings:
    """What a worker has to know to embed a part."""

    model: ModelSettings = field(default_factory=ModelSettings)
    text: TextSettings = field(default_factory=TextSettings)
    selection: Selection = field(default_factory=Selection)
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_choice("state", self.model.state or "zero", ("zero", "warm"))
        check_choice("dtype", self.dtype, DTYPES)

    def for_workers(self) -> "CorpusSettings":
        """Return the settings with absolute paths, for workers that run in other folders."""
        given = self.model
        paths: dict[str, Any] = {
            "model": given.model or (None if given.options_file else default_model()),
            "options_file": given.options_file,
            "weight_file": given.weight_file,
            "vocabulary_file": given.vocabulary_file,
        }
        for name, path in paths.items():
            if path is not None and published_model(path) is None and os.path.exists(path):
                paths[name] = os.path.abspath(path)
        return replace(self, model=replace(given, **paths))


class Plan(NamedTuple):
    """The parts of a folder."""

    settings: dict[str, str]
    """What the values depend on, the inputs too; other settings are refused."""
    parts: list[Part]


def open_plan(
    folder: Folder,
    patterns: tuple[str, ...],
    settings: CorpusSettings,
    *,
    part_mb: float | None = None,
    overwrite: bool = False,
) -> Plan:
    """The plan of a folder, made where there is none.

    Args:
        folder: made where it is missing.
        patterns: the inputs: paths, URIs and patterns.
        settings: of the workers.
        part_mb: megabytes of a part before compression, about; 1,000, or a million tokens where
            those are less, if not given.
        overwrite: remove what a run with another plan has written.

    Raises:
        InputError: an input cannot be read.
        OutputError: the folder is of other inputs or settings, or something else lies in it.
    """
    inputs = find_inputs(patterns)
    values, options = _recorded(settings)
    values |= {f"input {i}": ", ".join(each) for i, each in enumerate(inputs, start=1)}
    if overwrite:
        folder.clear()
    stored = read_plan(folder)
    if stored is not None:
        found = differences(stored.settings, values)
        if found:
            raise OutputError(
                f"{folder.location} is of a run that differs in {shown(', '.join(found))}; "
                "--overwrite starts anew"
            )
        return stored
    if {*folder.names()} - {"_elmo"}:  # parts without a plan, perhaps
        raise OutputError(
            f"{folder.location}: expected a folder of `elmo distribute`, or an empty one, "
            "found other files in it"
        )
    n_tokens = _tokens_per_part(settings, options, part_mb)
    plan = Plan(values, cut((path for path, _ in inputs), settings.text, n_tokens))
    folder.write(PLAN, {"settings": values, "parts": [part._asdict() for part in plan.parts]})
    return plan


def read_plan(folder: Folder) -> Plan | None:
    """The plan of a folder, if it has one."""
    found = folder.read(PLAN)
    if found is None:
        return None
    return Plan(found["settings"], [Part(**each) for each in found["parts"]])


def _recorded(settings: CorpusSettings) -> tuple[dict[str, str], ModelOptions]:
    """Return what the values of a folder depend on, as attributes, and the model's options."""
    files, text = settings.model.find_files(), settings.text
    options = files.parsed_options
    chosen = {
        "precision": settings.model.precision,
        "dtype": settings.dtype,
        "input_format": text.input_format,
        "text_column": text.text_column or DEFAULT_TEXT_COLUMN,
        "key_column": text.id_column,
        "skip_errors": text.skip_errors,
    }
    return {
        "model": files.name,
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
    vector = choose_layers(selection, torch.empty(options.n_layers, 1, options.width))
    vector_bytes = vector.numel() * (2 if settings.dtype == "float16" else 4)
    n_vectors = (part_mb or _PART_MB) * 1e6 / vector_bytes
    n_tokens = n_vectors * (_RECORD_TOKENS if selection.pooling else 1)
    return n_tokens if part_mb else min(n_tokens, _PART_TOKENS)
