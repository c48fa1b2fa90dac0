"""The perplexity of the model in the folder of a run."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from elmo_cli.inference.device import Device
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.perplexity import measure_perplexity
from elmo_cli.training.description import Description
from elmo_cli.types import Sentence

Figures = dict[str, float]
"""Perplexity of a model: `forward` and `backward`, with `<UNK>` counted as a word;
`average`, exp of the mean of both directions' losses; the number of `tokens`, and their
share that is `unknown`."""


def measure_saved_model(
    description: Description, device: Device, max_tokens: float = math.inf
) -> Figures | None:
    """Measure the perplexity of the saved model on up to `max_tokens` tokens.

    Return None without validation text.
    """
    path = description.validation_file
    if path is None:
        return None
    model = LanguageModel(model=description.folder, device=device)
    sentences = description.training_text.validation_sentences(path)
    measured = measure_perplexity(model, _first_sentences(sentences, max_tokens))
    figures: Figures = asdict(measured.all_words)
    figures["tokens"] = measured.tokens
    figures["unknown"] = measured.unknown
    return figures


def _first_sentences(
    sentences: Iterable[Sentence], max_tokens: float
) -> Iterator[Sentence]:
    """Yield the first sentences of a text, until they have `max_tokens` tokens."""
    n_tokens = 0
    for sentence in sentences:
        yield sentence
        n_tokens += len(sentence)
        if n_tokens >= max_tokens:
            return
