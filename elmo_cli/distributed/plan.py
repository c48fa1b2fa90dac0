"""The plan of a folder: its parts and settings, fixed by the first run."""

import json
import os
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

import torch

from elmo_cli.distributed.inputs import Columns, Part, cut, find_inputs
from elmo_cli.errors import OutputError, check_choice, shown
from elmo_cli.inference.selection import Selection, select
from elmo_cli.model.options import ModelOptions, read_options, start_of_sentences
from elmo_cli.outputs.formats import DTYPES
from elmo_cli.outputs.parts import PLAN, Folder
from elmo_cli.outputs.writer import differences
from elmo_cli.pretrained.loading import choose_model, default_model
from elmo_cli.pretrained.model_files import content_sha256
from elmo_cli.pretrained.registry import published_model
from elmo_cli.text.tokenizers import make_tokenizer
from elmo_cli.version import __version__

_PART_MB: Final = 1000.0
"""Size of a part, before compression."""
_PART_TOKENS: Final = 1_000_000
"""The maximum number of tokens in a part, unless its size is given: what a worker's death costs."""
_RECORD_TOKENS: Final = 25


@dataclass(frozen=True)
class Settings(Columns):
    """What a worker has to know, in plain values; see `ElmoEmbedder` and its `embed_file`."""

    model: str | None = None
    options_file: str | None = None
    weight_file: str | None = None
    vocabulary_file: str | None = None
    state: Any = None
    precision: Any = "float32"
    batch_tokens: int | None = None
    layers: str = "all"
    mix: tuple[float, ...] | None = None
    gamma: float | None = None
    pooling: str | None = None
    dtype: str = "float32"

    def selection(self, n_layers: int) -> Selection:
        """What is written of a model's layers."""
        return select(n_layers, self.layers, self.mix, self.gamma, self.pooling)

    def for_workers(self) -> "Settings":
        """The same with absolute paths, for workers run elsewhere, in another folder."""
        model = self.model or (None if self.options_file else default_model())
        paths: dict[str, Any] = {"model": model, "options_file": self.options_file}
        paths |= {"weight_file": self.weight_file, "vocabulary_file": self.vocabulary_file}
        for name, path in paths.items():
            if path is not None and published_model(path) is None and os.path.exists(path):
                paths[name] = os.path.abspath(path)
        return replace(self, **paths)


class Plan(NamedTuple):
    """The parts of a folder."""

    settings: dict[str, str]
    """What the values depend on, the inputs too; other settings are refused."""
    parts: list[Part]


def open_plan(
    folder: Folder,
    patterns: tuple[str, ...],
    settings: Settings,
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
    check_choice("state", settings.state or "zero", ("zero", "warm"))
    check_choice("dtype", settings.dtype, DTYPES)
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
    plan = Plan(values, cut((path for path, _ in inputs), settings, n_tokens))
    folder.write(PLAN, {"settings": values, "parts": [part._asdict() for part in plan.parts]})
    return plan


def read_plan(folder: Folder) -> Plan | None:
    """The plan of a folder, if it has one."""
    found = folder.read(PLAN)
    if found is None:
        return None
    return Plan(found["settings"], [Part(**each) for each in found["parts"]])


def _recorded(settings: Settings) -> tuple[dict[str, str], ModelOptions]:
    """What the values of a folder depend on, as attributes; and the options of the model."""
    files = choose_model(
        settings.model, settings.options_file, settings.weight_file, settings.vocabulary_file
    )
    options = read_options(files.options)
    own = ("precision", "dtype", "input_format", "text_column", "key_column", "skip_errors")
    chosen = {name: getattr(settings, name) for name in own}
    return {
        "model": files.name,
        "model_sha256": content_sha256(files),
        "options": json.dumps(asdict(options)),
        **settings.selection(options.n_layers).attributes(),
        "state": settings.state or start_of_sentences(files.options),
        "elmo_cli_version": __version__,
        **make_tokenizer(settings.tokenizer).settings(),
        **{name: str(value) for name, value in chosen.items() if value is not None},
    }, options


def _tokens_per_part(settings: Settings, options: ModelOptions, part_mb: float | None) -> float:
    selection = settings.selection(options.n_layers)
    vector = selection.choose(torch.empty(options.n_layers, 1, options.width))
    vector_bytes = vector.numel() * (2 if settings.dtype == "float16" else 4)
    n_vectors = (part_mb or _PART_MB) * 1e6 / vector_bytes
    n_tokens = n_vectors * (_RECORD_TOKENS if settings.pooling else 1)
    return n_tokens if part_mb else min(n_tokens, _PART_TOKENS)
