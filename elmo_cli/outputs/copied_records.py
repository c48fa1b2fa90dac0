"""Records of finished files to another one, copied or linked, from where an earlier run stopped."""

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

from elmo_cli.errors import OutputError
from elmo_cli.outputs.checkpoints import CHECKPOINT_SECONDS, Checkpoints
from elmo_cli.outputs.reader import Activations, Array
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.text.lines import Record
from elmo_cli.text.records import Place

logger = logging.getLogger(__name__)

FoundRecord = tuple[Activations, Record, Array | None]
"""A record with the file that it is in, and its values if they were asked for."""


class Source(NamedTuple):
    """What records are of."""

    name: str
    """As messages have it."""
    mark: str
    """What tells it from any other, and from what it was before a change."""


def copy_records(
    found: Callable[[int], Iterator[FoundRecord]],
    writer: ActivationsWriter,
    source: Source,
    end: Mapping[str, str],
    *,
    overwrite: bool,
    should_stop: Callable[[], bool],
) -> None:
    """Write all records, or those that an earlier run over the same source left.

    Args:
        found: all records in their order, with values where so many first ones need none; those
            that have none after them are linked.
        writer: of the new file.
        source: what they are of.
        end: attributes that the new file has at its end.
        overwrite: forget an unfinished run over another source.
        should_stop: asked after each record.

    Raises:
        OutputError: there is an unfinished run over another source.
        StoppedError: it was told to stop.
    """
    n_kept = _kept(writer, source, overwrite=overwrite)
    checkpoints = Checkpoints(writer, lambda n_records: {}, "record", CHECKPOINT_SECONDS)
    for number, (file, record, values) in enumerate(found(n_kept), start=1):
        if number <= n_kept:
            writer.skip(record)
        else:
            if values is None:
                writer.link(record, file.path)
            else:
                writer.write(record, values)
            checkpoints.place = Place(number, source.mark)
            checkpoints.make_if_due()
        if should_stop() and checkpoints.make():
            raise checkpoints.stopped()
    writer.complete(_state(writer.n_records, source), end)


def _kept(writer: ActivationsWriter, source: Source, *, overwrite: bool) -> int:
    """How many records there are of an earlier run over the same source."""
    if writer.n_records and writer.run_state != _state(writer.n_records, source):
        if not overwrite:
            raise OutputError(
                f"{writer.partial} is of an unfinished run over something else than {source.name}, "
                "or that has changed since; --overwrite starts anew"
            )
        writer.clear()
    if writer.n_records:
        logger.info("Going on after record %s", f"{writer.n_records:,}")
    return writer.n_records


def _state(n_records: int, source: Source) -> dict[str, Any]:
    """What is said in checkpoints: as a run of `elmo embed` says it, over an input like no text."""
    return {"place": [n_records, source.mark], "embed": {}, "skipped": {}}


def records_of(
    file: Activations, n_without_values: int
) -> Iterator[tuple[Record, tuple[int, ...], Array | None]]:
    """The records of a file with their shapes, and the values of all but so many first ones."""
    return chain(
        ((record, shape, None) for record, shape in islice(file.forms(), n_without_values)),
        ((record, values.shape, values) for record, values in file.records(n_without_values)),
    )
