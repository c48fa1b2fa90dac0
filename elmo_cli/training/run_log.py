"""The log of a run: messages, log.jsonl with one object per line, and TensorBoard."""

import json
import logging
import math
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from elmo_cli.errors.exceptions import OutputError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import counted
from elmo_cli.files import disk
from elmo_cli.files.atomic import write_lines
from elmo_cli.files.json_form import json_text
from elmo_cli.training.evaluation import Figures
from elmo_cli.training.training_folder import LOG_FILE
from elmo_cli.training.training_run import Run

logger = logging.getLogger(__name__)

LOG_SECONDS = 10.0
"""Minimum time between two progress messages, in seconds."""


class RunLog:
    """The log of a run, which the first process writes; see `open_log`."""

    def __init__(self, run: Run, path: Path, board: Any | None) -> None:
        """Log to log.jsonl at `path`, and to a writer of TensorBoard, if any."""
        self._run = run
        self._path = path
        self._board = board
        self._last_message = time.monotonic()

    def log_step(self, loss: float) -> None:
        """Log the last step with the training loss. Log a message from time to time."""
        run = self._run
        speed = run.n_tokens / max(run.seconds, 1e-9)
        numbers = {
            "tokens": run.n_tokens,
            "progress": run.share_done,
            "training_loss": loss,
            "learning_rate": run.learning_rate,
            "tokens_per_second": speed,
            "seconds": run.seconds,
        }
        self._write_line(numbers)
        for name, value in numbers.items():
            self._add_to_board(name, value)
        now = time.monotonic()
        if now - self._last_message >= LOG_SECONDS:
            self._last_message = now
            seconds_left = run.seconds * (1 / max(run.share_done, 1e-9) - 1)
            logger.info(
                "Step %d, %.1f %%, %.2fM tokens, training loss %.3f, %s tokens/s, "
                "%s left",
                run.step,
                100 * run.share_done,
                run.n_tokens / 1e6,
                loss,
                f"{speed:,.0f}",
                timedelta(seconds=round(seconds_left)),
            )

    def log_validation(self, figures: Figures) -> None:
        """Log the perplexity of the model after the last step."""
        logger.info(
            "Step %d, validation perplexity %.2f (forward %.2f, backward %.2f) "
            "on %s tokens",
            self._run.step,
            figures["average"],
            figures["forward"],
            figures["backward"],
            f"{figures['tokens']:,}",
        )
        self._write_line({"validation": figures})
        for name, value in figures.items():
            self._add_to_board(f"validation/{name}", value)

    def close(self) -> None:
        """Write buffered entries."""
        if self._board is not None:
            self._board.close()

    def _write_line(self, entry: Mapping[str, object]) -> None:
        line = json_text({"step": self._run.step, **entry})
        try:
            with disk.open_to_append(self._path) as file:
                file.write(f"{line}\n".encode())
        except OSError as error:
            reason = error.strerror
            raise OutputError(f"{self._path}: cannot be written: {reason}") from None

    def _add_to_board(self, tag: str, value: float) -> None:
        if self._board is not None:
            self._board.add_scalar(tag, value, self._run.step)


def open_log(run: Run, folder: Path, *, tensorboard: bool) -> RunLog:
    """Open the log of a run, without the entries of steps that the run will repeat."""
    path = folder / LOG_FILE
    if path.exists():
        write_lines(path, read_run_log(path, run.step))
    board = None
    if tensorboard:
        board = load_summary_writer()(str(folder / "tensorboard"))
    return RunLog(run, path, board)


def load_summary_writer() -> Any:
    """Import TensorBoard's class of writers. Raise an `ElmoError` if it is missing."""
    module = load_extra("TensorBoard", "torch.utils.tensorboard", "tensorboard")
    return module.SummaryWriter


def read_run_log(path: Path, last_step: int) -> list[str]:
    """Return the lines of a log up to a step. Warn if other lines cannot be read."""
    try:
        # A kill leaves an incomplete last line, which the split separates.
        *lines, _ = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from None
    kept = []
    n_damaged = 0
    for line in lines:
        step = _step_of_entry(line)
        if step == math.inf:
            n_damaged += 1
        elif step <= last_step:
            kept.append(line)
    if n_damaged:
        removed = counted(n_damaged, "damaged line")
        logger.warning("%s: removed %s", path, removed)
    return kept


def _step_of_entry(line: str) -> float:
    """Return the step of a line of the log; infinity for a damaged line."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return math.inf
    return step if type(step) is int else math.inf
