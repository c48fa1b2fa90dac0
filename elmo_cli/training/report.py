"""Reports of a run for people, as JSON lines and for TensorBoard; and the model that it writes."""

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from elmo_cli.atomic import write_lines
from elmo_cli.errors import OutputError, counted, load_extra
from elmo_cli.inference.device import Device
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.language_model.softmax import write_softmax
from elmo_cli.model.weights import write_weights
from elmo_cli.text.records import Sentence
from elmo_cli.training.card import make_record, write_record
from elmo_cli.training.checkpoint import Signature
from elmo_cli.training.corpus import TrainingText
from elmo_cli.training.run import Run
from elmo_cli.training.start import VOCABULARY_FILE, Start

logger = logging.getLogger(__name__)

LOG_SECONDS = 10.0
"""Minimum time between two progress messages."""


class Report:
    """Everything that the first process writes into the folder of a run, except checkpoints."""

    def __init__(
        self,
        run: Run,
        signature: Signature,
        folder: Path,
        start: Start,
        text: TrainingText,
        validation_file: str | Path | None,
        *,
        tensorboard: bool,
    ) -> None:
        """Open the log, and remove the entries of steps that the run will repeat."""
        self._run, self._signature, self._folder = run, signature, folder
        self._start, self._text = start, text
        self._validation_file = validation_file
        self._last_message = time.monotonic()
        self._evaluated_step: int | None = None
        self._log = folder / "log.jsonl"
        if self._log.exists():
            write_lines(self._log, _read_log(self._log, run.step))
        self._board = load_summary_writer()(str(folder / "tensorboard")) if tensorboard else None

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
            time_left = timedelta(seconds=round(run.seconds * (1 / max(run.share_done, 1e-9) - 1)))
            logger.info(
                "step %d, %.1f %%, %.2fM tokens, training loss %.3f, %s tokens/s, %s left",
                run.step,
                100 * run.share_done,
                run.n_tokens / 1e6,
                loss,
                f"{speed:,.0f}",
                time_left,
            )

    def evaluate(self, max_tokens: float = float("inf")) -> dict[str, float] | None:
        """Write the model, and measure its perplexity on the validation text.

        Args:
            max_tokens: Read the first sentences of the text, until they have `max_tokens` tokens.

        Returns:
            See `measure`; None without a text.
        """
        self._write_model()
        run, path, perplexity = self._run, self._validation_file, None
        if path is not None:
            device = run.processes.device
            perplexity = measure(self._folder, device, path, self._text, max_tokens)
            logger.info(
                "step %d, validation perplexity %.2f (forward %.2f, backward %.2f) on %s tokens",
                run.step,
                perplexity["average"],
                perplexity["forward"],
                perplexity["backward"],
                f"{perplexity['tokens']:,}",
            )
            self._write(perplexity, "validation")
        self._write_record(perplexity)
        self._evaluated_step = run.step
        return perplexity

    def write_model(self) -> None:
        """Write the model of the last step, unless `evaluate` has done so."""
        if self._evaluated_step != self._run.step:
            self._write_model()
            self._write_record(None)

    def close(self) -> None:
        """Write buffered entries."""
        if self._board is not None:
            self._board.close()

    def _write(self, numbers: Mapping[str, float], heading: str | None = None) -> None:
        """Write numbers of the last step to the log."""
        entry = numbers if heading is None else {heading: numbers}
        try:
            with open(self._log, "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": self._run.step, **entry}) + "\n")
        except OSError as error:
            raise OutputError(f"{self._log}: cannot be written: {error.strerror}.") from None
        if self._board is not None:
            for name, value in numbers.items():
                tag = f"{heading}/{name}" if heading else name
                self._board.add_scalar(tag, value, self._run.step)

    def _write_model(self) -> None:
        """Write the files that `--model` reads."""
        run, folder, content = self._run, self._folder, self._start.content
        # AllenNLP requires every key.
        parsed = run.objective.bilm.options
        options: dict[str, Any] = {"lstm": {**content["lstm"], **asdict(parsed.lstm)}}
        if parsed.char_cnn is not None:
            # n_characters is 261 in bilm-tf's training, and 262 where a model is used.
            options["char_cnn"] = {
                **content["char_cnn"],
                "n_highway": parsed.char_cnn.n_highway,
                "max_characters_per_token": parsed.char_cnn.max_characters_per_token,
                "n_characters": 262,
            }
        tokenizer = self._text.tokenizer.to_attributes()
        options["training"] = {"state": run.options.state, **tokenizer}
        write_lines(folder / "options.json", [json.dumps(options, indent=1)])
        write_weights(folder / "weights.hdf5", run.objective.bilm)
        write_lines(folder / VOCABULARY_FILE, run.vocabulary.words)
        weight, bias = (p.detach().cpu().numpy() for p in run.objective.softmax.parameters())
        write_softmax(folder / "softmax.hdf5", weight, bias)

    def _write_record(self, perplexity: dict[str, float] | None) -> None:
        """Write how the model was trained and how good it is, for people and programs."""
        validation = self._validation_file
        parts = (self._run, self._signature, self._start, self._text, validation, perplexity)
        write_record(self._folder, make_record(*parts))


def measure(
    folder: Path,
    device: Device,
    path: str | Path,
    text: TrainingText,
    max_tokens: float = float("inf"),
) -> dict[str, float]:
    """Measure the perplexity of the model in a folder on the first tokens of a validation text.

    Args:
        folder: Folder of the model.
        device: Device that computes.
        path: Validation text, which is read as `text` is.
        text: Text of the training.
        max_tokens: Number of tokens after which the text is not read further.

    Returns:
        `forward` and `backward` perplexity, with `<UNK>` counted as a word; `average`, exp of the
        mean of both directions' losses; the number of `tokens`, and their share that is `unknown`.
    """
    model = LanguageModel(model=folder, device=device)
    sentences = text.validation_sentences(path)
    measured = measure_perplexity(model, _first_sentences(sentences, max_tokens))
    perplexity: dict[str, float] = asdict(measured.all_words)
    return {**perplexity, "tokens": measured.tokens, "unknown": measured.unknown}


def _read_log(path: Path, last_step: int) -> list[str]:
    """Return the lines of a log up to a step. Log a warning if other lines cannot be read."""
    try:
        # A kill leaves an incomplete last line, which the split separates.
        *lines, _ = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}.") from None
    steps = list(map(_step_of_entry, lines))
    if n_damaged := steps.count(None):
        logger.warning("Warning: %s: removed %s.", path, counted(n_damaged, "damaged line"))
    pairs = zip(lines, steps, strict=True)
    return [line for line, step in pairs if step is not None and step <= last_step]


def _step_of_entry(line: str) -> int | None:
    """Return the step of a line of the log; None for a damaged line."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return step if type(step) is int else None


def _first_sentences(sentences: Iterable[Sentence], max_tokens: float) -> Iterator[Sentence]:
    """Yield the first sentences of a text, until they have `max_tokens` tokens."""
    for sentence in sentences:
        yield sentence
        max_tokens -= len(sentence)
        if max_tokens <= 0:
            return


def load_summary_writer() -> Any:
    """Import the class that writes for TensorBoard. Raise an `ElmoError` if it is missing."""
    return load_extra("TensorBoard", "torch.utils.tensorboard", "tensorboard").SummaryWriter
