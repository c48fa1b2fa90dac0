"""Text to a model: `train_model` implements `elmo train`. Start reading here."""

import ctypes
import hashlib
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_cli.errors import InputError, ModelError, OptionsError, StoppedError
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.text.input_formats import TEXT, open_records
from elmo_cli.text.tokenizers import read_sentences
from elmo_cli.training.checkpoint import (
    Identity,
    check_same_run,
    load_checkpoint,
    own_folder,
    save_checkpoint,
)
from elmo_cli.training.corpus import TrainingText, find_text_files, read_batches
from elmo_cli.training.options import (
    GivenOptions,
    RunOptions,
    StartOptions,
    TextOptions,
    TrainingOptions,
    complete_options,
)
from elmo_cli.training.processes import Processes, join_processes
from elmo_cli.training.report import Report, load_summary_writer
from elmo_cli.training.run import Run
from elmo_cli.training.start import (
    VALIDATION_FILE,
    VOCABULARY_FILE,
    Start,
    choose_start,
    count_text,
    start_weights,
)

logger = logging.getLogger(__name__)

_SAMPLE_LINES = 1000
"""Lines at the beginning of the text that are checked for a fitting tokenizer."""
# Values of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
LOG_STEPS = 10
"""Steps between entries of log.jsonl."""
EVALUATION_TOKENS = 20_000
"""Tokens of the validation text that are read during training."""

Perplexity = dict[str, float]
"""Perplexity of the validation text; see `Report.evaluate`."""


def train_model(
    text_options: TextOptions,
    folder: str | Path,
    start_options: StartOptions,
    given: GivenOptions,
    run_options: RunOptions,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> Perplexity | None:
    """Train a model on text and write it into a folder, or resume the run in that folder.

    Args:
        should_stop: Called after each step. Return True to save a checkpoint and stop.

    Returns:
        The perplexity of the validation text; None without such a text.

    Raises:
        StoppedError: `should_stop` returned True.
    """
    _check_validation_file(text_options)
    if run_options.tensorboard:
        load_summary_writer()
    folder = Path(folder)
    start = choose_start(start_options)
    if start.files and start.files.weights.parent.resolve() == folder.resolve():
        raise ModelError(
            f"{folder}: the model to start from is in this folder. Choose another one."
        )
    options = complete_options(given, start.content)
    text = _open_text(text_options, options.seed)
    with ExitStack() as stack:
        processes = stack.enter_context(join_processes(run_options.device))
        _check_streams(options, processes)
        if processes.is_first:
            stack.enter_context(own_folder(folder))
        run = _start_run(start, text, folder, options, processes)
        stack.callback(run.close)
        report = None
        if processes.is_first:
            validation = text_options.validation_file
            if text.validation_share:
                validation = folder / VALIDATION_FILE
            tensorboard = run_options.tensorboard
            report = Report(run, folder, start, text, validation, tensorboard=tensorboard)
            stack.callback(report.close)
        _train(run, text, folder, report, run_options, should_stop)
        _save(run, folder)
        perplexity = report.evaluate() if report else None
        processes.gather(None)  # Other processes wait here until the model is written.
        return perplexity


def _check_validation_file(options: TextOptions) -> None:
    """Read the whole validation file, to report its errors before training."""
    path = options.validation_file
    if path and not sum(map(bool, read_sentences(path, options.tokenizer))):
        raise InputError(f"{path}: no sentence to measure perplexity on.")


def _open_text(options: TextOptions, seed: int) -> TrainingText:
    """Find the files of the text, and warn if the tokenizer does not seem to fit."""
    paths = find_text_files(options.files)
    with open_records(paths[0], TEXT, tokenizer=options.tokenizer) as (records, *_):
        list(islice(records, _SAMPLE_LINES))
    return TrainingText(paths, options.validation_share, seed, options.tokenizer)


def _check_streams(options: TrainingOptions, processes: Processes) -> None:
    """Raise an `OptionsError` if the processes cannot have equally many streams."""
    if options.state == "carry" and options.batch_size % processes.count:
        raise OptionsError(
            f"--batch-size {options.batch_size}: expected a multiple of the {processes.count} "
            "processes."
        )


def _start_run(
    start: Start,
    text: TrainingText,
    folder: Path,
    options: TrainingOptions,
    processes: Processes,
) -> Run:
    """Begin the run of a folder, or resume it from its last checkpoint."""
    identity = _identify(start, text)
    checkpoint, text_tokens = load_checkpoint(folder), None
    if checkpoint is not None:
        check_same_run(checkpoint, identity, options, folder)
        text_tokens = checkpoint["text_tokens"]
    is_needed = start.vocabulary is None or options.steps is None or text.validation_share
    if is_needed and text_tokens is None:
        n_tokens = count_text(text, folder, start.n_words) if processes.is_first else 0
        text_tokens = processes.gather(n_tokens)[0]
    vocabulary = start.vocabulary or read_vocabulary(folder / VOCABULARY_FILE)
    objective = start_weights(start, vocabulary, options)
    run = Run(objective, vocabulary, options, processes, identity=identity, text_tokens=text_tokens)
    if checkpoint is not None:
        run.resume(checkpoint)
        end = ", the last step: nothing is left to train" if run.is_done else ""
        logger.info("resuming after step %d%s", run.step, end)
    return run


def _identify(start: Start, text: TrainingText) -> Identity:
    """Return the values that must be equal when a run resumes."""
    words = [] if start.vocabulary is None else start.vocabulary.words
    return {
        "architecture": start.content,
        "text": [text.identity(), text.validation_share],
        "vocabulary": start.n_words or hashlib.sha256("\n".join(words).encode()).hexdigest(),
    }


def _train(
    run: Run,
    text: TrainingText,
    folder: Path,
    report: Report | None,
    options: RunOptions,
    should_stop: Callable[[], bool],
) -> None:
    """Train to the last step, with log entries, evaluations and checkpoints on the way."""
    keep_memory()
    saved_at = before = time.monotonic()
    batches = read_batches(text, run.options, run.progress)
    while not run.is_done:
        run.train_step(*next(batches))
        run.seconds += time.monotonic() - before
        if run.step % LOG_STEPS == 0:
            loss = run.take_loss()
            if report is not None:
                report.log_step(loss)
        if run.is_done:
            return
        if run.step % options.eval_steps == 0:
            run.check_loss()
            if report is not None:
                report.evaluate(EVALUATION_TOKENS)
        is_due = time.monotonic() - saved_at >= options.checkpoint_seconds
        answers = run.processes.gather((should_stop(), is_due))
        stops, is_due = map(any, zip(*answers, strict=True))
        if stops or is_due:
            _save(run, folder)
            saved_at = time.monotonic()
        if stops:
            raise StoppedError(
                f"Stopped after step {run.step:,}, which is kept in {folder}. The same command "
                "resumes it."
            )
        before = time.monotonic()


def _save(run: Run, folder: Path) -> None:
    """Write a checkpoint. All processes must call this function."""
    checkpoint = run.make_checkpoint()
    if run.processes.is_first:
        save_checkpoint(folder, checkpoint)


def keep_memory() -> None:
    """Keep freed memory for the next step, which needs as much: new pages take 12 % of a step."""
    with suppress(AttributeError, OSError, TypeError):  # another C library than glibc
        mallopt: Any = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 2**30)  # Tensors are allocated on the heap.
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)  # The end of the heap is not returned.
