"""The outputs of all shards of an input to one, as if it had not been shared out."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from elmo_cli.atomic import check_output
from elmo_cli.errors import InputError, OutputError, StoppedError, shown
from elmo_cli.outputs.formats import STANDARD_OUTPUT, OutputFormat, choose_output_format
from elmo_cli.outputs.reader import Activations, open_activations
from elmo_cli.outputs.writer import ActivationsWriter, end_attributes, settings_of
from elmo_cli.text.records import Place


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
        shards: the outputs, all of them, in any order.
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
        if not os.path.exists(path) and os.path.exists(f"{path}.partial"):
            raise InputError(f"{path}: its run is not finished; give its command again")
    settings, end = _checked(shards)
    attributes = {name: value for name, value in settings.items() if name != "shard"}
    with (
        open_activations(*shards) as activations,
        ActivationsWriter(
            output, _output_format(attributes), attributes, overwrite=overwrite
        ) as writer,
    ):
        if writer.run_state and not overwrite:
            raise OutputError(f"{writer.partial} is of an unfinished run; --overwrite starts anew")
        writer.clear()
        for record, values in activations.records():
            if should_stop():
                raise StoppedError("Stopped; nothing is written")
            writer.write(record, values)
        place = Place(int(end["input_records"]), end["input_sha256"])
        writer.finish({}, end_attributes(writer.n_records, place, json.loads(end["skipped"])))
        return writer.n_records


def _checked(shards: Sequence[str | Path]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that all shards share, and what is known at their end.

    Raises:
        InputError: one is no shard, or they differ.
    """
    settings: dict[str, str] = {}
    end: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for path in shards:
        with open_activations(path) as shard:
            found = _common(shard, path)
            skipped |= json.loads(shard.attributes.get("skipped", "{}"))
            settings = settings or settings_of(shard.attributes)
        end = end or found
        differing = [name for name in {*end, *found} if end.get(name) != found.get(name)]
        if differing:
            name = min(differing)
            raise InputError(
                f"{path} does not fit to {shards[0]}: {name} is {shown(found.get(name))}, not "
                f"{shown(end.get(name))}"
            )
    return settings, {**end, "skipped": json.dumps(skipped)}


def _common(shard: Activations, path: str | Path) -> dict[str, str]:
    """What all shards of an input have in common.

    Raises:
        InputError: it is no shard.
    """
    found = {name: str(value) for name, value in shard.attributes.items()}
    if not {"shard", "records", "input_records", "input_sha256"} <= set(found):
        raise InputError(f"{path}: expected a shard, as `elmo embed --shard` writes it")
    own = ("shard", "records", "skipped", "model")
    return {name: value for name, value in found.items() if name not in own}


def _output_format(settings: dict[str, str]) -> OutputFormat:
    return OutputFormat(
        layout=settings["layout"],
        compression=settings.get("compression"),
        dtype=settings["dtype"],
        pooled="pooling" in settings,
        forget_sentences=settings["forget_sentences"] == "True",
        use_sentence_keys=settings["sentence_keys"] == "True",
    )
