"""Progress bars of runs, on standard error."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from elmo_cli.cli import messages

if TYPE_CHECKING:
    from elmo_cli.distributed.run import Progress
    from elmo_cli.embed_file import Summary


class _Lines:
    """A stream on which every state of a progress bar is a line of its own."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        if text.strip():
            self.stream.write(text.strip() + "\n")

    def flush(self) -> None:
        self.stream.flush()


@contextmanager
def progress_bar(
    unit: str = "B", total: int | None = None, *, as_lines: bool = False
) -> Iterator["tqdm[None]"]:
    """Give a bar by bytes read, or another unit, with the time left.

    It shows on a terminal only, unless -q was given; or, as lines, where asked.
    """
    bar = tqdm(
        total=total,
        unit=unit,
        unit_scale=unit == "B",
        # None: not where standard error is no terminal.
        disable=True if messages.is_quiet() else (False if as_lines else None),
        file=_Lines(sys.stderr) if as_lines else sys.stderr,
        mininterval=10 if as_lines else 0.1,
        dynamic_ncols=not as_lines,
    )
    with logging_redirect_tqdm(), bar:  # what is logged does not tear the bar
        yield bar


def show_rate(bar: "tqdm[None]", n_tokens: int) -> None:
    """Show how many tokens a second are computed, by those so far."""
    rate = n_tokens / max(bar.format_dict["elapsed"], 1e-9)
    bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)


def show_summary(bar: "tqdm[None]", done: "Summary") -> None:
    """Show how far a run over a file is."""
    show_rate(bar, done.n_tokens)
    bar.update(done.n_bytes - bar.n)


def show_parts(bar: "tqdm[None]", progress: "Progress") -> None:
    """Show how far a run over many parts is."""
    if bar.total is None:  # what was there before does not count for the time left
        bar.total, bar.initial, bar.n = progress.n_parts, progress.n_done, progress.n_done
    bar.set_postfix_str(progress.text(), refresh=False)
    bar.update(progress.n_done - bar.n)
