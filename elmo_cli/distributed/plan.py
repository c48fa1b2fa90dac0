"""The plan of a folder: its parts and settings, fixed by the first run."""

import json
import os
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

import torch

import elmo_cli
from elmo_cli.distributed.inputs import Columns, Input, Part, cut, find_inputs
from elmo_cli.errors import OutputError, check_choice, shown
from elmo_cli.inference.selection import Selection, select
from elmo_cli.model.options import ModelOptions, read_options, start_of_sentences
from elmo_cli.outputs.formats import DTYPES
from elmo_cli.outputs.parts import PLAN, Folder
from elmo_cli.outputs.writer import differences
from elmo_cli.pretrained.loading import choose_model
from elmo_cli.pretrained.model_files import ModelFiles, content_sha256
from elmo_cli.pretrained.registry import published_model
from elmo_cli.text.tokenizers import make_tokenizer

_PART_MB: Final = 1000.0
"""Size of a part, before compression."""
_PART_TOKENS: Final = 1_000_000
"""The maximum number of tokens in a part, unless its size is given: what a worker's death costs."""
_TOKEN_BYTES: Final = 6
"""Of text, about, with the space; of a residue 1."""
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

    def for_workers(self, files: ModelFiles) -> "Settings":
        """The same with absolute paths, for workers run elsewhere, in another folder.

        Args:
            files: of the model; a published one keeps its name, by which workers find it.
        """

        def absolute(path: str | None) -> str | None:
            if path is None or published_model(path) is not None or not os.path.exists(path):
                return path
            return os.path.abspath(path)

        return replace(
            self,
            model=absolute(files.name if self.options_file is None else self.model),
            options_file=absolute(self.options_file),
            weight_file=absolute(self.weight_file),
            vocabulary_file=absolute(self.vocabulary_file),
        )


class Plan(NamedTuple):
    """The parts of a folder."""

    settings: dict[str, str]
    """What the values depend on; other settings are refused."""
    inputs: list[Input]
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
    files = choose_model(
        *(settings.model, settings.options_file, settings.weight_file, settings.vocabulary_file)
    )
    options = read_options(files.options)
    values = _recorded(settings, files, options)
    if overwrite:
        folder.clear()
    stored = read_plan(folder)
    if stored is not None:
        _check_same(folder, stored, values, inputs)
        return stored
    if {*folder.names()} - {"_elmo"}:  # which a run has begun that had no plan yet
        raise OutputError(
            f"{folder.location}: expected a folder of `elmo distribute`, or an empty one, "
            "found other files in it"
        )
    n_tokens = _tokens_per_part(settings, options, part_mb)
    plan = Plan(values, inputs, _parts(inputs, settings, n_tokens))
    content = {**plan._asdict(), "parts": [part._asdict() for part in plan.parts]}
    folder.write(PLAN, content)
    return plan


def read_plan(folder: Folder) -> Plan | None:
    """The plan of a folder, if it has one."""
    found = folder.read(PLAN)
    if found is None:
        return None
    inputs = [Input(*each) for each in found["inputs"]]
    return Plan(found["settings"], inputs, [Part(**each) for each in found["parts"]])


def _recorded(settings: Settings, files: ModelFiles, options: ModelOptions) -> dict[str, str]:
    """What the values of a folder depend on, as attributes."""
    values = {
        "model": files.name,
        "model_sha256": content_sha256(files),
        "options": json.dumps(asdict(options)),
        **settings.selection(options.n_layers).attributes(),
        "state": settings.state or start_of_sentences(files.options),
        "elmo_cli_version": elmo_cli.__version__,
    }
    own = ("precision", "dtype", "text_column", "key_column", "skip_errors")
    chosen = asdict(settings)
    values |= make_tokenizer(settings.tokenizer).settings()
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


def _tokens_per_part(settings: Settings, options: ModelOptions, part_mb: float | None) -> float:
    """How many tokens give a part of the size that is wanted, about."""
    selection = replace(settings.selection(options.n_layers), pooling="mean")
    vector = selection.empty(options.n_layers, options.width, torch.device("cpu"))
    vector_bytes = vector.numel() * (2 if settings.dtype == "float16" else 4)
    n_vectors = (part_mb or _PART_MB) * 1e6 / vector_bytes
    n_tokens = n_vectors * (_RECORD_TOKENS if settings.pooling else 1)
    return n_tokens if part_mb else min(n_tokens, _PART_TOKENS)


def _parts(inputs: list[Input], settings: Settings, n_tokens: float) -> list[Part]:
    parts: list[Part] = []
    n_records = 0
    for path, _, _ in inputs:
        token_bytes = 1 if settings.format_of(path) == "fasta" else _TOKEN_BYTES
        n_before = n_records
        for part in cut(path, settings, max(1, int(n_tokens * token_bytes))):
            parts.append(part._replace(number=len(parts), first=n_before + part.first))
            n_records += part.n_records
    return parts
