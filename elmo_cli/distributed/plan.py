"""The plan of a folder: its parts and settings, fixed by the first run."""

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import torch

import elmo_cli
from elmo_cli.distributed.folder import Folder
from elmo_cli.distributed.inputs import Columns, Input, Part, cut, find_inputs, sample
from elmo_cli.errors import OutputError, check_choice, shown
from elmo_cli.inference.selection import Selection, select
from elmo_cli.model.options import ModelOptions, read_options, start_of_sentences
from elmo_cli.outputs.formats import DTYPES
from elmo_cli.outputs.parts import PLAN
from elmo_cli.outputs.writer import differences
from elmo_cli.pretrained.loading import choose_model
from elmo_cli.pretrained.model_files import ModelFiles, content_sha256

PART_BYTES: Final = 1 << 30
"""Size of a part, before compression."""
_PART_TOKENS: Final = 1 << 20
"""The maximum number of tokens in a part, unless its size is given: what a worker's death costs."""


@dataclass(frozen=True)
class Settings:
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
    input_format: str | None = None
    text_column: str = "text"
    key_column: str | None = None
    skip_errors: bool = False

    @property
    def columns(self) -> Columns:
        """What is read of the inputs."""
        return Columns(self.input_format, self.text_column, self.key_column, self.skip_errors)

    def selection(self, n_layers: int) -> Selection:
        """What is written of a model's layers."""
        return select(n_layers, self.layers, self.mix, self.gamma, self.pooling)


class Plan(NamedTuple):
    """The parts of a folder."""

    settings: dict[str, str]
    """What the values depend on; other settings are refused."""
    inputs: list[Input]
    parts: list[Part]

    @property
    def model_sha256(self) -> str:
        """The hash of the model that workers must have."""
        return self.settings["model_sha256"]


def open_plan(
    folder: Folder,
    patterns: tuple[str, ...],
    settings: Settings,
    *,
    part_bytes: int | None = None,
    overwrite: bool = False,
) -> Plan:
    """The plan of a folder, made where there is none.

    Args:
        folder: made where it is missing.
        patterns: the inputs: paths, URIs and patterns.
        settings: of the workers.
        part_bytes: size of a part before compression; 1 GiB, or less, if not given.
        overwrite: remove what a run with another plan has written.

    Raises:
        InputError: an input cannot be read.
        OutputError: the folder is of other inputs or settings, or something else lies in it.
    """
    check_choice("state", settings.state or "zero", ("zero", "warm"))
    check_choice("dtype", settings.dtype, DTYPES)
    inputs = find_inputs(patterns)
    files = choose_model(
        *(settings.model, settings.options_file, settings.weight_file, settings.vocabulary_file)
    )
    values = _recorded(settings, files)
    if overwrite:
        folder.clear()
    stored = read_plan(folder)
    if stored is None:
        if folder.names():
            raise OutputError(
                f"{folder.location}: expected a folder of `elmo distribute`, or an empty one, "
                "found other files in it"
            )
        plan = Plan(
            values, inputs, _parts(inputs, settings, read_options(files.options), part_bytes)
        )
        _write_plan(folder, plan)
        return plan
    _check_same(folder, stored, values, inputs)
    return stored


def read_plan(folder: Folder) -> Plan | None:
    """The plan of a folder, if it has one."""
    found = folder.read(PLAN)
    if found is None:
        return None
    inputs = [Input(*each) for each in found["inputs"]]
    parts = [
        Part(number, inputs[file].path, start, stop, first, n_records, line)
        for number, (file, start, stop, first, n_records, line) in enumerate(
            (part[0], *part[1:]) for part in found["parts"]
        )
    ]
    return Plan(found["settings"], inputs, parts)


def _write_plan(folder: Folder, plan: Plan) -> None:
    files = {each.path: number for number, each in enumerate(plan.inputs)}
    parts = [(files[part.path], *part[2:]) for part in plan.parts]
    content = {"settings": plan.settings, "inputs": plan.inputs, "parts": parts}
    folder.write(PLAN, content)


def _recorded(settings: Settings, files: ModelFiles) -> dict[str, str]:
    """What the values of a folder depend on, as attributes."""
    options = read_options(files.options)
    values = {
        "model_sha256": content_sha256(files),
        **settings.selection(options.n_layers).attributes(),
        "state": settings.state or start_of_sentences(files.options),
        "elmo_cli_version": elmo_cli.__version__,
    }
    own = ("precision", "dtype", "text_column", "key_column", "skip_errors")
    chosen = asdict(settings)
    return {**values, **{name: str(chosen[name]) for name in own if chosen[name] is not None}}


def _check_same(
    folder: Folder, stored: Plan, settings: dict[str, str], inputs: list[Input]
) -> None:
    found = differences(stored.settings, settings)
    if stored.inputs != inputs:
        changed = sorted({each.path for each in {*stored.inputs} ^ {*inputs}}) or ["their order"]
        found.append(f"the inputs ({shown(', '.join(changed[:5]))})")
    if found:
        raise OutputError(
            f"{folder.location} is of a run that differs in {', '.join(found)}; --overwrite starts "
            "anew"
        )


def _parts(
    inputs: list[Input], settings: Settings, options: ModelOptions, part_bytes: int | None
) -> list[Part]:
    selection = settings.selection(options.n_layers)
    one = Selection(selection.layers, "mean").empty(
        options.n_layers, options.width, torch.device("cpu")
    )
    vector_bytes = one.numel() * (2 if settings.dtype == "float16" else 4)
    parts: list[Part] = []
    n_records = 0
    for path, _, _ in inputs:
        units, records, tokens = sample(path, settings.columns)
        n_vectors = records if settings.pooling else tokens
        limit = units * (part_bytes or PART_BYTES) // max(1, vector_bytes * n_vectors)
        if part_bytes is None:
            limit = min(limit, units * _PART_TOKENS // max(1, tokens))
        for part in cut(path, settings.columns, max(1, limit)):
            first = n_records + part.first
            parts.append(part._replace(number=len(parts), first=first))
        n_records = parts[-1].first + parts[-1].n_records if parts else 0
    return parts
