"""A file to an output file: records in, activations out, checkpoints between."""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from numpy.typing import NDArray

from elmo_cli.activations import ActivationsWriter, check_output
from elmo_cli.errors import InputError, StoppedError
from elmo_cli.records import find_format, open_records
from elmo_cli.text import Record, Sentence

CHECKPOINT_SECONDS = 30.0
"""How much work an end without warning can cost."""


class Embed(NamedTuple):
    """What turns a stream of sentences into activations, and can go on in the middle."""

    stream: Callable[[Iterable[Sentence]], Iterator[NDArray[Any]]]
    """The activations of each sentence, in order."""
    save: Callable[[int], dict[str, Any] | None]
    """What it takes to go on after so many sentences, JSON; None if it cannot go on there."""
    restore: Callable[[dict[str, Any]], None]
    """Go on from what `save` gave."""


def embed_file(
    embed: Embed,
    source: IO[str] | str | Path,
    output: str | Path,
    attributes: Mapping[str, str],
    *,
    input_format: str | None,
    dtype: str,
    forget_sentences: bool,
    use_sentence_keys: bool,
    overwrite: bool,
    checkpoint_seconds: float,
    on_progress: Callable[[int, int | None], object],
    should_stop: Callable[[], bool],
) -> None:
    """Embed a file into an HDF5 file: see `ElmoEmbedder.embed_file`.

    Args:
        embed: sentences to activations.
        attributes: what the output says about its making.
    """
    format_ = find_format(source, input_format)
    format_.check_sentence_keys(use_sentence_keys)
    with open_records(source, format_, lambda n_bytes: on_progress(n_bytes, None)) as records:
        if isinstance(source, (str, Path)):
            check_output(output, overwrite=overwrite, source=source)
        writer = ActivationsWriter(
            output,
            {**attributes, "format": format_.name},
            dtype=dtype,
            forget_sentences=forget_sentences or format_.has_keys,
            use_sentence_keys=use_sentence_keys,
            overwrite=overwrite,
        )
        with writer:
            run(
                embed,
                records,
                writer,
                unit=format_.unit,
                checkpoint_seconds=checkpoint_seconds,
                on_tokens=lambda n_tokens: on_progress(0, n_tokens),
                should_stop=should_stop,
            )


def run(
    embed: Embed,
    records: Iterable[Record],
    writer: ActivationsWriter,
    *,
    unit: str,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    on_tokens: Callable[[int], object] = lambda n_tokens: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Embed the records that the writer does not have yet.

    Args:
        embed: sentences to activations.
        records: the input, from its start.
        writer: an open output file; not finished here.
        unit: what messages call a record.
        checkpoint_seconds: between checkpoints.
        on_tokens: told of each record that is written, by its tokens.
        should_stop: asked after each record; True makes a checkpoint and stops.

    Raises:
        StoppedError: it was told to stop.
        InputError: the input does not start with the records that the writer has.
    """
    records = iter(records)
    digest = hashlib.sha256()
    if writer.n_records:
        _skip_written(records, writer, digest, unit)
        embed.restore(writer.run_state["embed"])
    pending: deque[Record] = deque()  # those that are read and not yet written
    checkpoints = _Checkpoints(embed, writer, digest, checkpoint_seconds)
    stream = embed.stream(_sentences(records, pending))
    for values in _keeping_what_came_before_a_fault(stream, checkpoints):
        record = pending.popleft()
        writer.write(record, values)
        _add(digest, record)
        on_tokens(len(record.tokens))
        checkpoints.make_if_due()
        if should_stop() and checkpoints.make():
            raise StoppedError(
                f"Stopped after {unit} {writer.n_records:,}, which is kept with all before it in "
                f"{writer.partial}; the same command goes on from there"
            )


def _keeping_what_came_before_a_fault(
    stream: Iterator[NDArray[Any]], checkpoints: "_Checkpoints"
) -> Iterator[NDArray[Any]]:
    """The same stream; a record that cannot be read costs none before it, and can be mended."""
    try:
        yield from stream
    except InputError:
        checkpoints.make()
        raise


class _Checkpoints:
    """Makes checkpoints of a run, where it can go on and when it is time."""

    def __init__(
        self, embed: Embed, writer: ActivationsWriter, digest: "hashlib._Hash", seconds: float
    ) -> None:
        self._embed, self._writer, self._digest = embed, writer, digest
        self._seconds = seconds
        self._last = time.monotonic()
        self._n_records = writer.n_records  # of the last checkpoint

    def make_if_due(self) -> None:
        if time.monotonic() - self._last >= self._seconds:
            self.make()

    def make(self) -> bool:
        """Make a checkpoint, if the run can go on from here."""
        if self._writer.n_records == self._n_records:
            return True
        state = self._embed.save(self._writer.n_records)
        if state is None:
            return False
        self._writer.checkpoint({"input_sha256": self._digest.hexdigest(), "embed": state})
        self._last, self._n_records = time.monotonic(), self._writer.n_records
        return True


def _skip_written(
    records: Iterator[Record], writer: ActivationsWriter, digest: "hashlib._Hash", unit: str
) -> None:
    """Read past the records that an earlier run has written, and see that they are the same."""
    n_read = 0
    for record in islice(records, writer.n_records):
        writer.skip(record)
        _add(digest, record)
        n_read += 1
    if n_read < writer.n_records or digest.hexdigest() != writer.run_state["input_sha256"]:
        raise InputError(
            f"{writer.partial} is of an unfinished run over another input: its first "
            f"{writer.n_records:,} {unit}s are not those of this one; --overwrite starts anew"
        )


def _add(digest: "hashlib._Hash", record: Record) -> None:
    digest.update(record.text.encode("utf-8", "surrogatepass") + b"\n")


def _sentences(records: Iterable[Record], pending: deque[Record]) -> Iterator[Sentence]:
    for record in records:
        pending.append(record)
        yield record.tokens
