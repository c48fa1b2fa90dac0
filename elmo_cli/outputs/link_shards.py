"""A file of links to packed shards, in place of their values.

HDF5's virtual datasets: the rows, and the texts, of one shard after the other, of which it
keeps a note a shard. The records of the input are spread over all of them, so that offsets,
which end where the next record starts, cannot say where they are. In their place are

    ranges               (n, 2) int64: record i has the rows ranges[i, 0] to ranges[i, 1]
    sentence_ranges, key_ranges, attribute_ranges      likewise, of its texts
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate, islice
from pathlib import Path
from typing import Final

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ElmoError, InputError, OutputError
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.linked_files import RANGES
from elmo_cli.outputs.output_path import open_partial, output_error
from elmo_cli.outputs.packed_file import PREFIXES

ShardPlace = tuple[int, int]
"""Where a record is: in which shard, by its place among them, and its number there."""

_BLOCK_RECORDS: Final = 1 << 16


def link_packed(
    output: Path,
    shards: Sequence[Path],
    places: Iterable[ShardPlace],
    attributes: Mapping[str, str],
    *,
    overwrite: bool,
) -> None:
    """Write a file of links.

    Args:
        output: appears when it is complete.
        shards: whole ones, in their order.
        places: where each record is, in the order of the input; those of a shard in order.
        attributes: of the new file.
        overwrite: forget an unfinished run.

    Raises:
        InputError: the shards do not fit together.
        OutputError: it cannot be written, or there is an unfinished run.
    """
    sink = open_partial(output)
    assert isinstance(sink, CheckpointedFile)  # it is not standard output
    if sink.state is not None and not overwrite:
        sink.discard()
        raise OutputError(
            f"{sink.path} is of an unfinished run; --overwrite forgets what it has done"
        )
    try:
        sink.clear()
        _link_rows(sink, output, shards, places, attributes)
        if sink.error is not None:
            raise sink.error
        sink.checkpoint({})
        sink.finish(output)
    except ElmoError:
        raise
    except OSError as error:
        raise output_error(output, error) from None
    finally:
        if not sink.closed:
            sink.clear()
            sink.discard()


def _link_rows(
    sink: CheckpointedFile,
    output: Path,
    shards: Sequence[Path],
    places: Iterable[ShardPlace],
    attributes: Mapping[str, str],
) -> None:
    """Virtual datasets, and which of their rows each record has."""
    with ExitStack() as stack:
        made = stack.enter_context(h5py.File(sink, "w"))
        made.attrs.update(attributes)
        files = [stack.enter_context(h5py.File(path, "r")) for path in shards]
        # Relative, so that all can move together.
        paths = [os.path.relpath(path, output.parent) for path in shards]
        n_records, rest = int(attributes["records"]), iter(places)
        ranges = {}
        for name, prefix in PREFIXES.items():
            if not prefix or any(name in file for file in files):
                starts = _link_one(made, name, files, paths)
                dataset = made.create_dataset(f"{prefix}{RANGES}", (n_records, 2), np.int64)
                ranges[prefix] = dataset, starts
        for start in range(0, n_records, _BLOCK_RECORDS):
            block = np.array(list(islice(rest, _BLOCK_RECORDS)), np.int64)
            for prefix, (dataset, starts) in ranges.items():
                dataset[start : start + len(block)] = _ranges(prefix, files, starts, block)


def _link_one(
    made: h5py.File, name: str, shards: Sequence[h5py.File], paths: Sequence[str]
) -> list[int]:
    """Make one virtual dataset of those of all shards; the row where each of them starts in it.

    Raises:
        InputError: their rows have not the same shape.
    """
    found = {path: shard[name] for path, shard in zip(paths, shards, strict=True) if name in shard}
    forms = {(rows.shape[1:], rows.dtype): path for path, rows in found.items()}
    if len(forms) > 1:
        one, other, *_ = forms.values()
        raise InputError(f"{other} does not fit to {one}: their {name} are of different shapes")
    starts = [0, *accumulate(len(found[path]) if path in found else 0 for path in paths)]
    for shape, dtype in forms:
        layout = h5py.VirtualLayout((starts[-1], *shape), dtype)
        for path, start in zip(paths, starts, strict=False):
            if path in found and len(found[path]):
                rows = found[path]
                source = h5py.VirtualSource(path, name, rows.shape, rows.dtype)
                layout[start : start + len(rows)] = source
        if starts[-1]:
            made.create_virtual_dataset(name, layout)
        else:
            made.create_dataset(name, (0, *shape), dtype)
    return starts


def _ranges(
    prefix: str,
    shards: Sequence[h5py.File],
    starts: Sequence[int],
    places: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The first row of each record and the one after its last, (records, 2)."""
    ranges = np.zeros((len(places), 2), np.int64)
    for which, shard in enumerate(shards):
        has = places[:, 0] == which
        if has.any() and f"{prefix}offsets" in shard:
            first, last = places[has, 1][[0, -1]]  # and all between, in their order
            ends = shard[f"{prefix}offsets"][first : last + 2] + starts[which]
            ranges[has] = np.stack([ends[:-1], ends[1:]], axis=1)
    return ranges
