"""What a run says of itself, in lines for people, JSON lines and TensorBoard, and of its model."""

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

import torch

from elmo_cli import __version__
from elmo_cli.errors import ElmoError, InputError, OutputError
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.model.options import parse_options
from elmo_cli.model.parameters import parameters_by_part
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.text.lines import Sentence, read_sentences
from elmo_cli.training.checkpoint import write_text

logger = logging.getLogger(__name__)

LOG = "log.jsonl"
LOG_SECONDS = 10.0
"""Between two lines for people."""
_STATES = {
    "zero": "from the zero state",
    "carry": "where the sentence before ended: the state was carried",
}


class TrainingLog:
    """The log of a run, which resumes after the last step that is kept."""

    def __init__(self, folder: Path, step: int, n_tokens: int, *, tensorboard: bool) -> None:
        """Open the log of a folder; entries of steps that are done again are taken out."""
        self._path = folder / LOG
        _keep_entries(self._path, step)
        self._board = summary_writer()(str(folder / "tensorboard")) if tensorboard else None
        self._started = self._said = time.monotonic()
        self._first_token = n_tokens

    def write(self, entry: dict[str, Any]) -> None:
        """Add an entry: `step`, and numbers or dictionaries of numbers."""
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror}") from None
        if self._board is not None:
            for name, value in _flat(entry):
                self._board.add_scalar(name, value, entry["step"])

    def rate(self, n_tokens: int) -> float:
        """Tokens a second since this process started to train."""
        return (n_tokens - self._first_token) / max(time.monotonic() - self._started, 1e-9)

    def is_time(self) -> bool:
        """Whether people should be told something."""
        return time.monotonic() - self._said >= LOG_SECONDS

    def say(
        self, step: int, n_tokens: int, progress: float, started_at: float, loss: float
    ) -> None:
        """Tell people how far it is.

        Args:
            step: the steps that are done.
            n_tokens: the tokens that are done.
            progress: the share of the run that is done.
            started_at: the share that was done when this process started.
            loss: the loss in training.
        """
        self._said = time.monotonic()
        share = (progress - started_at) / max(1 - started_at, 1e-9)
        left = (self._said - self._started) * (1 - share) / share if share > 0 else 0.0
        logger.info(
            "step %d, %.1f %%, %.2fM tokens, training loss %.3f, %s tokens/s, %s left",
            *(step, 100 * progress, n_tokens / 1e6, loss, f"{self.rate(n_tokens):,.0f}"),
            duration(left),
        )

    def close(self) -> None:
        """Write what is not written yet."""
        if self._board is not None:
            self._board.close()


def duration(seconds: float) -> str:
    """A time for people: 45 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _keep_entries(path: Path, step: int) -> None:
    """Drop the entries after a step, and a last line that was cut off."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(f"{line}\n")
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    write_text(path, "".join(kept))


def _flat(entry: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    numbers = []
    for name, value in entry.items():
        if isinstance(value, dict):
            numbers += _flat(value, f"{prefix}{name}/")
        elif name != "step" and isinstance(value, (int, float)):
            numbers.append((prefix + name, float(value)))
    return numbers


def summary_writer() -> Any:
    """What writes for TensorBoard, a class.

    Raises:
        ElmoError: its package is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ElmoError(
            'TensorBoard needs a package that is not installed; pip install "elmo-cli[tensorboard]"'
        ) from None
    return SummaryWriter


# The validation text.


class ValidationPerplexity(TypedDict):
    """The perplexity of a text; `<UNK>` counts as a word."""

    forward: float
    backward: float
    average: float
    """exp of the mean of both directions' losses."""
    tokens: int
    unknown: float
    """The share of the tokens that are not in the vocabulary."""


def check_validation_file(path: str | Path) -> None:
    """Make sure that the perplexity of a text can be measured, before there is a model.

    Raises:
        InputError: it cannot be read, or has no sentence.
    """
    if not sum(map(bool, read_sentences(path))):  # all of it is read
        raise InputError(f"{path}: no sentence to measure perplexity on")


def validation_perplexity(
    folder: Path, path: str | Path, device: torch.device, max_tokens: int | None = None
) -> ValidationPerplexity:
    """The perplexity of a text by the model in a folder, as `elmo perplexity` measures it.

    Args:
        folder: a model with its softmax.
        path: a file of text.
        device: where to compute.
        max_tokens: the first sentences with so many tokens are enough.

    Raises:
        InputError: there is no sentence in it.
    """
    model = LanguageModel(model=folder, device=device)
    found = measure_perplexity(model, _first_tokens(read_sentences(path), max_tokens))
    return ValidationPerplexity(
        forward=found.all_words.forward,
        backward=found.all_words.backward,
        average=found.all_words.average,
        tokens=found.tokens,
        unknown=found.unknown,
    )


def _first_tokens(sentences: Iterable[Sentence], max_tokens: int | None) -> Iterator[Sentence]:
    """The first sentences of a text, until they have so many tokens."""
    n_tokens = 0
    for sentence in sentences:
        yield sentence
        n_tokens += len(sentence)
        if max_tokens is not None and n_tokens >= max_tokens:
            return


# The card of the model.


def training_card(
    record: Mapping[str, Any], content: Mapping[str, Any], vocabulary: Vocabulary
) -> str:
    """The card, in Markdown.

    Args:
        record: what training.json says.
        content: of the model's options.json.
        vocabulary: of its softmax.
    """
    options = parse_options(dict(content))
    settings = record["options"]
    n_parameters = sum(parameters_by_part(options, len(vocabulary)).values())
    batch = f"batches of {settings['batch_tokens']:,} tokens"
    if settings["state"] == "carry":
        batch = f"{settings['batch_size']} streams in blocks of {settings['unroll']} tokens"
    softmax = "the full softmax"
    if 0 < settings["negative_samples"] < len(vocabulary):
        softmax = f"a sampled softmax of {settings['negative_samples']:,} words"
    rows = {
        "made": f"{time.strftime('%Y-%m-%d')}, by elmo-cli {__version__}",
        "architecture": _architecture(content),
        "activations": f"{options.n_layers} layers x {options.width}",
        "parameters": f"{n_parameters:,}, the softmax aside",
        "words to predict": f"{len(vocabulary):,}",
        "weights before": record["init_from"] if record["init_from_weights"] else "random",
        "text": ", ".join(f"`{path}`" for path in record["text"]),
        "trained on": f"{record['tokens']:,} tokens in {record['step']:,} steps, "
        f"{duration(record['seconds'])}",
        "sentences start": _STATES[settings["state"]],
        "trained with": f"{batch}, {softmax}, {settings['optimizer']} at "
        f"{settings['learning_rate']:g}, dropout {settings['dropout']:g}, "
        f"{settings['precision']}, seed {settings['seed']}",
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    return f"# A model trained with elmo train\n\n| | |\n|---|---|\n{table}\n{_quality(record)}"


def _architecture(content: Mapping[str, Any]) -> str:
    lstm, char_cnn = content["lstm"], content.get("char_cnn")
    source = "a table of words"
    if char_cnn is not None:
        n_filters = sum(count for _, count in char_cnn["filters"])
        source = (
            f"character CNN ({len(char_cnn['filters'])} filter widths, {n_filters} filters, "
            f"{char_cnn['n_highway']} highway layers)"
        )
    return (
        f"{source}, 2 x {lstm['n_layers']} LSTMs of {lstm['dim']} with projections to "
        f"{lstm['projection_dim']}"
    )


def _quality(record: Mapping[str, Any]) -> str:
    found = record["perplexity"]
    if found is None:
        return "There was no validation text, so how good it is was not measured.\n"
    return (
        f"Perplexity on {found['tokens']:,} tokens of validation text "
        f"(`{record['validation_file']}`), full softmax, {100 * found['unknown']:.1f} % of the "
        f"tokens unknown and counted as `<UNK>`: **forward {found['forward']:.2f}, backward "
        f"{found['backward']:.2f}, average {found['average']:.2f}**. It can only be compared with "
        "figures for the same text and vocabulary.\n"
    )
