"""The outputs of all shards of an input to one, as if it had not been shared out."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from elmo_cli.atomic import check_output
from elmo_cli.errors import InputError, OutputError, StoppedError
from elmo_cli.outputs.formats import STANDARD_OUTPUT, OutputFormat, choose_output_format
from elmo_cli.outputs.reader import Activations, check_same, check_shards, open_activations
from elmo_cli.outputs.writer import ActivationsWriter, end_attributes, settings_of
from elmo_cli.text.records import Place

_OWN: Final = {"shard", "records", "skipped", "model"}
"""Attributes in which shards of one input may differ."""


def merge_shards(
    output: str | Path,
    shards: Sequence[str | Path],
    *,
    overwrite: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Copy the outputs of `elmo embed --shard`, in any order, to one file of HDF5.

    Args:
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
        del settings["shard"]
        output_format = OutputFormat(
            layout=settings["layout"],
            compression=settings.get("compression"),
            dtype=settings["dtype"],
            pooled="pooling" in settings,
            forget_sentences=settings["forget_sentences"] == "True",
            use_sentence_keys=settings["sentence_keys"] == "True",
        )
        with ActivationsWriter(output, output_format, settings, overwrite=overwrite) as writer:
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
    files = activations.files
    if not {"shard", "records", "input_records", "input_sha256"} <= set(activations.attributes):
        raise InputError(f"{files[0].path}: expected a shard, as `elmo embed --shard` writes it")
    check_shards(files)
    check_same(files, sorted(set[str]().union(*(file.attributes for file in files)) - _OWN))


def _end(activations: Activations, n_records: int) -> dict[str, str]:
    """What is known at the end of the whole input."""
    attributes = activations.attributes
    place = Place(int(attributes["input_records"]), attributes["input_sha256"])
    skipped: dict[str, str] = {}
    for file in activations.files:
        skipped |= json.loads(file.attributes.get("skipped", "{}"))
    return end_attributes(n_records, place, skipped, has_keys="keys" in attributes)
