"""Text to trained weights: a first, simple trainer.

Every sentence starts from the zero state, in training as in `elmo embed`.
Sentences stream; a window of them is cut into batches of like length, which run
in random order.
"""

import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_cli.batching import batches_by_length, windows
from elmo_cli.bilm import BiLm
from elmo_cli.errors import InputError, ModelError, OptionsError
from elmo_cli.language_model import Softmax, predictions
from elmo_cli.options import parse_options, read_options
from elmo_cli.softmax_file import write_softmax
from elmo_cli.text import Sentence, read_sentences
from elmo_cli.vocabulary import Vocabulary, read_vocabulary, write_vocabulary
from elmo_cli.weights import write_weights

logger = logging.getLogger(__name__)

WINDOW_TOKENS = 200_000


@dataclass(frozen=True)
class TrainingOptions:
    """How to train. The learning rate warms up, stays, and falls to 0 over the last third."""

    steps: int
    batch_tokens: int = 4096
    learning_rate: float = 2e-3
    warmup_steps: int = 200
    samples: int = 2048
    """Words drawn for the sampled softmax of each batch."""
    dropout: float = 0.0
    clip_norm: float = 1.0
    longest_sentence: int = 100
    """Tokens; longer sentences are cut into pieces."""
    checkpoint_steps: int = 250
    seed: int = 0


class Run:
    """A training run: all that changes from step to step, and all that a checkpoint keeps."""

    def __init__(
        self, model_options: dict[str, Any], vocabulary: Vocabulary, options: TrainingOptions
    ) -> None:
        torch.manual_seed(options.seed)
        self.model_options = model_options
        self.vocabulary = vocabulary
        self.options = options
        self.bilm = BiLm(parse_options(model_options), dropout=options.dropout)
        self.softmax = Softmax(len(vocabulary), self.bilm.options.lstm.projection_dim)
        parameters = [*self.bilm.parameters(), *self.softmax.parameters()]
        self.optimizer = torch.optim.AdamW(
            parameters, lr=options.learning_rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True
        )
        self.step = 0
        self.n_tokens = 0

    def train_step(self, sentences: Sequence[Sentence]) -> float:
        """One step of the optimizer on a batch; the sampled loss, in nats a prediction."""
        rate = self.options.learning_rate * _schedule(self.step, self.options)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.bilm.train()
        losses = [
            self.softmax.sampled(direction, self.options.samples).mean()
            for direction in predictions(self.bilm, self.vocabulary, sentences)
        ]
        loss: Tensor = 0.5 * (losses[0] + losses[1])
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(
            self.optimizer.param_groups[0]["params"], self.options.clip_norm
        )
        self.optimizer.step()
        self.step += 1
        self.n_tokens += sum(map(len, sentences))
        return loss.item()

    def save(self, folder: Path) -> None:
        """Write the checkpoint, whole or not at all."""
        state = {
            "model_options": json.dumps(self.model_options, sort_keys=True),
            "step": self.step,
            "n_tokens": self.n_tokens,
            "bilm": self.bilm.state_dict(),
            "softmax": self.softmax.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        partial = folder / "checkpoint.pt.partial"
        torch.save(state, partial)
        os.replace(partial, folder / "checkpoint.pt")

    def load(self, folder: Path) -> None:
        """Continue from the checkpoint of a folder."""
        state = torch.load(folder / "checkpoint.pt", weights_only=True)
        if state["model_options"] != json.dumps(self.model_options, sort_keys=True):
            raise ModelError(
                f"{folder}: its checkpoint is of another architecture than the options; "
                "choose another folder"
            )
        self.step, self.n_tokens = state["step"], state["n_tokens"]
        self.bilm.load_state_dict(state["bilm"])
        self.softmax.load_state_dict(state["softmax"])
        self.optimizer.load_state_dict(state["optimizer"])

    def export(self, folder: Path, dtype: str = "float32") -> None:
        """Write the folder that `--model` takes, and its softmax."""
        write_weights(folder / "weights.hdf5", self.bilm, dtype)
        write_vocabulary(folder / "vocab.txt", self.vocabulary)
        (folder / "options.json").write_text(json.dumps(self.model_options, indent=1) + "\n")
        weight, bias = self.softmax.weight.detach(), self.softmax.bias.detach()
        write_softmax(folder / "softmax.hdf5", weight.numpy(), bias.numpy(), dtype)


def train_model(
    texts: Sequence[Path],
    folder: Path,
    options_file: Path,
    options: TrainingOptions,
    *,
    heldout: Path | None = None,
    vocabulary_file: Path | None = None,
    vocabulary_size: int = 25_000,
) -> dict[str, float]:
    """Train a model of the architecture of an options.json, into a folder; see `train`."""
    if read_options(options_file).char_cnn is None:
        raise OptionsError(f"{options_file}: expected a character model (char_cnn) to train")
    kept = folder / "vocab.txt"
    folder.mkdir(parents=True, exist_ok=True)
    if not kept.exists():  # a run that continues keeps the vocabulary it began with
        vocabulary = (
            read_vocabulary(vocabulary_file)
            if vocabulary_file
            else count_vocabulary(texts, vocabulary_size)
        )
        write_vocabulary(kept, vocabulary)
    content = json.loads(options_file.read_text(encoding="utf-8"))
    return train(Run(content, read_vocabulary(kept), options), texts, heldout, folder)


def count_vocabulary(paths: Sequence[Path], n_words: int) -> Vocabulary:
    """The `n_words` most frequent words of text files, special tokens first."""
    counts: Counter[str] = Counter()
    for path in paths:
        for sentence in read_sentences(path):
            counts.update(sentence)
    special = ["<S>", "</S>", "<UNK>"]
    frequent = [word for word, _ in counts.most_common(n_words) if word not in special]
    return Vocabulary([*special, *frequent][:n_words])


def train(
    run: Run, training: Sequence[Path], heldout: Path | None, folder: Path
) -> dict[str, float]:
    """Train to the last step, from the checkpoint of the folder if it has one.

    Writes options.json, weights.hdf5, vocab.txt, softmax.hdf5, training.json.

    Returns:
        The held-out perplexities, as `heldout_perplexity`; empty without held-out text.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "checkpoint.pt").exists():
        run.load(folder)
        logger.info("continuing at step %d", run.step)
    started, n_tokens = time.monotonic(), run.n_tokens
    average = None
    for batch in _batches(training, run.options, skip=run.step):
        if run.step >= run.options.steps:
            break
        loss = run.train_step(batch)
        average = loss if average is None else 0.98 * average + 0.02 * loss
        if run.step % 25 == 0:
            rate = (run.n_tokens - n_tokens) / (time.monotonic() - started)
            left = (run.options.steps - run.step) * run.options.batch_tokens / rate / 60
            logger.info(
                "step %d of %d, %.2fM tokens, sampled loss %.3f, %.0f tokens/s, %.0f min left",
                *(run.step, run.options.steps, run.n_tokens / 1e6, average, rate, left),
            )
        if run.step % run.options.checkpoint_steps == 0:
            run.save(folder)
        if heldout and run.step % 500 == 0:
            logger.info("held out, first lines: %s", heldout_perplexity(run, heldout, 20_000))
    run.save(folder)
    run.export(folder)
    result = heldout_perplexity(run, heldout) if heldout else {}
    _write_log(folder, run, result)
    return result


def _write_log(folder: Path, run: Run, result: dict[str, float]) -> None:
    record = {**asdict(run.options), "step": run.step, "n_tokens": run.n_tokens, **result}
    (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n")


def _schedule(step: int, options: TrainingOptions) -> float:
    """The share of the learning rate at a step."""
    left = (options.steps - step) / (options.steps / 3)
    return min((step + 1) / options.warmup_steps, 1.0, left)


def _batches(
    paths: Sequence[Path], options: TrainingOptions, skip: int
) -> Iterator[list[Sentence]]:
    """Batches without end, the same for the same seed; the first `skip` are left out."""
    shuffle = random.Random(options.seed)
    n_batches = 0
    while True:
        pieces = (
            sentence[start : start + options.longest_sentence]
            for path in paths
            for sentence in read_sentences(path)
            for start in range(0, len(sentence), options.longest_sentence)
        )
        for window in windows(pieces, WINDOW_TOKENS, WINDOW_TOKENS):
            lengths = [len(sentence) for sentence in window]
            batches = list(batches_by_length(lengths, options.batch_tokens))
            shuffle.shuffle(batches)
            for batch in batches[skip:]:
                yield [window[index] for index in batch]
            skip = max(0, skip - len(batches))
            n_batches += len(batches)
        if n_batches == 0:
            raise InputError(f"{', '.join(map(str, paths))}: no sentence to train on")


@torch.inference_mode()
def heldout_perplexity(run: Run, path: Path, max_tokens: int | None = None) -> dict[str, float]:
    """The perplexity of both directions with the full softmax, `<UNK>` counted as a word."""
    run.bilm.eval()
    totals, n_predictions, n_unknown, n_tokens = [0.0, 0.0], 0, 0, 0
    for window in windows(read_sentences(path), 20_000, 20_000):
        for batch in batches_by_length([len(sentence) for sentence in window], 2048):
            sentences = [window[index] for index in batch]
            directions = predictions(run.bilm, run.vocabulary, sentences)
            for direction, prediction in enumerate(directions):
                totals[direction] += run.softmax(prediction).sum().item()
            n_predictions += len(directions[0].targets)
            tokens = [token for sentence in sentences for token in sentence]
            n_tokens += len(tokens)
            n_unknown += sum(token not in run.vocabulary for token in tokens)
        if max_tokens is not None and n_tokens >= max_tokens:
            break
    forward, backward = (total / n_predictions for total in totals)
    perplexities = torch.tensor([forward, backward, (forward + backward) / 2]).exp().tolist()
    return {
        **dict(zip(("forward", "backward", "average"), perplexities, strict=True)),
        "tokens": n_tokens,
        "unknown": n_unknown / max(n_tokens, 1),
    }
