"""Training: `train_model` implements `elmo train`. Start reading here."""

import ctypes
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_cli.errors.exceptions import (
    InputError,
    ModelError,
    OptionsError,
    StoppedError,
)
from elmo_cli.errors.wording import first_line
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training.checkpoint import (
    Description,
    damage_error,
    load_checkpoint,
    own_folder,
    remove_checkpoint,
    save_checkpoint,
)
from elmo_cli.training.corpus import TrainingText, find_text_files, read_batches
from elmo_cli.training.run_report import (
    Figures,
    Report,
    is_finished,
    load_summary_writer,
    measure,
)
from elmo_cli.training.start import (
    Start,
    check_coverage,
    choose_start,
    count_text,
    start_weights,
)
from elmo_cli.training.training_options import (
    RunOptions,
    StartOptions,
    TextOptions,
    TrainingOptions,
    complete_options,
)
from elmo_cli.training.training_run import Processes, Run, join_processes

logger = logging.getLogger(__name__)

# sentences at the beginning of the text that are checked before training
_SAMPLE_SENTENCES = 1000
# Values of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
LOG_STEPS = 10  # steps between entries of log.jsonl
# tokens of the validation text per evaluation during training
EVALUATION_TOKENS = 20_000


def train_model(
    text_options: TextOptions,
    folder: str | Path,
    start_options: StartOptions,
    training_options: Mapping[str, Any],
    run_options: RunOptions,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> Figures | None:
    """Train a model on text and write it into a folder, or resume the run in that folder.

    Return the perplexity of the validation text, if there is one. `training_options` are fields of
    `TrainingOptions`. If `should_stop` returns True, a checkpoint is saved for a `StoppedError`.
    """
    _check_validation_file(text_options)
    if run_options.tensorboard:
        load_summary_writer()
    folder = Path(folder)
    start = choose_start(start_options)
    if start.files and start.files.weights.parent.resolve() == folder.resolve():
        raise ModelError(
            f"{folder}: the model to start from is in it. Choose another folder."
        )
    options = complete_options(training_options, start.content)
    text = _open_text(text_options, start, options.seed)
    with ExitStack() as stack:
        processes = stack.enter_context(join_processes(run_options.device))
        _check_streams(options, processes)
        if processes.is_first:
            stack.enter_context(own_folder(folder))
        validation = text_options.validation_file
        if text.validation_share:
            validation = folder / text.validation_name
        description = Description(folder, start, text, options, validation)
        if is_finished(description):
            logger.info(
                "%s: training is finished, and nothing is left to train", folder
            )
            return (
                measure(description, processes.device) if processes.is_first else None
            )
        run = _start_run(description, processes)
        stack.callback(run.close)
        if (
            run.step == 0
        ):  # Nothing else may be in the folder before the first checkpoint.
            _save(run, description)
        report = None
        if processes.is_first:
            report = Report(run, description, tensorboard=run_options.tensorboard)
            stack.callback(report.close)
        _train(run, description, report, run_options, should_stop)
        _save(run, description)
        perplexity = report.evaluate() if report else None
        if report and not run_options.keep_checkpoint:
            remove_checkpoint(folder)
        processes.gather(None)  # Other processes wait here until the model is written.
        return perplexity


def _check_validation_file(options: TextOptions) -> None:
    """Read the whole validation file, to report its errors before training."""
    path = options.validation_file
    text = TrainingText((), options.settings, options.tokenizer)
    if path and not sum(1 for _ in text.sentences(path)):
        raise InputError(f"{path}: no sentence to measure perplexity on.")


def _open_text(options: TextOptions, start: Start, seed: int) -> TrainingText:
    """Find the files of the text, and check that the tokenizer and the vocabulary fit them."""
    paths, share = find_text_files(options.files), options.validation_share
    text = TrainingText(paths, options.settings, options.tokenizer, share, seed)
    text.check_column()
    # Reading logs a warning if the tokenizer does not seem to fit.
    sample = list(islice(text.sentences(text.paths[0]), _SAMPLE_SENTENCES))
    check_coverage(start, text.paths[0], sample)
    return text


def _check_streams(options: TrainingOptions, processes: Processes) -> None:
    if options.state == "carry" and options.batch_size % processes.count:
        raise OptionsError(
            f"--batch-size {options.batch_size}: must be a multiple of the number of processes "
            f"({processes.count})."
        )


def _start_run(description: Description, processes: Processes) -> Run:
    folder, start, text = description.folder, description.start, description.text
    options = description.options
    vocabulary, text_tokens = start.vocabulary, None
    checkpoint = load_checkpoint(description)
    if checkpoint is not None:
        text_tokens = checkpoint["text_tokens"]
        vocabulary = vocabulary or Vocabulary(checkpoint["words"])
    is_needed = vocabulary is None or options.steps is None or text.validation_share
    lacks_validation = (
        text.validation_share and not (folder / text.validation_name).exists()
    )
    if lacks_validation or (is_needed and text_tokens is None):
        counts = (
            count_text(text, folder, start.n_words) if processes.is_first else (0, [])
        )
        text_tokens, words = processes.gather(counts)[0]
        vocabulary = vocabulary or Vocabulary(words)
    assert vocabulary is not None
    objective = start_weights(start, vocabulary, options)
    run = Run(objective, vocabulary, options, processes, text_tokens=text_tokens)
    if checkpoint is not None:
        try:
            run.resume(checkpoint)
        except (AttributeError, LookupError, ValueError) as error:
            raise damage_error(folder, first_line(error)) from None
        end = ", the last step. Nothing is left to train." if run.is_done else ""
        logger.info("Resuming after step %d%s", run.step, end)
    return run


def _save(run: Run, description: Description) -> float:
    """Write a checkpoint, and return the time. All processes must call this function."""
    checkpoint = run.make_checkpoint(description.signature.identity)
    if run.processes.is_first:
        save_checkpoint(description.folder, checkpoint)
    return time.monotonic()


def _train(
    run: Run,
    description: Description,
    report: Report | None,
    options: RunOptions,
    should_stop: Callable[[], bool],
) -> None:
    """Train to the last step, with log entries, checkpoints and evaluations on the way."""
    keep_memory()
    before = saved_at = time.monotonic()
    batches = read_batches(description.text, run.options, run.progress)
    while not run.is_done:
        run.train_step(*next(batches))
        run.seconds += time.monotonic() - before
        if run.step % LOG_STEPS == 0:
            loss = run.take_loss()
            if report:
                report.log_step(loss)
        if run.is_done:
            return
        evaluates = run.step % options.eval_steps == 0
        is_due = time.monotonic() - saved_at >= options.checkpoint_seconds
        answers = run.processes.gather((should_stop(), is_due))
        stops, is_due = map(any, zip(*answers, strict=True))
        if stops or is_due or evaluates:
            saved_at = _save(run, description)
        if report and (evaluates or stops):
            report.evaluate(EVALUATION_TOKENS if evaluates else 0)
        if stops:
            raise StoppedError(
                f"Stopped after step {run.step:,}, {run.share_done:.1%} of the run. "
                f"{description.folder} has the model of this step. The same command resumes "
                "training."
            )
        before = time.monotonic()


def keep_memory() -> None:
    """Keep freed memory for the next step, because new pages take 12 % of a step."""
    with suppress(AttributeError, OSError, TypeError):  # The C library is not glibc.
        mallopt: Any = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 2**30)  # Tensors are allocated on the heap.
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)  # The end of the heap is not returned.
