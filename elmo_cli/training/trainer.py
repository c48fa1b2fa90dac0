"""A run, from step to step: its folder, its logs, and the model that it writes."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from elmo_cli.errors import StoppedError
from elmo_cli.language_model.softmax_file import write_softmax
from elmo_cli.model.weights import write_weights
from elmo_cli.training.batches import portions
from elmo_cli.training.card import training_card
from elmo_cli.training.checkpoint import write_text
from elmo_cli.training.heldout import HeldoutPerplexity, heldout_perplexity
from elmo_cli.training.log import TrainingLog
from elmo_cli.training.run import Run
from elmo_cli.training.start import (
    Architecture,
    written_options,
)
from elmo_cli.training.text import TrainingText

logger = logging.getLogger(__name__)

LOG_STEPS = 10
"""Steps of an entry in log.jsonl."""
FEW_TOKENS = 20_000
"""Of the held-out text that are enough while training goes on."""


class Trainer:
    """A run, its folder and its logs."""

    def __init__(
        self,
        run: Run,
        text: TrainingText,
        folder: Path,
        architecture: Architecture,
        *,
        heldout: Path | None,
        checkpoint_seconds: float,
        evaluate_steps: int,
        tensorboard: bool,
    ) -> None:
        self.run = run
        self.text = text
        self.folder = folder
        self.architecture = architecture
        self.heldout = heldout
        self.checkpoint_seconds = checkpoint_seconds
        self.evaluate_steps = evaluate_steps
        self._tensorboard = tensorboard

    def train(self, should_stop: Callable[[], bool]) -> HeldoutPerplexity | None:
        """Train to the last step, and write the model."""
        run, first = self.run, self.run.processes.is_first
        self._log = None
        if first:
            self._log = TrainingLog(
                self.folder, run.step, run.n_tokens, tensorboard=self._tensorboard
            )
        self._saved_at = time.monotonic()
        self._started_at = run.progress
        try:
            if not run.is_done:
                self._steps(should_stop)
            run.save(self.folder)
            perplexity = self._evaluate(None) if first else None
            run.processes.wait()
        finally:
            if self._log:
                self._log.close()
        return perplexity

    def _steps(self, should_stop: Callable[[], bool]) -> None:
        run = self.run
        before = time.monotonic()
        for portion in portions(self.text, run.options, run.position):
            run.train_step(portion)
            now = time.monotonic()
            run.seconds, before = run.seconds + now - before, now
            if run.step % LOG_STEPS == 0:
                self._note()
            if run.is_done:
                return
            if run.step % self.evaluate_steps == 0:
                if run.processes.is_first:
                    self._evaluate(FEW_TOKENS)
                run.processes.wait()
                before = time.monotonic()
            self._pause(should_stop)

    def _pause(self, should_stop: Callable[[], bool]) -> None:
        """Make a checkpoint where it is time, and stop where that is wanted."""
        run = self.run
        stops = run.processes.any(should_stop(), run.device)
        late = time.monotonic() - self._saved_at >= self.checkpoint_seconds
        if stops or run.processes.any(late, run.device):
            run.save(self.folder)
            self._saved_at = time.monotonic()
        if stops:
            raise StoppedError(
                f"Stopped after step {run.step:,}, which is kept in {self.folder}; the same "
                "command goes on from there"
            )

    def _note(self) -> None:
        run = self.run
        loss = run.take_loss()
        if self._log is None:
            return
        rate = self._log.rate(run.n_tokens)
        self._log.write(
            {
                "step": run.step,
                "tokens": run.n_tokens,
                "progress": run.progress,
                "training_loss": loss,
                "learning_rate": run.learning_rate,
                "tokens_per_second": rate,
                "seconds": run.seconds,
            }
        )
        if self._log.is_time():
            self._log.say(run.step, run.n_tokens, run.progress, self._started_at, loss)

    def _evaluate(self, max_tokens: int | None) -> HeldoutPerplexity | None:
        """Measure the held-out perplexity, and write the model with it."""
        run, perplexity = self.run, None
        if self.heldout is not None:
            perplexity = heldout_perplexity(
                run.objective, run.vocabulary, self.heldout, run.options, max_tokens
            )
            logger.info(
                "step %d, held-out perplexity %.2f (forward %.2f, backward %.2f) on %s%s tokens",
                *(run.step, perplexity["average"], perplexity["forward"], perplexity["backward"]),
                *("the first " if max_tokens else "", f"{perplexity['tokens']:,}"),
            )
            if self._log:
                self._log.write({"step": run.step, "heldout": dict(perplexity)})
        self._write_model(perplexity)
        return perplexity

    def _write_model(self, perplexity: HeldoutPerplexity | None) -> None:
        """Write the folder that `--model` takes."""
        run, folder = self.run, self.folder
        objective = run.objective
        content = written_options(self.architecture.content, run.options)
        write_text(folder / "options.json", json.dumps(content, indent=1) + "\n")
        write_weights(folder / "weights.hdf5", objective.bilm)
        write_text(folder / "vocab.txt", "".join(f"{w}\n" for w in run.vocabulary.words))
        weight, bias = (p.detach().cpu().numpy() for p in objective.softmax.parameters())
        write_softmax(folder / "softmax.hdf5", weight, bias)
        record = {
            "text": [str(path) for path in self.text.paths],
            "from": self.architecture.name,
            "from_weights": self.architecture.files is not None,
            "options": asdict(run.options),
            "step": run.step,
            "tokens": run.n_tokens,
            "seconds": run.seconds,
            "heldout": None if self.heldout is None else str(self.heldout),
            "perplexity": perplexity,
        }
        write_text(folder / "training.json", json.dumps(record, indent=1) + "\n")
        write_text(folder / "card.md", training_card(record, content, run.vocabulary))
