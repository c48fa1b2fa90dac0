"""Text to a model: `train_model` is what `elmo train` does."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from elmo_cli.errors import InputError, ModelError, OptionsError, StoppedError
from elmo_cli.language_model.softmax_file import write_softmax
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.model.weights import write_weights
from elmo_cli.training.checkpoint import check_no_other_model, load_checkpoint, owned, write_text
from elmo_cli.training.corpus import TrainingText, find_files, portions
from elmo_cli.training.heldout import HeldoutPerplexity, check_heldout, heldout_perplexity
from elmo_cli.training.options import TrainingOptions, training_options
from elmo_cli.training.processes import Processes, all_processes
from elmo_cli.training.report import TrainingLog, summary_writer, training_card
from elmo_cli.training.run import Run
from elmo_cli.training.start import (
    HELDOUT,
    Architecture,
    choose_architecture,
    choose_vocabulary,
    start_weights,
    written_options,
)

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 300.0
EVALUATE_STEPS = 1000
LOG_STEPS = 10
"""Steps of an entry in log.jsonl."""
FEW_TOKENS = 20_000
"""Of the held-out text that are enough while training goes on."""


def train_model(
    texts: Sequence[str | Path],
    folder: str | Path,
    *,
    options_file: str | Path | None = None,
    preset: str | None = None,
    from_model: str | Path | None = None,
    heldout: str | Path | None = None,
    heldout_share: float = 0.0,
    vocabulary_file: str | Path | None = None,
    vocabulary_size: int | None = None,
    cuda_device: int = -1,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    evaluate_steps: int = EVALUATE_STEPS,
    tensorboard: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> HeldoutPerplexity | None:
    """Train a model on text, into a folder; go on where a run in that folder was stopped.

    Args:
        texts: files of tokenized text, a sentence a line, plain or gzip, and patterns.
        folder: gets the model; made if it is not there.
        options_file: options.json of the architecture.
        preset: an architecture by name, in its place.
        from_model: a model to start from, in its place: a name, folder or zip, or a file
            of weights together with `options_file`.
        heldout: a file of text to measure perplexity on.
        heldout_share: in its place, the share of the lines that is not trained on.
        vocabulary_file: the words to predict, by falling count.
        vocabulary_size: how many, where they are counted; 25,000 if not given.
        cuda_device: the number of a GPU; -1 is the CPU.
        checkpoint_seconds: how much work an end without warning can cost.
        evaluate_steps: steps from one writing of the model to the next.
        tensorboard: log for TensorBoard too.
        should_stop: asked after each step; True makes a checkpoint and stops.
        settings: fields of `TrainingOptions`.

    Returns:
        The held-out perplexity; None without held-out text.

    Raises:
        StoppedError: it was told to stop.
        ElmoError: a file, a setting or the model is not as it should be.
    """
    if heldout is not None and heldout_share:
        raise InputError("expected a held-out file or a share to hold out, found both")
    if not 0 <= heldout_share < 1:
        raise InputError(f"heldout_share: expected 0 to below 1, found {heldout_share}")
    if tensorboard:
        summary_writer()  # before there is anything in the folder
    folder = Path(folder)
    architecture = choose_architecture(options_file, preset, from_model)
    options = training_options(architecture.content, **settings)
    if architecture.files and architecture.files.vocabulary and vocabulary_size is not None:
        logger.warning(
            "Warning: the words to predict are those of %s, and none are counted", architecture.name
        )
    if architecture.files and architecture.files.weights.parent.resolve() == folder.resolve():
        raise ModelError(f"{folder}: expected another folder than that of the model to start from")
    text = TrainingText(find_files(texts), heldout_share, options.seed)
    if heldout is not None:
        check_heldout(heldout)
    with ExitStack() as stack:
        processes, device = stack.enter_context(all_processes(cuda_device))
        if processes.is_first:
            stack.enter_context(owned(folder))
            check_no_other_model(folder)
        run = _prepare(
            *(text, folder, architecture, options, vocabulary_file, vocabulary_size, processes),
            device,
        )
        heldout_file = None if heldout is None else Path(heldout)
        trainer = Trainer(
            *(run, text, folder, architecture),
            heldout=folder / HELDOUT if heldout_share else heldout_file,
            checkpoint_seconds=checkpoint_seconds,
            evaluate_steps=evaluate_steps,
            tensorboard=tensorboard,
        )
        return trainer.train(should_stop)


def _prepare(
    text: TrainingText,
    folder: Path,
    architecture: Architecture,
    options: TrainingOptions,
    vocabulary_file: str | Path | None,
    vocabulary_size: int | None,
    processes: Processes,
    device: torch.device,
) -> Run:
    """The run of a command, at its last checkpoint."""
    if options.state == "carry" and options.batch_size % processes.count:
        raise OptionsError(
            f"batch_size {options.batch_size}: expected a multiple of the {processes.count} "
            "processes"
        )

    def read() -> tuple[Vocabulary, int | None]:
        return choose_vocabulary(
            *(text, folder, architecture, vocabulary_file, vocabulary_size),
            need_count=options.steps is None,
        )

    if processes.is_first:
        read()
    processes.wait()
    vocabulary, n_tokens = read()  # what the first process counted is there
    bilm, softmax = start_weights(architecture, vocabulary, options)
    run = Run(
        *(bilm.to(device), softmax.to(device), vocabulary, options),
        {"architecture": architecture.content, "text": [text.identity(), text.heldout_share]},
        text_tokens=n_tokens,
        processes=processes,
    )
    state = load_checkpoint(folder)
    if state is not None:
        run.load(state, folder)
        end = ", the last one: nothing is left to train" if run.is_done else ""
        logger.info("going on after step %d%s", run.step, end)
    return run


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
