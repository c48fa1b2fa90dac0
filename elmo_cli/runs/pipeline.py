"""From records to a sink: split into sentences, embed, join, write.

`per_item` computes the parts of many items as one stream. `RecordEmbedder` embeds
records with it, and `write_records` writes them to a sink.

The results of a window may be views of one large array. To have only one window in
memory, no variable here may hold a result while the next window is computed. The
variables of a generator would, because they live on while it waits at `yield`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, starmap
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.callbacks import ignore, never
from elmo_cli.engine import ComputeWindow, Engine
from elmo_cli.errors.exceptions import ComputationError, StoppedError
from elmo_cli.inference.select_activations import pool_record
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.options.selection import Selection
from elmo_cli.outputs.finite import FiniteCheck
from elmo_cli.records.progress import Progress, ReadRecord
from elmo_cli.records.record import Record
from elmo_cli.types import Sentence

_Item = TypeVar("_Item")
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def per_item(
    items: Iterable[_Item],
    parts_of: Callable[[_Item], Iterable[_Part]],
    compute: Callable[[Iterator[_Part]], Iterable[_Result]],
) -> Iterator[tuple[_Item, list[_Result]]]:
    """Split items into parts, compute the parts, and yield each item with its results.

        for text, scores in per_item(texts, split_sentences, score_sentences): ...

    `parts_of` gives at least one part of an item. `compute` takes the parts of all
    items as one stream, and gives one result per part, in their order. An item comes
    out as soon as its parts are computed, and no result is held after that.
    """
    return _ItemsWithResults(items, parts_of, compute)


class _ItemsWithResults(Generic[_Item, _Part, _Result]):
    """Iterator over items with the results of their parts; see `per_item`.

    Two streams advance together. `compute` pulls as many parts as it wants out of
    `_parts`, which notes the items that they belong to. `__next__` pulls the results of
    one item out of `compute`.
    """

    def __init__(
        self,
        items: Iterable[_Item],
        parts_of: Callable[[_Item], Iterable[_Part]],
        compute: Callable[[Iterator[_Part]], Iterable[_Result]],
    ) -> None:
        self._items = items
        self._parts_of = parts_of
        self._waiting: deque[_WaitingItem[_Item]] = deque()
        self._results = iter(compute(self._parts()))

    def _parts(self) -> Iterator[_Part]:
        """Yield the parts of all items."""
        for item in self._items:
            parts = list(self._parts_of(item))
            if not parts:
                raise ValueError("an item has no parts")
            self._waiting.append(_WaitingItem(item, n_parts=len(parts)))
            yield from parts

    def __iter__(self) -> "_ItemsWithResults[_Item, _Part, _Result]":
        return self

    def __next__(self) -> tuple[_Item, list[_Result]]:
        # After the last result, this raises StopIteration, which ends the items too.
        first = next(self._results)
        waiting = self._waiting.popleft()
        others = islice(self._results, waiting.n_parts - 1)
        return waiting.item, [first, *others]


@dataclass
class _WaitingItem(Generic[_Item]):
    """Item whose parts were given to `compute`, but whose results are not complete."""

    item: _Item
    n_parts: int


class EmbeddedRecord(NamedTuple):
    """A record with its activations.

    These may share memory with the activations of the other records of a batch.
    """

    record: Record
    number: int
    """Number in the input, from 1."""
    activations: AnyArray
    """(L, T, W), or without the axes that the selection removes."""
    window_ended: bool
    """True if a window ended with one of its sentences."""
    checkpoint: Progress | None
    """Progress in the input, if a checkpoint follows the record. It ends a window."""


class _Sentence(NamedTuple):
    tokens: Sentence
    completed_record: ReadRecord | None
    """The record whose last sentence this is; None if more sentences follow."""


class _Computed(NamedTuple):
    """Result of a sentence."""

    activations: AnyArray | ComputationError
    was_last_of_window: bool


@dataclass(frozen=True)
class RecordEmbedder:
    """Computation of records: by which model, and which activations."""

    engine: Engine
    selection: Selection
    unit: str
    """Word for a record in messages."""
    batch_size: int = DEFAULT_BATCH_SIZE
    skip_errors: bool = False
    """Give a record that does not fit into memory an error, instead of raising one."""
    splits_records: bool = False
    """Compute each sentence of a record by itself. Pooling is over all of them."""

    @cached_property
    def _pools_later(self) -> bool:
        return self.splits_records and self.selection.pooling is not None

    def embed_records(
        self,
        records: Iterable[ReadRecord],
        finite: FiniteCheck | None = None,
        is_ready: Callable[[], bool] | None = None,
        on_unfinished: Callable[[], object] = ignore,
    ) -> Iterator[EmbeddedRecord]:
        """Yield embedded records in their order, as soon as they are computed.

        Sentences are computed together in windows.

        Args:
            records: Records, as they are read.
            finite: Check that the activations are finite. They are computed in its data
                type, and batches without NaN or infinity are reported to it.
            is_ready: Function that returns False if the next record is not there yet. A
                window ends early then, and at a checkpoint. By default, all are there.
            on_unfinished: Called after a window that ends within a record, when all
                records before it have been taken. It may raise an error to stop.
        """
        embed_sentences = partial(
            self._embed_sentences,
            embed_window=self._window_function(finite),
            ends_window=partial(_ends_window, is_ready=is_ready),
            on_unfinished=on_unfinished,
        )
        embedded = per_item(records, _sentences_of, embed_sentences)
        return starmap(self._join, embedded)

    def _window_function(
        self, finite: FiniteCheck | None
    ) -> ComputeWindow[AnyArray | ComputationError]:
        """Return the function that embeds the sentences of a window.

        The arrays of a batch share memory.
        """
        if self._pools_later:
            # `_join` pools and normalizes the tokens of all sentences of a record. Only
            # then they are converted, and checked one record at a time.
            tokens_only = replace(self.selection, pooling=None, normalize=False)
            return partial(
                self.engine.embed_window, selection=tokens_only, copies=False
            )
        if finite is None:
            return partial(
                self.engine.embed_window, selection=self.selection, copies=False
            )
        return partial(
            self.engine.embed_window,
            selection=self.selection,
            dtype=finite.dtype,
            on_batch=finite.add_batch,
            copies=False,
        )

    def _embed_sentences(
        self,
        sentences: Iterator[_Sentence],
        *,
        embed_window: ComputeWindow[AnyArray | ComputationError],
        ends_window: Callable[[_Sentence], bool],
        on_unfinished: Callable[[], object],
    ) -> Iterator[_Computed]:
        """Yield the results of the sentences of all records, window after window."""
        windows = self.engine.compute_windows(
            sentences,
            embed_window,
            sentence_of=lambda sentence: sentence.tokens,
            batch_size=self.batch_size,
            ends_window=ends_window,
        )
        for window, results in windows:
            are_last = [False] * (len(window) - 1) + [True]
            # A loop over the results would have a variable that holds the last one.
            yield from map(_Computed, results, are_last)
            if window[-1].completed_record is None:
                on_unfinished()

    def _join(self, read: ReadRecord, computed: list[_Computed]) -> EmbeddedRecord:
        record = read.record
        arrays: list[AnyArray] = []
        errors: list[ComputationError] = []
        for each in computed:
            if isinstance(each.activations, ComputationError):
                errors.append(each.activations)
            else:
                arrays.append(each.activations)
        if errors:
            record = self._skip(read, errors[0])
            activations = self.engine.empty_activations(self.selection)
        else:
            activations = arrays[0]
            if len(arrays) > 1:
                activations = np.concatenate(arrays, axis=-2)
            if self._pools_later:
                activations = pool_record(self.selection, activations)
        return EmbeddedRecord(
            record=record,
            number=read.number,
            activations=activations,
            window_ended=any(each.was_last_of_window for each in computed),
            checkpoint=read.checkpoint,
        )

    def _skip(self, read: ReadRecord, error: ComputationError) -> Record:
        """Return a record without its tokens but with an error, or raise the error."""
        reason = f"{self.unit} {read.number:,}: {error}"
        if self.skip_errors:
            return read.record._replace(tokens=[], sentences=(), words=(), error=reason)
        remedy = "Shorten it, or use {--skip-errors True}."
        raise ComputationError("{reason}", remedy=remedy, reason=reason)


def _sentences_of(read: ReadRecord) -> Iterator[_Sentence]:
    *others, last = read.record.split()
    for tokens in others:
        yield _Sentence(tokens, completed_record=None)
    yield _Sentence(last, completed_record=read)


def _ends_window(sentence: _Sentence, is_ready: Callable[[], bool] | None) -> bool:
    """Return whether a window ends with a sentence, full or not."""
    if sentence.completed_record is None:
        return False
    if sentence.completed_record.checkpoint is not None:
        return True
    return is_ready is not None and not is_ready()


class Sink(Protocol):
    """Output of a run."""

    def write(self, embedded: EmbeddedRecord) -> None:
        """Write the next record."""

    def checkpoint(self, progress: Progress) -> None:
        """Make what was written so far survive; `progress` is that in the input."""


def write_records(
    records: Iterable[EmbeddedRecord],
    sink: Sink,
    *,
    on_window: Callable[[], object] = ignore,
    should_stop: Callable[[], bool] = never,
) -> None:
    """Write records to a sink, as they are computed.

    `on_window` is called after a record if a window ended with one of its sentences.
    `should_stop` is called next, and a `StoppedError` is raised if it returns True.
    `RecordEmbedder.embed_records` reports windows that end before their record is
    complete.
    """
    for embedded in records:
        sink.write(embedded)
        window_ended = embedded.window_ended
        checkpoint = embedded.checkpoint
        del embedded  # It would hold its window while the next one is computed.
        if not window_ended:
            continue
        on_window()
        if checkpoint is not None:
            sink.checkpoint(checkpoint)
        if should_stop():
            raise StoppedError
