"""A file to an output file: records in, activations out, checkpoints between."""

import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import ComputationError, OtherInputError, OutputError
from elmo_cli.file_settings import FileSettings
from elmo_cli.outputs.checkpoints import Checkpoints
from elmo_cli.outputs.output_formats import TEXT_FORMATS
from elmo_cli.outputs.output_path import check_output
from elmo_cli.outputs.output_size import (
    PACKED_RECORD_BYTES,
    RECORD_BYTES,
    RecordSize,
    check_room,
    count_input,
)
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.quantities import counted
from elmo_cli.text.lines import Record, Sentence
from elmo_cli.text.records import InputFormat, Place, RunInput, open_records

logger = logging.getLogger(__name__)

TEXT_VALUE_BYTES = 15
"""The most that a float32 takes as text, and what separates it from the next."""


class Embed(NamedTuple):
    """What turns a stream of sentences into activations, and can go on in the middle."""

    stream: Callable[[Iterable[Sentence]], Iterator[NDArray[Any] | ComputationError]]
    """The activations of each sentence, in order; an error for one that has none."""
    nothing: NDArray[Any]
    """Those of a sentence without tokens."""
    save: Callable[[int], dict[str, Any] | None]
    """What it takes to go on after so many sentences, JSON; None if it cannot go on there."""
    restore: Callable[[dict[str, Any]], None]
    """Go on from what `save` gave."""


def embed_file(
    embed: Embed,
    source: IO[str] | str | Path,
    output: str | Path,
    attributes: Mapping[str, str],
    settings: FileSettings,
    on_progress: Callable[[int, int | None], object],
    should_stop: Callable[[], bool],
) -> None:
    """Embed a file into an output file: see `ElmoEmbedder.embed_file`.

    Args:
        embed: sentences to activations.
        attributes: what the output says about its making.
    """
    pooled = "pooling" in attributes
    format_ = settings.check(source, output, pooled=pooled, state=attributes["state"])
    attributes = {**attributes, "format": format_.name}
    if settings.shard is not None:
        attributes["shard"] = str(settings.share)
    if isinstance(source, (str, Path)):
        check_output(output, overwrite=True, source=source)
    skip_errors = settings.skip_errors
    opened = open_records(
        source, format_, lambda n_bytes: on_progress(n_bytes, None), skip_errors=skip_errors
    )
    with opened as read, settings.open_output(output, attributes, format_) as writer:
        if settings.replaces and not _began_with(source, format_, writer, skip_errors=skip_errors):
            writer.clear()
        records = RunInput(read, settings.share)
        rest = _rest(embed, records, writer, format_.unit, append=settings.append)
        if rest is None:
            logger.info("%s is complete already", output)
            return
        _check_room(embed, source, format_, settings, writer)
        seconds = settings.checkpoint_seconds
        checkpoints = Checkpoints(writer, embed.save, format_.unit, seconds)
        with checkpoints.kept_on_failure():
            run(
                *(embed, rest, writer, checkpoints, format_),
                skip_errors=skip_errors,
                on_tokens=lambda n_tokens: on_progress(0, n_tokens),
                should_stop=should_stop,
            )
        checkpoints.finish(records.place)


def run(
    embed: Embed,
    records: Iterable[tuple[Record, Place]],
    writer: ActivationsWriter,
    checkpoints: Checkpoints,
    format_: InputFormat,
    *,
    skip_errors: bool = False,
    on_tokens: Callable[[int], object] = lambda n_tokens: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Embed records.

    Args:
        embed: sentences to activations.
        records: those that the writer does not have yet, each with where it ends.
        writer: an open output file; not finished here.
        checkpoints: made on the way.
        format_: of the input.
        skip_errors: note what is wrong with a record, and go on.
        on_tokens: told of each record that is written, by its tokens.
        should_stop: asked after each record; True makes a checkpoint and stops.

    Raises:
        StoppedError: it was told to stop.
        InputError: a record is at fault.
        ComputationError: memory does not suffice for a record.
    """
    pending: deque[tuple[Record, Place]] = deque()  # those that are read and not yet written
    for values in embed.stream(_sentences(records, pending)):
        record, place = pending.popleft()
        number = place.n_records
        if isinstance(values, ComputationError):
            fault = f"{format_.unit} {number:,}: {values}"
            if not skip_errors:
                raise ComputationError(fault)
            record, values = record._replace(fault=fault), embed.nothing
        if record.fault is not None:
            name = f"{format_.unit} {number}" if format_.has_keys else str(number - 1)
            checkpoints.skip(record.key or name, record.fault)
        if record.fault is None or record.key or not format_.has_keys:  # else it has no name
            writer.write(record, values)
        checkpoints.place = place
        on_tokens(len(record.tokens))
        checkpoints.make_if_due()
        if should_stop() and checkpoints.make():
            raise checkpoints.stopped()


def _rest(
    embed: Embed, records: RunInput, writer: ActivationsWriter, unit: str, *, append: bool
) -> Iterable[tuple[Record, Place]] | None:
    """The records that the writer does not have yet; None where its file is complete with all.

    Raises:
        OtherInputError: the input does not start with those that it has.
        OutputError: there are more than the finished file has, and it may not be continued.
    """
    if not writer.run_state:
        return records
    place = Place(*writer.run_state["place"])
    for record in records.skip_to(place.n_records):
        writer.skip(record)
    if records.place != place:
        is_of = "is complete, of" if writer.is_complete else "is of an unfinished run over"
        raise OtherInputError(
            f"{writer.path if writer.is_complete else writer.partial} {is_of} another input: its "
            f"first {place.n_records:,} {unit}s are not those of this one; --overwrite starts anew"
        )
    first = next(records, None)
    if first is None and (not writer.is_complete or records.place == place):
        return None if writer.is_complete else ()
    if writer.is_complete and not append:
        raise OutputError(
            f"{writer.path} exists already, of the first {counted(place.n_records, unit)} of this "
            "input; --append adds the others, --overwrite replaces it"
        )
    _restore(embed, writer)
    writer.open()
    logger.info("Going on after %s %s", unit, f"{place.n_records:,}")
    # Where only other shards have grown, there is nothing to embed but the end to note.
    return () if first is None else chain([first], records)


def _restore(embed: Embed, writer: ActivationsWriter) -> None:
    """Go on from the states in which the sentences that are written ended.

    Raises:
        OutputError: the file does not hold them, or they are damaged.
    """
    state = writer.run_state["embed"]
    if state is None:
        raise OutputError(
            f"{writer.path} is of --state carry and cannot be added to: it does not hold the "
            "states at its end; --overwrite embeds all lines anew"
        )
    try:
        embed.restore(state)
    except ValueError as error:
        raise OutputError(
            f"{writer.partial}.log: the states in it are damaged: {error}; remove it to start anew"
        ) from None


def _began_with(
    source: object, format_: InputFormat, writer: ActivationsWriter, *, skip_errors: bool
) -> bool:
    """Whether an unfinished run, if there is one, began with this input, as far as can be known."""
    if not writer.run_state:
        return True
    if not isinstance(source, (str, Path)) or not os.path.isfile(source):
        return False  # a stream can be read only once
    place = Place(*writer.run_state["place"])
    with open_records(source, format_, skip_errors=skip_errors) as records:
        found = RunInput(records)
        for _ in found.skip_to(place.n_records):
            pass
        return found.place == place


def _check_room(
    embed: Embed,
    source: object,
    format_: InputFormat,
    settings: FileSettings,
    writer: ActivationsWriter,
) -> None:
    """See `output_size.check_room`."""
    if not writer.can_go_on:  # a stream
        return
    form, shape = writer.form, list(embed.nothing.shape)
    if not form.pooled:
        del shape[-2]  # the axis of tokens
    as_text = form.file_format in TEXT_FORMATS
    value_bytes = TEXT_VALUE_BYTES if as_text else np.dtype(settings.dtype).itemsize
    # What is made of a packed file lies beside it in the end.
    n_bytes = math.prod(shape) * value_bytes * (2 if form.is_exported else 1)
    record_bytes = PACKED_RECORD_BYTES if form.is_packed else RECORD_BYTES
    size = RecordSize(
        token_bytes=0 if form.pooled else n_bytes,
        record_bytes=record_bytes + (n_bytes if form.pooled else 0),
        text_share=int(not form.forget_sentences),
    )
    check_room(
        writer.path,
        count_input(source, format_),
        size,
        share=1 / settings.share.total,
        n_bytes_there=0 if writer.is_complete else writer.partial.stat().st_size,
        is_bound=form.compression is not None or as_text,
    )


def _sentences(
    records: Iterable[tuple[Record, Place]], pending: deque[tuple[Record, Place]]
) -> Iterator[Sentence]:
    for record, place in records:
        pending.append((record, place))
        yield record.tokens
