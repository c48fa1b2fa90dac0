"""A text file to an output file: lines in, activations out, checkpoints between."""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from numpy.typing import NDArray

from elmo_cli.activations import ActivationsWriter
from elmo_cli.errors import InputError, StoppedError
from elmo_cli.text import Sentence, tokens

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


def run(
    embed: Embed,
    lines: Iterable[str],
    writer: ActivationsWriter,
    *,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    on_tokens: Callable[[int], object] = lambda n_tokens: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Embed the lines that the writer does not have yet.

    Args:
        embed: sentences to activations.
        lines: the input, from its start.
        writer: an open output file; not finished here.
        checkpoint_seconds: between checkpoints.
        on_tokens: told of each line that is written, by its tokens.
        should_stop: asked after each line; True makes a checkpoint and stops.

    Raises:
        StoppedError: it was told to stop.
        InputError: the input does not start with the lines that the writer has.
    """
    lines = iter(lines)
    digest = hashlib.sha256()
    if writer.n_lines:
        _skip_written(lines, writer, digest)
        embed.restore(writer.run_state["embed"])
    pending: deque[tuple[str, int]] = deque()  # lines that are read and not yet written
    checkpoints = _Checkpoints(embed, writer, digest, checkpoint_seconds)
    stream = embed.stream(_split(lines, pending))
    for values in _keeping_what_came_before_a_fault(stream, checkpoints):
        line, n_tokens = pending.popleft()
        writer.write(line, values)
        _add(digest, line)
        on_tokens(n_tokens)
        checkpoints.make_if_due()
        if should_stop() and checkpoints.make():
            raise StoppedError(
                f"Stopped after line {writer.n_lines:,}, which is kept with all before it in "
                f"{writer.partial}; the same command goes on from there"
            )


def _keeping_what_came_before_a_fault(
    stream: Iterator[NDArray[Any]], checkpoints: "_Checkpoints"
) -> Iterator[NDArray[Any]]:
    """The same stream; a line that cannot be read costs none before it, and can be mended."""
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
        self._n_lines = writer.n_lines  # of the last checkpoint

    def make_if_due(self) -> None:
        if time.monotonic() - self._last >= self._seconds:
            self.make()

    def make(self) -> bool:
        """Make a checkpoint, if the run can go on from here."""
        if self._writer.n_lines == self._n_lines:
            return True
        state = self._embed.save(self._writer.n_lines)
        if state is None:
            return False
        self._writer.checkpoint({"input_sha256": self._digest.hexdigest(), "embed": state})
        self._last, self._n_lines = time.monotonic(), self._writer.n_lines
        return True


def _skip_written(lines: Iterator[str], writer: ActivationsWriter, digest: "hashlib._Hash") -> None:
    """Read past the lines that an earlier run has written, and see that they are the same."""
    n_read = 0
    for line in islice(lines, writer.n_lines):
        writer.skip(line)
        _add(digest, line)
        n_read += 1
    if n_read < writer.n_lines or digest.hexdigest() != writer.run_state["input_sha256"]:
        raise InputError(
            f"{writer.partial} is of an unfinished run over another input: its first "
            f"{writer.n_lines:,} lines are not those of this one; --overwrite starts anew"
        )


def _add(digest: "hashlib._Hash", line: str) -> None:
    digest.update(line.encode("utf-8", "surrogatepass") + b"\n")


def _split(lines: Iterable[str], pending: deque[tuple[str, int]]) -> Iterator[Sentence]:
    for line in lines:
        sentence = tokens(line)
        pending.append((line, len(sentence)))
        yield sentence
