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
from elmo_cli.inference.device import Device
from elmo_cli.language_model.softmax import write_softmax
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.model.weights import write_weights
from elmo_cli.training.checkpoint import check_no_other_model, load_checkpoint, owned, write_text
from elmo_cli.training.corpus import TrainingText, find_files, portions
from elmo_cli.training.options import TrainingOptions, training_options
from elmo_cli.training.processes import Processes, all_processes
from elmo_cli.training.report import (
    TrainingLog,
    ValidationPerplexity,
    check_validation_file,
    summary_writer,
    training_card,
    validation_perplexity,
)
from elmo_cli.training.run import Run
from elmo_cli.training.start import (
    VALIDATION,
    Architecture,
    choose_architecture,
    choose_vocabulary,
    start_weights,
    written_options,
)

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 300.0
EVAL_STEPS = 1000
LOG_STEPS = 10
"""Steps between entries of log.jsonl."""
FEW_TOKENS = 20_000
"""Tokens of the validation text that are enough while training goes on."""


def train_model(
    texts: Sequence[str | Path],
    folder: str | Path,
    *,
    options_file: str | Path | None = None,
    preset: str | None = None,
    init_from: str | Path | None = None,
    validation_file: str | Path | None = None,
    validation_share: float = 0.0,
    vocabulary_file: str | Path | None = None,
    vocabulary_size: int | None = None,
    device: Device = "cpu",
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    eval_steps: int = EVAL_STEPS,
    tensorboard: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> ValidationPerplexity | None:
    """Train a model on text, into a folder; resume a run that was stopped there.

    Args:
        texts: files of tokenized text, a sentence a line, plain or gzip, and patterns.
        folder: gets the model; made if it is not there.
        options_file: options.json of the architecture.
        preset: an architecture by name, in its place.
        init_from: a model to start from, in its place: a name, folder or zip, or a file
            of weights together with `options_file`.
        validation_file: text to measure perplexity on.
        validation_share: in its place, the share of the lines that is not trained on.
        vocabulary_file: the words to predict, by falling count.
        vocabulary_size: how many, where they are counted; 25,000 if not given.
        device: as in `ElmoEmbedder`; under `torchrun`, a GPU is that of each process.
        checkpoint_seconds: seconds between checkpoints.
        eval_steps: steps between evaluations, each of which writes the model.
        tensorboard: log for TensorBoard too.
        should_stop: asked after each step; True makes a checkpoint and stops.
        settings: fields of `TrainingOptions`.

    Returns:
        The perplexity of the validation text; None without one.

    Raises:
        StoppedError: it was told to stop.
        ElmoError: a file, a setting or the model is not as it should be.
    """
    _check_validation(validation_file, validation_share)
    if tensorboard:
        summary_writer()  # before there is anything in the folder
    folder = Path(folder)
    architecture = choose_architecture(options_file, preset, init_from)
    options = training_options(architecture.content, **settings)
    _check_start(architecture, folder, vocabulary_size)
    text = TrainingText(find_files(texts), validation_share, options.seed)
    with ExitStack() as stack:
        processes, device = stack.enter_context(all_processes(device))
        _check_streams(options, processes)
        if processes.is_first:
            stack.enter_context(owned(folder))
            check_no_other_model(folder)
        vocabulary, n_tokens = _read_vocabulary(
            *(text, folder, architecture, vocabulary_file, vocabulary_size),
            *(options, processes),
        )
        run = _start_run(
            *(text, folder, architecture, vocabulary, n_tokens, options, processes, device)
        )
        stack.callback(run.close)
        trainer = Trainer(
            *(run, text, folder, architecture),
            validation_file=folder / VALIDATION if validation_share else validation_file,
            checkpoint_seconds=checkpoint_seconds,
            eval_steps=eval_steps,
            tensorboard=tensorboard,
        )
        return trainer.train(should_stop)


def _check_validation(validation_file: str | Path | None, validation_share: float) -> None:
    if validation_file is not None and validation_share:
        raise InputError("expected validation_file or validation_share, found both")
    if not 0 <= validation_share < 1:
        raise InputError(f"validation_share: expected 0 to below 1, found {validation_share}")
    if validation_file is not None:
        check_validation_file(validation_file)


def _check_start(architecture: Architecture, folder: Path, vocabulary_size: int | None) -> None:
    files = architecture.files
    if files and files.vocabulary and vocabulary_size is not None:
        logger.warning(
            "Warning: the words to predict are those of %s, and none are counted", architecture.name
        )
    if files and files.weights.parent.resolve() == folder.resolve():
        raise ModelError(f"{folder}: expected another folder than that of the model to start from")


def _check_streams(options: TrainingOptions, processes: Processes) -> None:
    if options.state == "carry" and options.batch_size % processes.count:
        raise OptionsError(
            f"batch_size {options.batch_size}: expected a multiple of the {processes.count} "
            "processes"
        )


def _read_vocabulary(
    text: TrainingText,
    folder: Path,
    architecture: Architecture,
    vocabulary_file: str | Path | None,
    vocabulary_size: int | None,
    options: TrainingOptions,
    processes: Processes,
) -> tuple[Vocabulary, int | None]:
    """The words to predict, and the tokens of the text where they were counted."""

    def read() -> tuple[Vocabulary, int | None]:
        return choose_vocabulary(
            *(text, folder, architecture, vocabulary_file, vocabulary_size),
            need_count=options.steps is None,
        )

    if processes.is_first:
        read()
    processes.wait()
    return read()  # what the first process counted is there


def _start_run(
    text: TrainingText,
    folder: Path,
    architecture: Architecture,
    vocabulary: Vocabulary,
    n_tokens: int | None,
    options: TrainingOptions,
    processes: Processes,
    device: torch.device,
) -> Run:
    """The run of a folder, at its last checkpoint."""
    bilm, softmax = start_weights(architecture, vocabulary, options)
    run = Run(
        *(bilm.to(device), softmax.to(device), vocabulary, options),
        {"architecture": architecture.content, "text": [text.identity(), text.validation_share]},
        text_tokens=n_tokens,
        processes=processes,
    )
    state = load_checkpoint(folder)
    if state is not None:
        run.load(state, folder)
        end = ", the last one: nothing is left to train" if run.is_done else ""
        logger.info("resuming after step %d%s", run.step, end)
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
        validation_file: str | Path | None,
        checkpoint_seconds: float,
        eval_steps: int,
        tensorboard: bool,
    ) -> None:
        self.run = run
        self.text = text
        self.folder = folder
        self.architecture = architecture
        self.validation_file = validation_file
        self.checkpoint_seconds = checkpoint_seconds
        self.eval_steps = eval_steps
        self._tensorboard = tensorboard

    def train(self, should_stop: Callable[[], bool]) -> ValidationPerplexity | None:
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
        for rows, position in portions(self.text, run.options, run.position):
            run.train_step(rows, position)
            now = time.monotonic()
            run.seconds, before = run.seconds + now - before, now
            if run.step % LOG_STEPS == 0:
                self._note()
            if run.is_done:
                return
            if run.step % self.eval_steps == 0:
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
                "command resumes it"
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

    def _evaluate(self, max_tokens: int | None) -> ValidationPerplexity | None:
        """Write the model, and measure the perplexity of the validation text."""
        run, perplexity = self.run, None
        run.check_loss()
        self._write_model()
        if self.validation_file is not None:
            perplexity = validation_perplexity(
                self.folder, self.validation_file, run.device, max_tokens
            )
            logger.info(
                "step %d, validation perplexity %.2f (forward %.2f, backward %.2f) on %s%s tokens",
                *(run.step, perplexity["average"], perplexity["forward"], perplexity["backward"]),
                *("the first " if max_tokens else "", f"{perplexity['tokens']:,}"),
            )
            if self._log:
                self._log.write({"step": run.step, "validation": dict(perplexity)})
        self._write_card(perplexity)
        return perplexity

    def _write_model(self) -> None:
        """Write the folder that `--model` takes."""
        run, folder = self.run, self.folder
        content = written_options(self.architecture.content, run.options)
        write_text(folder / "options.json", json.dumps(content, indent=1) + "\n")
        write_weights(folder / "weights.hdf5", run.objective.bilm)
        write_text(folder / "vocab.txt", "".join(f"{w}\n" for w in run.vocabulary.words))
        weight, bias = (p.detach().cpu().numpy() for p in run.objective.softmax.parameters())
        write_softmax(folder / "softmax.hdf5", weight, bias)

    def _write_card(self, perplexity: ValidationPerplexity | None) -> None:
        """Write how the model was made and how good it is, for people and programs."""
        run, folder = self.run, self.folder
        record = {
            "text": [str(path) for path in self.text.paths],
            "init_from": self.architecture.name,
            "init_from_weights": self.architecture.files is not None,
            "options": asdict(run.options),
            "step": run.step,
            "tokens": run.n_tokens,
            "seconds": run.seconds,
            "validation_file": self.validation_file and str(self.validation_file),
            "perplexity": perplexity,
        }
        write_text(folder / "training.json", json.dumps(record, indent=1) + "\n")
        card = training_card(record, self.architecture.content, run.vocabulary)
        write_text(folder / "card.md", card)
