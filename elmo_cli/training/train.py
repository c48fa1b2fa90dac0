"""Text to a model: `train_model` is what `elmo train` does."""

import ctypes
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_cli.errors import InputError, ModelError, OptionsError, StoppedError
from elmo_cli.inference.device import Device
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.text.input_formats import TEXT, open_records
from elmo_cli.text.tokenizers import WHITESPACE, Tokenizer, read_sentences
from elmo_cli.training.corpus import TrainingText, find_files, portions
from elmo_cli.training.options import TrainingOptions, training_options
from elmo_cli.training.report import Report, summary_writer
from elmo_cli.training.run import (
    Processes,
    Run,
    all_processes,
    check_same_run,
    load_checkpoint,
    owned,
)
from elmo_cli.training.start import VALIDATION, Start, choose_start, count_tokens, start_weights

logger = logging.getLogger(__name__)

_WATCHED_LINES = 1000
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
VOCABULARY_SIZE = 25_000
"""Words to predict, where they are counted and nobody says how many."""
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
    tokenizer: Tokenizer = WHITESPACE,
    vocabulary_file: str | Path | None = None,
    vocabulary_size: int | None = None,
    device: Device = "cpu",
    checkpoint_seconds: float = 300.0,
    eval_steps: int = 1000,
    tensorboard: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> dict[str, float] | None:
    """Train a model on text, into a folder; resume a run that was stopped there.

    The parameters are the options of `elmo train`, `settings` those in `TrainingOptions`.
    `should_stop` is asked after each step; True makes a checkpoint and raises a `StoppedError`.

    Returns:
        The perplexity of the validation text, as `Report.evaluate` gives it; None without one.
    """
    # All of the file is read, to find what is wrong with it before there is a model.
    if validation_file and not sum(map(bool, read_sentences(validation_file, tokenizer))):
        raise InputError(f"{validation_file}: no sentence to measure perplexity on")
    if tensorboard:
        summary_writer()  # before there is anything in the folder
    folder = Path(folder)
    start = choose_start(options_file, preset, init_from, vocabulary_file)
    if start.files and start.files.weights.parent.resolve() == folder.resolve():
        raise ModelError(f"{folder}: expected another folder than that of the model to start from")
    if start.vocabulary and vocabulary_size is not None:
        given = vocabulary_file or start.name
        logger.warning("Warning: the words to predict are those of %s, and none are counted", given)
    options = training_options(start.content, **settings)
    text = TrainingText(find_files(texts), validation_share, options.seed, tokenizer)
    with open_records(text.paths[0], TEXT, tokenizer=tokenizer) as (records, *_):
        list(islice(records, _WATCHED_LINES))  # warns where the tokenizer does not seem to fit
    with ExitStack() as stack:
        processes = stack.enter_context(all_processes(device))
        if options.state == "carry" and options.batch_size % processes.count:
            wanted = f"a multiple of the {processes.count} processes"
            raise OptionsError(f"batch_size {options.batch_size}: expected {wanted}")
        if processes.is_first:
            stack.enter_context(owned(folder))
        n_words = None if start.vocabulary else vocabulary_size or VOCABULARY_SIZE
        run = _start_run(start, text, folder, n_words, options, processes)
        stack.callback(run.close)
        report = None
        if processes.is_first:
            held_out = folder / VALIDATION if validation_share else validation_file
            report = Report(run, folder, start, text, held_out, tensorboard=tensorboard)
            stack.callback(report.close)
        _train(run, text, folder, report, should_stop, checkpoint_seconds, eval_steps)
        run.save(folder)
        perplexity = report.evaluate() if report else None
        processes.gather(None)  # the others wait until the model is there
        return perplexity


def _start_run(
    start: Start,
    text: TrainingText,
    folder: Path,
    n_words: int | None,
    options: TrainingOptions,
    processes: Processes,
) -> Run:
    """The run of a folder, at its last checkpoint; `n_words` to count, where none are given."""
    given = start.vocabulary
    words = [] if given is None else given.words
    identity = {
        "architecture": start.content,
        "text": [text.identity(), text.validation_share],
        "vocabulary": n_words or hashlib.sha256("\n".join(words).encode()).hexdigest(),
    }
    state, n_tokens = load_checkpoint(folder), None
    if state is not None:
        check_same_run(state, identity, options, folder)
        n_tokens = state["text_tokens"]
    is_needed = given is None or options.steps is None or text.validation_share
    if is_needed and n_tokens is None:
        counted = count_tokens(text, folder, n_words) if processes.is_first else 0
        n_tokens = processes.gather(counted)[0]
    vocabulary = read_vocabulary(folder / "vocab.txt") if given is None else given
    objective = start_weights(start, vocabulary, options)
    run = Run(objective, vocabulary, options, identity, processes, text_tokens=n_tokens)
    if state is not None:
        run.load(state)
        end = ", the last one: nothing is left to train" if run.is_done else ""
        logger.info("resuming after step %d%s", run.step, end)
    return run


def _train(
    run: Run,
    text: TrainingText,
    folder: Path,
    report: Report | None,
    should_stop: Callable[[], bool],
    checkpoint_seconds: float,
    eval_steps: int,
) -> None:
    """Train to the last step, with checkpoints, notes and evaluations on the way."""
    keep_memory()
    saved_at = before = time.monotonic()
    batches = portions(text, run.options, run.position)
    while not run.is_done:
        run.train_step(*next(batches))
        run.seconds += time.monotonic() - before
        if run.step % LOG_STEPS == 0:
            loss = run.take_loss()
            if report is not None:
                report.note(loss)
        if run.is_done:
            return
        if run.step % eval_steps == 0:
            run.check_loss()
            if report is not None:
                report.evaluate(FEW_TOKENS)
        late = time.monotonic() - saved_at >= checkpoint_seconds
        stops, late = map(any, zip(*run.processes.gather((should_stop(), late)), strict=True))
        if stops or late:
            run.save(folder)
            saved_at = time.monotonic()
        if stops:
            raise StoppedError(
                f"Stopped after step {run.step:,}, which is kept in {folder}; the same command "
                "resumes it"
            )
        before = time.monotonic()


def keep_memory() -> None:
    """Keep what steps have freed for the next, which ask for as much: new pages take 12 %."""
    with suppress(AttributeError, OSError, TypeError):  # not of glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 2**30)  # tensors lie in the heap
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)  # whose end stays
