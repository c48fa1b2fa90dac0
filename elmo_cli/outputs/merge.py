"""The outputs of all shards of an input to one, as if it had not been shared out."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from elmo_cli.errors import InputError, OutputError
from elmo_cli.outputs.activations import ActivationsWriter
from elmo_cli.outputs.allennlp_layout import link_datasets
from elmo_cli.outputs.finished_output import end_attributes, state_at_end
from elmo_cli.outputs.output_formats import STANDARD_OUTPUT, find_output_format
from elmo_cli.outputs.output_path import check_output
from elmo_cli.outputs.reader import Activations, Array, open_activations
from elmo_cli.run_input import Place
from elmo_cli.shard import shard_of
from elmo_cli.text import Record

_SHOWN = 5

_WRITERS_OWN = ("layout", "compression", "dtype", "sentence_keys", "forget_sentences")
"""Attributes that a writer sets by its arguments."""


def merge_shards(
    output: str | Path,
    shards: Sequence[str | Path],
    *,
    link: bool = False,
    overwrite: bool = False,
) -> int:
    """Put the outputs of `elmo embed --shard` together, a record in memory at a time.

    Args:
        output: appears when it is complete.
        shards: the outputs, all of them, in any order.
        link: write links to the shards, which have to stay where they are from there, and
            not their values; AllenNLP's layout only.
        overwrite: replace an output that is there.

    Returns:
        The number of records.

    Raises:
        InputError: a shard is missing, is there twice or is none, or they do not fit together;
            or the name of the output asks for another format than HDF5.
        OutputError: the output is there already or cannot be written.
    """
    output = Path(output)
    if str(output) == STANDARD_OUTPUT or find_output_format(output, pooled=True) != "hdf5":
        raise InputError(
            f"{output}: shards are merged to a file of HDF5; `elmo convert` makes other formats of "
            "it"
        )
    for path in shards:
        check_output(output, overwrite=overwrite, source=path)
    with ExitStack() as stack:
        opened = [stack.enter_context(_open_shard(path)) for path in shards]
        files = _in_order(opened)
        attributes = _settings(files[0])
        end = _end(files)
        if link:
            if files[0].layout != "allennlp" or attributes["sentence_keys"] == "True":
                raise InputError(
                    "--link goes with --layout allennlp and without --use-sentence-keys; "
                    "leave it out to copy the shards"
                )
            try:
                link_datasets(output, [file.path for file in files], {**attributes, **end})
            except OSError as error:
                raise OutputError(f"{output}: cannot write the output: {error.strerror}") from None
        else:
            _copy(output, files, attributes, end, overwrite=overwrite)
    return int(end["records"])


def _copy(
    output: Path,
    files: list[Activations],
    attributes: Mapping[str, str],
    end: Mapping[str, str],
    *,
    overwrite: bool,
) -> None:
    writer = ActivationsWriter(
        output,
        {name: value for name, value in attributes.items() if name not in _WRITERS_OWN},
        dtype=attributes["dtype"],
        forget_sentences=attributes["forget_sentences"] == "True",
        use_sentence_keys=attributes["sentence_keys"] == "True",
        layout=attributes["layout"],
        compression=attributes.get("compression"),
        overwrite=overwrite,
    )
    with writer:
        if overwrite:
            writer.clear()
        if writer.n_records:  # a merge makes no checkpoints
            raise OutputError(
                f"{writer.partial} is of an unfinished run; --overwrite forgets what it has done"
            )
        for record, values in _records(files, attributes, end):
            writer.write(record, values)
        writer.complete({}, end)


def _open_shard(path: str | Path) -> Activations:
    if not os.path.exists(path) and os.path.exists(f"{path}.partial"):
        raise InputError(f"{path}: its run is not finished; give its command again")
    activations = open_activations(path)
    if "shard" not in activations.attributes or state_at_end(activations.attributes) is None:
        activations.close()
        raise InputError(f"{path}: expected a shard, as `elmo embed --shard` writes it")
    return activations


def _in_order(files: list[Activations]) -> list[Activations]:
    """The shards by their numbers: all of them are there, once, and of the same making."""
    first = files[0]
    by_number: dict[int, Activations] = {}
    for file in files:
        differences = _differences(first, file)
        if differences:
            raise InputError(f"{file.path} does not fit to {first.path}: {differences}")
        twin = by_number.setdefault(shard_of(file.attributes).number, file)
        if twin is not file:
            shard = file.attributes["shard"]
            raise InputError(f"{file.path}: shard {shard} is there already, as {twin.path}")
    total = shard_of(first.attributes).total
    missing = [f"{number}/{total}" for number in range(1, total + 1) if number not in by_number]
    if missing:
        more = f" and {len(missing) - _SHOWN:,} more" if len(missing) > _SHOWN else ""
        raise InputError(
            f"expected {total:,} shards, found {len(files):,}: without "
            f"{', '.join(missing[:_SHOWN])}{more}"
        )
    return [by_number[number] for number in sorted(by_number)]


def _differences(one: Activations, other: Activations) -> str:
    """What two shards should have in common and have not."""
    there, here = ({**_settings(file), **_common(file)} for file in (one, other))
    return ", ".join(
        f"{name} is {here.get(name)}, not {there.get(name)}"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    )


def _settings(file: Activations) -> dict[str, str]:
    """What a shard says of its making, apart from which one it is."""
    state = state_at_end(file.attributes)
    assert state is not None  # or it would not have been opened
    return {name: value for name, value in state["settings"].items() if name != "shard"}


def _common(file: Activations) -> dict[str, str]:
    """What else all shards of an input have in common."""
    total = str(shard_of(file.attributes).total)
    return {
        "number of shards": total,
        **{name: str(file.attributes[name]) for name in ("input_records", "input_sha256")},
    }


def _end(files: list[Activations]) -> dict[str, str]:
    """The attributes that the one output has at its end.

    Raises:
        InputError: the shards hold not as many records as the input.
    """
    states = [state_at_end(file.attributes) for file in files]
    skipped: dict[str, str] = {}
    n_records = 0
    for state in states:
        assert state is not None
        skipped.update(state["run"]["skipped"])
        n_records += state["n_records"]
    place = Place(*states[0]["run"]["place"]) if states[0] else Place(0, "")
    n_expected = place.n_records - len(_nameless(skipped))
    if n_records != n_expected:
        raise InputError(f"the shards hold {n_records:,} records, of {n_expected:,} of their input")
    return end_attributes(n_records, place, skipped)


def _nameless(skipped: Mapping[str, Any]) -> set[int]:
    """The numbers of records that were skipped and are in no file."""
    return {int(name.split()[1]) - 1 for name in skipped if name.startswith("sequence ")}


def _records(
    files: list[Activations], attributes: Mapping[str, str], end: Mapping[str, str]
) -> Iterator[tuple[Record, Array]]:
    """The records of all shards, in the order of the input where the shards have one."""
    streams = [file.records() for file in files]
    has_order = attributes["sentence_keys"] != "True" and (
        attributes["layout"] == "packed" or not files[0].has_keys
    )
    if not has_order:
        yield from chain.from_iterable(streams)
        return
    nameless = _nameless(json.loads(end.get("skipped", "{}")))
    for number in range(int(end["input_records"])):
        if number not in nameless:
            yield next(streams[number % len(streams)])
