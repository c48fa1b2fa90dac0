"""Progress bars of runs over a text file and of downloads, on standard error."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

if TYPE_CHECKING:
    from elmo_cli.embed_file import Summary
    from elmo_cli.pretrained.download import OnProgress


class _Lines:
    """A stream on which every state of a progress bar is a line of its own."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        text = text.strip("\r\n ")
        if text:
            self.stream.write(text + "\n")

    def flush(self) -> None:
        self.stream.flush()


class ProgressBar:
    """A bar by bytes read, with tokens a second and the time left.

    A context manager. It shows on a terminal only, or, as lines, where asked.
    """

    def __init__(self, n_bytes: int | None, *, quiet: bool, as_lines: bool) -> None:
        self._started = time.monotonic()
        self._n_tokens = 0
        self._logs = logging_redirect_tqdm()  # what is logged does not tear the bar
        self._bar = tqdm(
            total=n_bytes,
            unit="B",
            unit_scale=True,
            # None: not where standard error is no terminal.
            disable=True if quiet else (False if as_lines else None),
            file=_Lines(sys.stderr) if as_lines else sys.stderr,
            mininterval=10 if as_lines else 0.1,
            dynamic_ncols=not as_lines,
        )

    def __enter__(self) -> "ProgressBar":
        self._logs.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        self._logs.__exit__(None, None, None)

    def show(self, summary: "Summary") -> None:
        """Show how far a run is."""
        self.add_tokens(summary.n_tokens - self._n_tokens)
        self.add_bytes(summary.n_bytes - self._bar.n)

    def add_tokens(self, n_tokens: int) -> None:
        """Count tokens that are computed."""
        self._n_tokens += n_tokens
        rate = self._n_tokens / max(time.monotonic() - self._started, 1e-9)
        self._bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)

    def add_bytes(self, n_bytes: int) -> None:
        """Count bytes that are read."""
        self._bar.update(n_bytes)


@contextmanager
def download_bars() -> Iterator["OnProgress"]:
    """Give an `OnProgress` that draws a bar a file, if standard error is a terminal."""
    bars: dict[str, tqdm[None]] = {}

    def show(name: str, n_bytes: int, total: int | None) -> None:
        if name not in bars:
            # What an earlier run has brought does not count for the speed.
            bars[name] = tqdm(
                **{"desc": name, "total": total, "initial": n_bytes, "disable": None},
                **{"unit": "B", "unit_scale": True, "file": sys.stderr},
            )
        bars[name].update(n_bytes - bars[name].n)

    try:
        yield show
    finally:
        for bar in bars.values():
            bar.close()
