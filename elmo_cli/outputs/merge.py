"""The outputs of all shards of an input to one, as if it had not been shared out."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any

from elmo_cli.errors import InputError, OutputError, shown
from elmo_cli.outputs.activations import ActivationsWriter
from elmo_cli.outputs.finished_output import end_attributes, state_at_end
from elmo_cli.outputs.form import LAYOUTS
from elmo_cli.outputs.output_formats import STANDARD_OUTPUT, find_output_format
from elmo_cli.outputs.output_path import check_output
from elmo_cli.outputs.reader import Activations, Array, open_activations
from elmo_cli.run_input import Place, hashed_text
from elmo_cli.shard import shard_of
from elmo_cli.text import Record

_Found = tuple[Activations, Record, Array | None]

_SHOWN = 5

_WRITERS_OWN: dict[str, tuple[str, ...]] = {
    "layout": LAYOUTS,
    "compression": (),
    "dtype": ("float32", "float16"),
    "sentence_keys": ("True", "False"),
    "forget_sentences": ("True", "False"),
}
"""Attributes that a writer sets by its arguments, and what they may say if not anything."""


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
        files = _in_order([stack.enter_context(_open_shard(path)) for path in shards])
        attributes = _settings(files[0])
        if link and (files[0].layout != "allennlp" or attributes["sentence_keys"] == "True"):
            raise InputError(
                "--link goes with --layout allennlp and without --use-sentence-keys; "
                "leave it out to copy the shards"
            )
        end = _end(files)
        with _writer(output, attributes, overwrite=overwrite) as writer:
            if overwrite:
                writer.clear()
            if writer.n_records:  # a merge makes no checkpoints
                raise OutputError(
                    f"{writer.partial} is of an unfinished run; --overwrite forgets what it has "
                    "done"
                )
            for file, record, values in _records(files, link=link):
                if values is None:
                    writer.link(record, file.path)
                else:
                    writer.write(record, values)
            writer.complete({}, end)
    return int(end["records"])


def _writer(output: Path, attributes: Mapping[str, str], *, overwrite: bool) -> ActivationsWriter:
    return ActivationsWriter(
        output,
        {name: value for name, value in attributes.items() if name not in _WRITERS_OWN},
        dtype=attributes["dtype"],
        forget_sentences=attributes["forget_sentences"] == "True",
        use_sentence_keys=attributes["sentence_keys"] == "True",
        layout=attributes["layout"],
        compression=attributes.get("compression"),
        overwrite=overwrite,
    )


def _open_shard(path: str | Path) -> Activations:
    if not os.path.exists(path) and os.path.exists(f"{path}.partial"):
        raise InputError(f"{path}: its run is not finished; give its command again")
    activations = open_activations(path)
    state = state_at_end(activations.attributes)
    if "shard" not in activations.attributes or state is None:
        activations.close()
        raise InputError(f"{path}: expected a shard, as `elmo embed --shard` writes it")
    for name, values in _WRITERS_OWN.items():
        found = state["settings"].get(name)
        if values and found not in values:
            activations.close()
            raise InputError(
                f"{path}: the file is damaged: expected its {name} to be {' or '.join(values)}, "
                f"found {shown(found)}"
            )
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
    n_missing = total - len(by_number)
    if n_missing:
        missing = (f"{number}/{total}" for number in range(1, total + 1) if number not in by_number)
        more = f" and {n_missing - _SHOWN:,} more" if n_missing > _SHOWN else ""
        raise InputError(
            f"expected {total:,} shards, found {len(files):,}: without "
            f"{', '.join(islice(missing, _SHOWN))}{more}"
        )
    return [by_number[number] for number in sorted(by_number)]


def _differences(one: Activations, other: Activations) -> str:
    """What two shards should have in common and have not."""
    there, here = ({**_settings(file), **_common(file)} for file in (one, other))
    return ", ".join(
        f"{name} is {shown(here.get(name))}, not {shown(there.get(name))}"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    )


def _settings(file: Activations) -> dict[str, str]:
    """What a shard says of its making, apart from which one it is."""
    return {name: value for name, value in _state(file)["settings"].items() if name != "shard"}


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
        InputError: a shard holds not as many records as its share of the input has.
    """
    place = Place(*_state(files[0])["run"]["place"])
    skipped: dict[str, str] = {}
    n_records = 0
    for file in files:
        state, shard = _state(file), shard_of(file.attributes)
        own = state["run"]["skipped"]
        share = range(shard.number - 1, place.n_records, shard.total)
        n_expected = len(share) - len([n for n in _nameless(own) if n in share])
        if state["n_records"] != n_expected:
            raise InputError(
                f"{file.path}: the file is damaged: it says that it holds {state['n_records']:,} "
                f"records, of {n_expected:,} of its share of the input"
            )
        skipped.update(own)
        n_records += n_expected
    return end_attributes(n_records, place, skipped)


def _state(file: Activations) -> dict[str, Any]:
    state = state_at_end(file.attributes)
    assert state is not None  # or it would not have been opened
    return state


def _nameless(skipped: Mapping[str, Any]) -> set[int]:
    """The numbers of records that were skipped and are in no file."""
    found = (re.fullmatch(r"sequence ([1-9]\d{0,17})", name, re.ASCII) for name in skipped)
    return {int(match[1]) - 1 for match in found if match}


def _records(files: list[Activations], *, link: bool) -> Iterator[_Found]:
    """The records of all shards, in the order of the input where the shards have one.

    Each with its file and its values; None for these to `link`.

    Raises:
        InputError: a shard is damaged.
    """
    attributes = files[0].attributes
    streams = [_checked(file, link=link) for file in files]
    is_packed, is_text = files[0].layout == "packed", attributes["format"] == "text"
    if attributes["sentence_keys"] == "True" or not (is_packed or is_text):
        yield from chain.from_iterable(streams)
        return
    has_texts = is_packed and is_text and attributes["forget_sentences"] != "True"
    digest = hashlib.sha256()
    for found in _in_turn(files, streams):
        digest.update(hashed_text(found[1].text))
        yield found
    if has_texts and digest.hexdigest() != attributes["input_sha256"]:
        names = ", ".join(str(file.path) for file in files[:_SHOWN])
        raise InputError(
            f"{names}: a file is damaged: the sentences of all shards are not the input that they "
            "are of"
        )


def _in_turn(files: list[Activations], streams: list[Iterator[_Found]]) -> Iterator[_Found]:
    nameless = set().union(*(_nameless(_state(file)["run"]["skipped"]) for file in files))
    for number in range(Place(*_state(files[0])["run"]["place"]).n_records):
        if number not in nameless:
            yield next(streams[number % len(streams)])


def _checked(file: Activations, *, link: bool) -> Iterator[_Found]:
    """The records of a shard that are what it says."""
    state = _state(file)
    dtype, skipped = state["settings"]["dtype"], state["run"]["skipped"]
    has_tokens = file.attributes["format"] == "text" and "pooling" not in file.attributes
    if len(file) and file.dtype != dtype:
        raise InputError(f"{file.path}: the file is damaged: expected {dtype}, found {file.dtype}")
    found: Iterator[tuple[Record, tuple[int, ...], Array | None]] = (
        ((record, shape, None) for record, shape in file.forms())
        if link
        else ((record, values.shape, values) for record, values in file.records())
    )
    for number, (record, shape, values) in enumerate(found):
        place = shard_of(file.attributes).place(number)
        n_tokens = 0 if str(place) in skipped else len(record.tokens)
        if has_tokens and record.text and shape[-2] != n_tokens:
            raise InputError(
                f"{file.path}: the file is damaged: expected {n_tokens:,} tokens for "
                f"line {place + 1:,}, found {shape[-2]:,}"
            )
        yield file, record, values
