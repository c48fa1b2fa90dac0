"""Training: `train_model` implements `elmo train`. Start reading here.

A run writes into its folder:

    options.json, weights.hdf5,     the model, as `--model` reads it (`saved_model`)
    vocab.txt, softmax.hdf5
    log.jsonl, tensorboard/         numbers of the steps (`run_log`)
    training.json, card.md          how the model was trained and how good it is, for
                                    programs (`report`) and for people (`card`)
    checkpoint.pt                   all that is needed to resume (`checkpoint`)
"""

import ctypes
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from elmo_cli.errors.exceptions import (
    InputError,
    ModelError,
    SettingsError,
    StoppedError,
)
from elmo_cli.errors.wording import first_line
from elmo_cli.files.atomic import write_lines
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training.batches import read_batches
from elmo_cli.training.checkpoint import (
    TrainingCheckpoint,
    damage_error,
    load_checkpoint,
    locked_training_folder,
    remove_checkpoint,
    save_checkpoint,
)
from elmo_cli.training.description import Description
from elmo_cli.training.evaluation import Figures, measure_saved_model
from elmo_cli.training.find_text_files import check_is_file, find_text_files
from elmo_cli.training.processes import Processes, join_processes
from elmo_cli.training.run_log import RunLog, load_summary_writer, open_log
from elmo_cli.training.saved_model import write_model
from elmo_cli.training.start import (
    Start,
    check_coverage,
    choose_start,
    start_weights,
)
from elmo_cli.training.text_counts import TextCounts, count_text
from elmo_cli.training.training_folder import check_no_input, check_no_other_files
from elmo_cli.training.training_report import is_finished, write_report
from elmo_cli.training.training_run import Run
from elmo_cli.training.training_settings import (
    RunSettings,
    StartSettings,
    TrainingSettings,
    TrainingTextSettings,
    complete_settings,
)
from elmo_cli.training.training_text import TrainingText

logger = logging.getLogger(__name__)

_SAMPLE_SENTENCES = 1000
"""Sentences at the beginning of the text that are checked before training."""
# Values of glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
LOG_STEPS = 10
"""Steps between entries of log.jsonl."""
EVALUATION_TOKENS = 20_000
"""Tokens of the validation text per evaluation during training."""


def train_model(
    text_settings: TrainingTextSettings,
    folder: str | Path,
    start_settings: StartSettings,
    training_settings: Mapping[str, Any],
    run_settings: RunSettings,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> Figures | None:
    """Train a model on text and write it into a folder, or resume the run in it.

    Return the perplexity of the validation text, if there is one. `training_settings`
    are fields of `TrainingSettings`. If `should_stop` returns True, a checkpoint is
    saved for a `StoppedError`.
    """
    _check_validation_file(text_settings)
    if run_settings.tensorboard:
        load_summary_writer()
    folder = Path(folder)
    start = choose_start(start_settings)
    if start.files and start.files.weights.parent.resolve() == folder.resolve():
        raise ModelError(
            f"{folder}: the model to start from is in it",
            remedy="Choose another folder.",
        )
    settings = complete_settings(training_settings, options_json=start.content)
    training_text = _open_training_text(text_settings, start, settings.seed)
    validation_file = text_settings.validation_file
    sources = [
        *training_text.paths,
        validation_file,
        start_settings.options_file,
        start_settings.vocabulary_file,
    ]
    if start.files is not None:
        sources += start.files.paths
    check_no_input(folder, sources)
    if training_text.validation_share:
        validation_file = folder / training_text.validation_name
    description = Description(
        folder=folder,
        start=start,
        training_text=training_text,
        settings=settings,
        validation_file=validation_file,
    )
    with ExitStack() as stack:
        processes = stack.enter_context(join_processes(run_settings.device))
        _check_streams(settings, processes)
        if processes.is_first:
            stack.enter_context(locked_training_folder(folder))
        if not is_finished(description):
            check_no_other_files(folder)
            return _train_and_measure(
                description, processes, settings=run_settings, should_stop=should_stop
            )
        logger.info("%s: training is finished already", folder)
        if not processes.is_first:
            return None
        return measure_saved_model(description, processes.device)


def _train_and_measure(
    description: Description,
    processes: Processes,
    settings: RunSettings,
    should_stop: Callable[[], bool],
) -> Figures | None:
    """Begin or resume a run, and train to its end.

    In the first process, write the model and return its perplexity, if there is
    validation text.
    """
    with ExitStack() as stack:
        run, validation_lines = _start_run(description, processes)
        stack.callback(run.close)
        if run.step == 0:
            # Without a checkpoint, other files in the folder are not of this run.
            _save(run, description)
        if validation_lines:
            name = description.training_text.validation_name
            write_lines(description.folder / name, validation_lines)
        log = None
        if processes.is_first:
            log = open_log(run, description.folder, tensorboard=settings.tensorboard)
            stack.callback(log.close)
        loss = _train(
            run, description, log=log, settings=settings, should_stop=should_stop
        )
        _save(run, description)
        perplexity = None
        if log is not None:
            perplexity = _evaluate(run, description, log)
            if perplexity is None and loss is not None:
                logger.info("Step %d, training loss %.3f", run.step, loss)
            if not settings.keep_checkpoint:
                remove_checkpoint(description.folder)
            folder = description.folder
            logger.info("Wrote the model to %s. See its card.md.", folder)
        processes.gather(None)  # Other processes wait here until the model is written.
        return perplexity


def _check_validation_file(settings: TrainingTextSettings) -> None:
    """Read the whole validation file, to report its errors before training."""
    path = settings.validation_file
    if not path:
        return
    check_is_file(path)
    training_text = TrainingText((), settings.text, settings.tokenizer)
    n_sentences = sum(1 for _ in training_text.sentences(path))
    if n_sentences == 0:
        raise InputError(f"{path}: no sentence to measure perplexity on")


def _open_training_text(
    settings: TrainingTextSettings, start: Start, seed: int
) -> TrainingText:
    """Find the files of the text, and check that tokenizer and vocabulary fit them."""
    training_text = TrainingText(
        paths=find_text_files(settings.files),
        settings=settings.text,
        tokenizer=settings.tokenizer,
        validation_share=settings.validation_share,
        seed=seed,
    )
    training_text.check_column()
    # Reading logs a warning if the tokenizer does not seem to fit.
    sample = list(
        islice(training_text.sentences(training_text.paths[0]), _SAMPLE_SENTENCES)
    )
    check_coverage(start, training_text.paths[0], sample)
    return training_text


def _check_streams(settings: TrainingSettings, processes: Processes) -> None:
    """Raise a `SettingsError` unless all processes have equally many streams."""
    if settings.state == "carry" and settings.batch_size % processes.count != 0:
        raise SettingsError(
            "{--batch-size} {batch_size}: must be a multiple of the number of "
            "processes ({count})",
            batch_size=settings.batch_size,
            count=processes.count,
        )


def _start_run(description: Description, processes: Processes) -> tuple[Run, list[str]]:
    """Begin the run, or resume it from the checkpoint in its folder.

    Return it with the lines of validation that the first process has to write.
    """
    start = description.start
    checkpoint = load_checkpoint(description)
    vocabulary = start.vocabulary
    text_tokens = None
    validation_lines: list[str] = []
    if checkpoint is not None:
        text_tokens = checkpoint["text_tokens"]
        if vocabulary is None:
            vocabulary = Vocabulary(checkpoint["words"])
    if _must_count(description, vocabulary, text_tokens):
        counts = TextCounts(n_tokens=0, words=[], validation_lines=[])
        if processes.is_first:
            counts = count_text(description.training_text, start.n_words)
            validation_lines = counts.validation_lines
            # Only this process writes them.
            counts = counts._replace(validation_lines=[])
        counts = processes.gather(counts)[0]
        text_tokens = counts.n_tokens
        if vocabulary is None:
            vocabulary = Vocabulary(counts.words)
    assert vocabulary is not None
    run = Run(
        objective=start_weights(start, vocabulary, description.settings),
        vocabulary=vocabulary,
        settings=description.settings,
        processes=processes,
        text_tokens=text_tokens,
    )
    if checkpoint is not None:
        _resume(run, checkpoint, description.folder)
    return run, validation_lines


def _must_count(
    description: Description, vocabulary: Vocabulary | None, text_tokens: int | None
) -> bool:
    """Return whether the words of the text must be counted before the first step.

    Counting also chooses the words to predict, and the validation lines.
    """
    training_text = description.training_text
    if training_text.validation_share:
        if not (description.folder / training_text.validation_name).exists():
            return True
        return text_tokens is None
    is_needed = vocabulary is None or description.settings.steps is None
    return is_needed and text_tokens is None


def _resume(run: Run, checkpoint: TrainingCheckpoint, folder: Path) -> None:
    try:
        run.resume(checkpoint)
    except (AttributeError, LookupError, ValueError) as error:
        raise damage_error(folder, first_line(error)) from None
    end = ", the last step. Nothing is left to train." if run.is_done else ""
    logger.info("Resuming after step %d%s", run.step, end)


def _save(run: Run, description: Description) -> None:
    """Write a checkpoint. All processes must call this function."""
    checkpoint = run.make_checkpoint(description.signature.identity)
    if run.processes.is_first:
        save_checkpoint(description.folder, checkpoint)


def _evaluate(
    run: Run, description: Description, log: RunLog, max_tokens: float = math.inf
) -> Figures | None:
    """Write the model with its report, and measure it on up to `max_tokens` tokens."""
    write_model(run, description)
    figures = measure_saved_model(description, run.processes.device, max_tokens)
    if figures is not None:
        log.log_validation(figures)
    write_report(run, description, figures)
    return figures


def _train(
    run: Run,
    description: Description,
    log: RunLog | None,
    settings: RunSettings,
    should_stop: Callable[[], bool],
) -> float | None:
    """Train to the last step, with log entries, checkpoints and evaluations.

    Return the mean loss of the last steps, at most `LOG_STEPS`, in nats. It is None if
    nothing was left to train.
    """
    keep_memory()
    before = time.monotonic()
    saved_at = before
    batches = read_batches(description.training_text, run.settings, run.progress)
    while not run.is_done:
        rows, progress = next(batches)
        run.train_step(rows, progress)
        run.seconds += time.monotonic() - before
        loss = None
        if run.step % LOG_STEPS == 0:
            loss = run.take_loss()
            if log is not None:
                log.log_step(loss)
        if run.is_done:
            return run.mean_loss() if loss is None else loss
        evaluates = run.step % settings.eval_steps == 0
        save_is_due = time.monotonic() - saved_at >= settings.checkpoint_seconds
        # All processes stop and save together, if one of them wants to.
        wishes = run.processes.gather(
            {"stop": should_stop(), "save": save_is_due or evaluates}
        )
        stops = any(wish["stop"] for wish in wishes)
        saves = stops or any(wish["save"] for wish in wishes)
        if saves:
            _save(run, description)
            saved_at = time.monotonic()
        if log is not None:
            if evaluates:
                _evaluate(run, description, log, max_tokens=EVALUATION_TOKENS)
            elif stops:
                write_model(run, description)
                write_report(run, description, perplexity=None)
        if stops:
            raise StoppedError(
                f"Stopped after step {run.step:,}, {run.share_done:.1%} of the run. "
                f"{description.folder} has the model of this step",
                remedy="The same command resumes training.",
            )
        before = time.monotonic()
    return None


def keep_memory() -> None:
    """Keep freed memory for the next step, because new pages take 12 % of a step."""
    with suppress(AttributeError, OSError, TypeError):  # The C library is not glibc.
        mallopt: Any = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 2**30)  # Tensors are allocated on the heap.
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)  # The end of the heap is not returned.
