"""A file to an output file: records in, activations out, checkpoints between."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from numpy.typing import NDArray

from elmo_cli.activations import ActivationsWriter, check_output
from elmo_cli.errors import ComputationError, ElmoError, InputError, StoppedError
from elmo_cli.memory import first_line
from elmo_cli.records import find_format, open_records
from elmo_cli.run_input import Place, RunInput
from elmo_cli.text import Record, Sentence

CHECKPOINT_SECONDS = 30.0
"""How much work an end without warning can cost."""


class Embed(NamedTuple):
    """What turns a stream of sentences into activations, and can go on in the middle."""

    stream: Callable[[Iterable[Sentence]], Iterator[NDArray[Any] | ComputationError]]
    """The activations of each sentence, in order; an error for one that has none."""
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
    layout: str,
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
            layout=layout,
            overwrite=overwrite,
        )
        with writer:
            run(
                embed,
                RunInput(records),
                writer,
                unit=format_.unit,
                checkpoint_seconds=checkpoint_seconds,
                on_tokens=lambda n_tokens: on_progress(0, n_tokens),
                should_stop=should_stop,
            )


def run(
    embed: Embed,
    records: RunInput,
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
        InputError: the input does not start with the records that the writer has, or one
            of its records is at fault.
        ComputationError: memory does not suffice, or torch fails. Whatever is raised, the
            records before it are kept.
    """
    if writer.n_records:
        _skip_written(records, writer, unit)
        embed.restore(writer.run_state["embed"])
    pending: deque[tuple[Record, Place]] = deque()  # those that are read and not yet written
    checkpoints = _Checkpoints(embed, writer, unit, checkpoint_seconds)
    with checkpoints.kept_on_failure():
        for values in embed.stream(_sentences(records, pending)):
            record, place = pending.popleft()
            if isinstance(values, ComputationError):
                raise ComputationError(f"{unit} {place.n_records:,}: {values}")
            writer.write(record, values)
            checkpoints.place = place
            on_tokens(len(record.tokens))
            checkpoints.make_if_due()
            if should_stop() and checkpoints.make():
                raise StoppedError(
                    f"Stopped after {unit} {place.n_records:,}, which is kept with all before it "
                    f"in {writer.partial}; the same command goes on from there"
                )


class _Checkpoints:
    """Makes checkpoints of a run, where it can go on and when it is time."""

    def __init__(self, embed: Embed, writer: ActivationsWriter, unit: str, seconds: float) -> None:
        self._embed, self._writer, self._unit, self._seconds = embed, writer, unit, seconds
        self._last = time.monotonic()
        self._n_records = writer.n_records  # of the last checkpoint
        self.place: Place | None = None
        """Where the record ends that was written last."""

    def make_if_due(self) -> None:
        if time.monotonic() - self._last >= self._seconds:
            self.make()

    def make(self) -> bool:
        """Make a checkpoint, if the run can go on from here."""
        if self._writer.n_records == self._n_records or self.place is None:
            return True
        state = self._embed.save(self._writer.n_records)
        if state is None:
            return False
        self._writer.checkpoint({"place": self.place, "embed": state})
        self._last, self._n_records = time.monotonic(), self._writer.n_records
        return True

    @contextmanager
    def kept_on_failure(self) -> Iterator[None]:
        """Keep what came before a record, or a computation, that fails: it can be mended."""
        try:
            yield
        except (InputError, ComputationError):
            self.make()
            raise
        except (RuntimeError, MemoryError) as error:  # of torch: a GPU that is lost, for one
            if isinstance(error, ElmoError):
                raise
            self.make()
            raise ComputationError(
                f"the computation failed after {self._unit} "
                f"{self.place.n_records if self.place else 0:,}: {first_line(error)}; "
                "the same command goes on from the last checkpoint"
            ) from error


def _skip_written(records: RunInput, writer: ActivationsWriter, unit: str) -> None:
    """Read past the records that an earlier run has written, and see that they are the same."""
    place = Place(*writer.run_state["place"])
    for record in records.skip_to(place.n_records):
        writer.skip(record)
    if records.place != place:
        raise InputError(
            f"{writer.partial} is of an unfinished run over another input: its first "
            f"{place.n_records:,} {unit}s are not those of this one; --overwrite starts anew"
        )


def _sentences(
    records: Iterable[tuple[Record, Place]], pending: deque[tuple[Record, Place]]
) -> Iterator[Sentence]:
    for record, place in records:
        pending.append((record, place))
        yield record.tokens
