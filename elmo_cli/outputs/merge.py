"""The outputs of all shards of an input to one, as if it had not been shared out."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from elmo_cli.atomic import check_output
from elmo_cli.errors import InputError, OutputError, StoppedError
from elmo_cli.outputs.formats import STANDARD_OUTPUT, choose_output_format, format_of
from elmo_cli.outputs.reader import Activations, check_same, check_shards, open_activations
from elmo_cli.outputs.writer import ActivationsWriter, end_attributes, settings_of
from elmo_cli.text.records import Place

_OF_SHARDS: Final = {"shard", "records", "input_records", "input_sha256"}
"""Attributes that every shard has."""
_OWN: Final = {"shard", "records", "skipped", "model"}
"""Those in which shards of one input may differ."""


def merge_shards(
    output: str | Path,
    shards: Sequence[str | Path],
    *,
    overwrite: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Copy the outputs of `elmo embed --shard` to one file, a few MB in memory at a time.

    Args:
        output: appears when it is complete; HDF5, as the shards are.
        shards: all of them, in any order.
        overwrite: replace an output that is there.
        should_stop: asked after each record; True ends it, and nothing is written.

    Returns:
        The number of records.

    Raises:
        InputError: a shard is missing, is there twice or is none, or they do not fit together.
        OutputError: the output is there already or cannot be written.
        StoppedError: it was told to stop.
    """
    if str(output) == STANDARD_OUTPUT or choose_output_format(output, pooled=True).name != "hdf5":
        raise InputError(f"{output}: expected a file of HDF5, as the shards are")
    for path in shards:
        check_output(output, overwrite=overwrite, source=path)
    with open_activations(*shards) as activations:
        _check_shards(activations)
        settings = settings_of(activations.attributes)
        settings.pop("shard")
        with ActivationsWriter(
            output, format_of(settings), settings, overwrite=overwrite
        ) as writer:
            if writer.run_state and not overwrite:
                raise OutputError(
                    f"{writer.partial} is of an unfinished run; --overwrite starts anew"
                )
            writer.clear()
            for record, values in activations.records():
                if should_stop():
                    raise StoppedError("Stopped; nothing is written")
                writer.write(record, values)
            writer.finish({}, _end(activations, writer.n_records))
            return writer.n_records


def _check_shards(activations: Activations) -> None:
    """Raise an `InputError` unless all files are shards of the same input and settings."""
    if not set(activations.attributes) >= _OF_SHARDS:
        raise InputError(
            f"{activations.paths[0]}: expected a shard, as `elmo embed --shard` writes it"
        )
    check_shards(activations)
    names = set[str]().union(*activations.attributes_of_files)
    check_same(activations, sorted(names - _OWN))


def _end(activations: Activations, n_records: int) -> dict[str, str]:
    """What is known at the end of the whole input."""
    attributes = activations.attributes
    place = Place(int(attributes["input_records"]), attributes["input_sha256"])
    skipped: dict[str, str] = {}
    for found in activations.attributes_of_files:
        skipped |= json.loads(found.get("skipped", "{}"))
    return end_attributes(n_records, place, skipped, has_keys="keys" in attributes)
