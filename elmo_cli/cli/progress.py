"""Progress bars of runs, on standard error."""

import sys
import time
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
        text = text.strip("\r\n ")
        if text:
            self.stream.write(text + "\n")

    def flush(self) -> None:
        self.stream.flush()


class ProgressBar:
    """A bar by bytes read, or another unit, with the time left.

    A context manager. It shows on a terminal only, unless -q was given; or, as lines, where asked.
    """

    def __init__(
        self, *, unit: str = "B", total: int | None = None, as_lines: bool = False
    ) -> None:
        self._started = time.monotonic()
        self._n_tokens = 0
        self._logs = logging_redirect_tqdm()  # what is logged does not tear the bar
        self._bar = tqdm(
            total=total,
            unit=unit,
            unit_scale=unit == "B",
            # None: not where standard error is no terminal.
            disable=True if messages.is_quiet() else (False if as_lines else None),
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

    def add(self, n: int) -> None:
        """Count what is read or done, in the unit of the bar."""
        self._bar.update(n)

    def add_tokens(self, n_tokens: int) -> None:
        """Count tokens that are computed, whose rate is shown."""
        self._n_tokens += n_tokens
        rate = self._n_tokens / max(time.monotonic() - self._started, 1e-9)
        self._bar.set_postfix_str(f"{rate:,.0f} tokens/s", refresh=False)

    def show(self, summary: "Summary") -> None:
        """Show how far a run over a file is."""
        self.add_tokens(summary.n_tokens - self._n_tokens)
        self.add(summary.n_bytes - self._bar.n)

    def show_parts(self, progress: "Progress") -> None:
        """Show how far a run over many parts is."""
        bar = self._bar
        if bar.total is None:  # what was there before does not count for the time left
            bar.total, bar.initial, bar.n = progress.n_parts, progress.n_done, progress.n_done
        bar.set_postfix_str(progress.text(), refresh=False)
        self.add(progress.n_done - bar.n)
