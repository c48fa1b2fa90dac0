"""Computation of many items as one stream."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

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

    `parts_of` gives at least one part of an item. `compute` takes the parts of all items as one
    stream, and gives one result per part, in their order. An item comes out as soon as its parts
    are computed, and no result is held after that.
    """
    waiting: deque[tuple[_Item, int]] = deque()  # items with their number of parts

    def parts() -> Iterator[_Part]:
        for item in items:
            own = list(parts_of(item))
            if not own:
                raise ValueError("an item has no parts")
            waiting.append((item, len(own)))
            yield from own

    results = iter(compute(parts()))

    def with_item(first: _Result) -> tuple[_Item, list[_Result]]:
        item, n_parts = waiting.popleft()
        return item, [first, *islice(results, n_parts - 1)]

    # A loop would hold the last results while the next ones are computed.
    return map(with_item, results)
