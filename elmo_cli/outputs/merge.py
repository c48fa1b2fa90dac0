"""The outputs of all shards of an input to one, as if it had not been shared out."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

from elmo_cli.errors import InputError, StoppedError, shown
from elmo_cli.outputs.copied_records import Source, copy_records
from elmo_cli.outputs.finished_output import end_attributes, state_at_end
from elmo_cli.outputs.form import LAYOUTS
from elmo_cli.outputs.link_shards import ShardPlace, link_packed
from elmo_cli.outputs.output_formats import DTYPES, STANDARD_OUTPUT, find_output_format
from elmo_cli.outputs.output_path import check_output
from elmo_cli.outputs.reader import Activations, open_activations
from elmo_cli.outputs.shard_records import nameless, shard_records, state_of, turns
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.text.records import Place, shard_of

_SHOWN: Final = 5

_WRITERS_OWN: dict[str, tuple[str, ...]] = {
    "layout": LAYOUTS,
    "compression": (),
    "dtype": DTYPES,
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
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Put the outputs of `elmo embed --shard` together, a few MB in memory at a time.

    What was stopped, or killed, goes on from its last checkpoint; links to packed shards,
    which are written at once, start anew.

    Args:
        output: appears when it is complete.
        shards: the outputs, all of them, in any order.
        link: write links to the shards, which have to stay as they are, and where they are
            from there, and not their values.
        overwrite: replace an output that is there.
        should_stop: asked after each record.

    Returns:
        The number of records.

    Raises:
        InputError: a shard is missing, is there twice or is none, or they do not fit together;
            or the name of the output asks for another format than HDF5.
        OutputError: the output is there already or cannot be written.
        StoppedError: it was told to stop.
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
        if link and attributes["sentence_keys"] == "True":
            raise InputError("--link goes without --use-sentence-keys; leave it out to copy")
        end = _end(files)
        if link and files[0].layout == "packed":
            places = _linked_places(files, should_stop)
            paths, made = [file.path for file in files], {**attributes, **end}
            link_packed(output, paths, places, made, overwrite=overwrite)
        else:
            kind = f"{'links to' if link else 'copies of'} {len(files)} shards"
            source = Source("these shards", f"{kind} of {end['input_sha256']}")
            n_linked = int(end["records"]) if link else 0
            with _writer(output, attributes, overwrite=overwrite) as writer:
                copy_records(
                    lambda n_kept: shard_records(files, n_without_values=max(n_kept, n_linked)),
                    *(writer, source, end),
                    overwrite=overwrite,
                    should_stop=should_stop,
                )
    return int(end["records"])


def _linked_places(
    files: list[Activations], should_stop: Callable[[], bool]
) -> Iterator[ShardPlace]:
    """Where each record is, which is checked."""
    n_given = [0] * len(files)
    checked = shard_records(files, n_without_values=sum(map(len, files)))
    for which, _ in zip(turns(files), checked, strict=True):
        if should_stop():
            raise StoppedError("Stopped; nothing is written")
        yield which, n_given[which]
        n_given[which] += 1


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
    return {name: value for name, value in state_of(file)["settings"].items() if name != "shard"}


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
    place = Place(*state_of(files[0])["run"]["place"])
    skipped: dict[str, str] = {}
    n_records = 0
    for file in files:
        state, shard = state_of(file), shard_of(file.attributes)
        own = state["run"]["skipped"]
        share = range(shard.number - 1, place.n_records, shard.total)
        n_expected = len(share) - len([n for n in nameless(own) if n in share])
        if state["n_records"] != n_expected:
            raise InputError(
                f"{file.path}: the file is damaged: it says that it holds {state['n_records']:,} "
                f"records, of {n_expected:,} of its share of the input"
            )
        skipped.update(own)
        n_records += n_expected
    return end_attributes(n_records, place, skipped)
