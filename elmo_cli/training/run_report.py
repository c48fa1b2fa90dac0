"""Everything that a run writes into its folder, except checkpoints.

options.json, weights.hdf5,        the model, as `--model` reads it
vocab.txt, softmax.hdf5
log.jsonl                          numbers of the steps, one JSON object per line
tensorboard/                       the same numbers for TensorBoard
training.json, card.md             the record: how the model was trained and how good it is, for
                                   programs and for people

The signature in training.json recognizes a run that is finished, whose checkpoint was removed.
"""

import json
import logging
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import ModelError, OptionsError, OutputError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.errors.wording import counted
from elmo_cli.files.atomic import write_lines
from elmo_cli.files.json_form import json_text
from elmo_cli.inference.device import Device
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.language_model.softmax_file import write_softmax
from elmo_cli.model.options import read_json
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.model.weights import write_weights
from elmo_cli.pretrained.roles import candidates
from elmo_cli.training.checkpoint import (
    CHECKPOINT_FILE,
    Description,
    Signature,
    check_same_run,
    is_identity,
)
from elmo_cli.training.training_options import effective_options
from elmo_cli.training.training_run import Run
from elmo_cli.version import __version__

logger = logging.getLogger(__name__)

RECORD_FILE = "training.json"
CARD_FILE = "card.md"
VOCABULARY_FILE = "vocab.txt"
LOG_SECONDS = 10.0  # minimum time between two progress messages

Figures = dict[str, float]
"""Perplexity of a model: `forward` and `backward`, with `<UNK>` counted as a word; `average`, exp
of the mean of both directions' losses; the number of `tokens`, and their share that is `unknown`.
"""


class Report:
    """Everything that the first process writes into the folder of a run, except checkpoints."""

    def __init__(
        self, run: Run, description: Description, *, tensorboard: bool
    ) -> None:
        """Open the log, and remove the entries of steps that the run will repeat."""
        self._run, self._description = run, description
        self._last_message = time.monotonic()
        self._log = description.folder / "log.jsonl"
        if self._log.exists():
            write_lines(self._log, _read_log(self._log, run.step))
        board = description.folder / "tensorboard"
        self._board = load_summary_writer()(str(board)) if tensorboard else None

    def log_step(self, loss: float) -> None:
        """Log the last step with the training loss. Log a message from time to time."""
        run, now = self._run, time.monotonic()
        speed = run.n_tokens / max(run.seconds, 1e-9)
        numbers = {
            "tokens": run.n_tokens,
            "progress": run.share_done,
            "training_loss": loss,
            "learning_rate": run.learning_rate,
            "tokens_per_second": speed,
            "seconds": run.seconds,
        }
        self._write(numbers)
        if now - self._last_message >= LOG_SECONDS:
            self._last_message = now
            time_left = timedelta(
                seconds=round(run.seconds * (1 / max(run.share_done, 1e-9) - 1))
            )
            logger.info(
                f"Step {run.step}, {100 * run.share_done:.1f} %, {run.n_tokens / 1e6:.2f}M tokens, "
                f"training loss {loss:.3f}, {speed:,.0f} tokens/s, {time_left} left"
            )

    def evaluate(self, max_tokens: float = math.inf) -> Figures | None:
        """Write the model with its record, and measure it on up to `max_tokens` tokens."""
        run, description = self._run, self._description
        write_model(run, description)
        figures = (
            measure(description, run.processes.device, max_tokens)
            if max_tokens
            else None
        )
        if figures is not None:
            logger.info(
                f"Step {run.step}, validation perplexity {figures['average']:.2f} (forward "
                f"{figures['forward']:.2f}, backward {figures['backward']:.2f}) on "
                f"{figures['tokens']:,} tokens"
            )
            self._write(figures, "validation")
        write_record(run, description, figures)
        return figures

    def close(self) -> None:
        """Write buffered entries."""
        if self._board is not None:
            self._board.close()

    def _write(self, numbers: Mapping[str, float], heading: str | None = None) -> None:
        entry = numbers if heading is None else {heading: numbers}
        try:
            with open(self._log, "a", encoding="utf-8") as file:
                file.write(json_text({"step": self._run.step, **entry}) + "\n")
        except OSError as error:
            raise OutputError(
                f"{self._log}: cannot be written: {error.strerror}."
            ) from None
        if self._board is not None:
            for name, value in numbers.items():
                tag = f"{heading}/{name}" if heading else name
                self._board.add_scalar(tag, value, self._run.step)


def load_summary_writer() -> Any:
    """Import the class that writes for TensorBoard. Raise an `ElmoError` if it is missing."""
    return load_extra(
        "TensorBoard", "torch.utils.tensorboard", "tensorboard"
    ).SummaryWriter


def _read_log(path: Path, last_step: int) -> list[str]:
    """Return the lines of a log up to a step. Log a warning if other lines cannot be read."""
    try:
        # A kill leaves an incomplete last line, which the split separates.
        *lines, _ = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}.") from None
    steps = list(map(_step_of_entry, lines))
    if n_damaged := steps.count(math.inf):
        logger.warning(
            "Warning: %s: removed %s.", path, counted(n_damaged, "damaged line")
        )
    return [line for line, step in zip(lines, steps, strict=True) if step <= last_step]


def _step_of_entry(line: str) -> float:
    """Return the step of a line of the log; infinity for a damaged line."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return math.inf
    return step if type(step) is int else math.inf


def write_model(run: Run, description: Description) -> None:
    """Write the files that `--model` reads."""
    folder, content, bilm = (
        description.folder,
        description.start.content,
        run.objective.bilm,
    )
    # AllenNLP requires every key.
    options: dict[str, Any] = {"lstm": {**content["lstm"], **asdict(bilm.options.lstm)}}
    char_cnn = bilm.options.char_cnn
    if char_cnn is not None:
        # n_characters is 261 in bilm-tf's training, and 262 where a model is used.
        options["char_cnn"] = {
            **content["char_cnn"],
            "n_highway": char_cnn.n_highway,
            "max_characters_per_token": char_cnn.max_characters_per_token,
            "n_characters": 262,
        }
    tokenizer = description.text.tokenizer.to_attributes()
    options["training"] = {"state": run.options.state, **tokenizer}
    write_lines(folder / "options.json", [json.dumps(options, indent=1)])
    write_weights(folder / "weights.hdf5", bilm)
    write_lines(folder / VOCABULARY_FILE, run.vocabulary.words)
    weight, bias = (
        p.detach().cpu().numpy() for p in run.objective.softmax.parameters()
    )
    write_softmax(folder / "softmax.hdf5", weight, bias)


def measure(
    description: Description, device: Device, max_tokens: float = math.inf
) -> Figures | None:
    """Measure the perplexity of the model in the folder of a run, if there is validation text."""
    path = description.validation_file
    if path is None:
        return None
    model = LanguageModel(model=description.folder, device=device)
    sentences = description.text.validation_sentences(path)
    measured = measure_perplexity(model, _first_sentences(sentences, max_tokens))
    figures: Figures = asdict(measured.all_words)
    return {**figures, "tokens": measured.tokens, "unknown": measured.unknown}


def _first_sentences(
    sentences: Iterable[Sentence], max_tokens: float
) -> Iterator[Sentence]:
    """Yield the first sentences of a text, until they have `max_tokens` tokens."""
    for sentence in sentences:
        yield sentence
        max_tokens -= len(sentence)
        if max_tokens <= 0:
            return


def write_record(
    run: Run, description: Description, perplexity: Figures | None
) -> None:
    """Write training.json and card.md, for the model of the last step."""
    n_words = len(run.vocabulary)
    start, text, signature = description.start, description.text, description.signature
    validation_file = description.validation_file
    record = {
        "elmo_cli_version": __version__,
        "date": time.strftime("%Y-%m-%d"),
        "finished": run.is_done,
        "share_done": 1.0 if run.is_done else run.share_done,
        "step": run.step,
        "tokens": run.n_tokens,
        "seconds": run.seconds,
        "text": [str(path) for path in text.paths],
        "tokenizer": text.tokenizer.to_attributes(),
        "text_column": text.settings.text_column,
        "init_from": start.name,
        "init_from_weights": start.files is not None,
        "words": n_words,
        "options": effective_options(run.options, n_words, run.warmup_steps),
        "signature": {"identity": signature.identity, "options": signature.options},
        "validation_file": None if validation_file is None else str(validation_file),
        "perplexity": perplexity,
    }
    write_lines(description.folder / RECORD_FILE, [json.dumps(record, indent=1)])
    title = "# A model trained with elmo train"
    state = (
        f"**Training is not finished**: this is the model after step {run.step:,}, "
        f"{run.share_done:.1%} of the run."
    )
    heading = [title, ""] if run.is_done else [title, "", state, ""]
    rows = [f"| {name} | {value} |" for name, value in _card_rows(record).items()]
    lines = [*heading, _describe_perplexity(record), "", "| | |", "|---|---|", *rows]
    write_lines(description.folder / CARD_FILE, lines)


def _describe_perplexity(record: Mapping[str, Any]) -> str:
    perplexity = record["perplexity"]
    if perplexity is None:
        reason = (
            ""
            if record["validation_file"]
            else ", because there was no validation text"
        )
        return f"The perplexity of this model was not measured{reason}."
    return (
        f"Perplexity on {perplexity['tokens']:,} tokens of validation text "
        f"(`{record['validation_file']}`), full softmax, {100 * perplexity['unknown']:.1f} % "
        f"of the tokens unknown and counted as `<UNK>`: **forward {perplexity['forward']:.2f}, "
        f"backward {perplexity['backward']:.2f}, average {perplexity['average']:.2f}**. "
        "Compare it only with figures for the same text and vocabulary."
    )


def _card_rows(record: Mapping[str, Any]) -> Mapping[str, Any]:
    start = "" if record["init_from_weights"] else "random weights, architecture of "
    column = record["text_column"]
    duration = timedelta(seconds=round(record["seconds"]))
    return {
        "trained by": f"elmo-cli {record['elmo_cli_version']}, {record['date']}",
        "started from": f"{start}{record['init_from']}",
        "text": ", ".join(f"`{path}`" for path in record["text"]),
        **({"text column": f"`{column}`"} if column else {}),
        **record["tokenizer"],
        "words to predict": f"{record['words']:,}",
        "trained on": f"{record['tokens']:,} tokens in {record['step']:,} steps, {duration}",
        **record["options"],
    }


def is_finished(description: Description) -> bool:
    """Return whether the folder has the finished model of this run alone; refuse another model."""
    folder, signature = description.folder, description.signature
    weights = candidates(folder, "weights")
    if not weights or (folder / CHECKPOINT_FILE).exists():
        return False
    before = _read_signature(folder)
    if before is None:
        raise ModelError(
            f"{folder}: the folder contains {weights[0].name}, but no {CHECKPOINT_FILE}. Choose "
            f"another folder, and --init-from {folder} to start from that model."
        )
    check_same_run(before, description)
    if before.options != signature.options:
        raise ModelError(
            f"{folder}: training is finished, and its checkpoint was removed. To train longer, "
            f"choose another folder and --init-from {folder}, or next time use --keep-checkpoint."
        )
    return True


def _read_signature(folder: Path) -> Signature | None:
    """Return the signature of the finished run in a folder; None without a record of one."""
    try:
        record = read_json(folder / RECORD_FILE)
    except OptionsError:
        return None
    match record:
        case {
            "finished": True,
            "signature": {"identity": identity, "options": dict(options)},
        }:
            if is_identity(identity):
                return Signature(
                    identity, options, read_vocabulary(folder / VOCABULARY_FILE).words
                )
    return None
