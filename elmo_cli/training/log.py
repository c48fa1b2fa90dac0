"""What a run says of itself: lines for people, JSON lines for programs, TensorBoard."""

import json
import logging
import time
from pathlib import Path
from typing import Any

from elmo_cli.errors import ElmoError, OutputError
from elmo_cli.training.checkpoint import write_text

logger = logging.getLogger(__name__)

LOG = "log.jsonl"
LOG_SECONDS = 10.0
"""Between two lines for people."""


class TrainingLog:
    """The log of a run, which goes on after the last step that is kept."""

    def __init__(self, folder: Path, step: int, n_tokens: int, *, tensorboard: bool) -> None:
        """Open the log of a folder; entries of steps that are done again are taken out."""
        self._path = folder / LOG
        _keep_entries(self._path, step)
        self._board = summary_writer()(str(folder / "tensorboard")) if tensorboard else None
        self._started = self._said = time.monotonic()
        self._first_token = n_tokens
        self._kept = 0.0

    def write(self, entry: dict[str, Any]) -> None:
        """Add an entry: `step`, and numbers or dictionaries of numbers."""
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror}") from None
        if self._board is not None:
            for name, value in _flat(entry):
                self._board.add_scalar(name, value, entry["step"])

    def rate(self, n_tokens: int) -> float:
        """Tokens a second since this process started to train."""
        return (n_tokens - self._first_token) / max(time.monotonic() - self._started, 1e-9)

    def is_time(self) -> bool:
        """Whether people should be told something."""
        return time.monotonic() - self._said >= LOG_SECONDS

    def say(
        self, step: int, n_tokens: int, progress: float, started_at: float, loss: float
    ) -> None:
        """Tell people how far it is.

        Args:
            step: the steps that are done.
            n_tokens: the tokens that are done.
            progress: the share of the run that is done.
            started_at: the share that was done when this process started.
            loss: the loss in training.
        """
        self._said = time.monotonic()
        share = (progress - started_at) / max(1 - started_at, 1e-9)
        left = (self._said - self._started) * (1 - share) / share if share > 0 else 0.0
        logger.info(
            "step %d, %.1f %%, %.2fM tokens, training loss %.3f, %s tokens/s, %s left",
            *(step, 100 * progress, n_tokens / 1e6, loss, f"{self.rate(n_tokens):,.0f}"),
            duration(left),
        )

    def close(self) -> None:
        """Write what is not written yet."""
        if self._board is not None:
            self._board.close()


def duration(seconds: float) -> str:
    """A time for people: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _keep_entries(path: Path, step: int) -> None:
    """Drop the entries after a step, and a last line that was cut off."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(f"{line}\n")
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    write_text(path, "".join(kept))


def _flat(entry: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    numbers = []
    for name, value in entry.items():
        if isinstance(value, dict):
            numbers += _flat(value, f"{prefix}{name}/")
        elif name != "step" and isinstance(value, (int, float)):
            numbers.append((prefix + name, float(value)))
    return numbers


def summary_writer() -> Any:
    """What writes for TensorBoard, a class.

    Raises:
        ElmoError: its package is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ElmoError(
            'TensorBoard needs a package that is not installed; pip install "elmo-cli[tensorboard]"'
        ) from None
    return SummaryWriter
