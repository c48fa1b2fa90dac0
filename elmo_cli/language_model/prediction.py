"""Prediction of words after a text, before it or in a gap of it.

Both directions meet in a gap. If the text on the left (l) and the text on the right (r) were
independent given the word w, Bayes' rule would give

    p(w | l, r)  is proportional to  p(w | l) p(w | r) / p(w)

The two log probabilities are added, the log probability of the word by itself is subtracted, and
the result is normalized over the vocabulary. The model does not know p(w). A vocabulary by falling
count approximates it: p(w) is taken to be log-uniform in the word's rank, as in the sampled softmax
of training.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmo_cli.errors.checks import (
    Sentence,
    Text,
    check_at_least,
    check_sentence,
    check_type,
)
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.inference.batching import BATCH_TOKENS, split_by_size
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.model.bilm import select_state
from elmo_cli.model.vocabulary import (
    END_TOKEN,
    SPECIAL_TOKENS,
    START_TOKEN,
    UNKNOWN_TOKEN,
)
from elmo_cli.options.model import DEFAULT_BATCH_SIZE
from elmo_cli.text.tokenizers import tokenize_texts

GAP: Final = "___"  # token that marks the word to predict
_MASK: Final = re.compile(r"\[MASK\]|<mask>")  # tokens of other models for it
PREDICTION_COLUMNS: Final = ("rank", "word", "probability")
SUBSTITUTE_COLUMNS: Final = ("position", "token", "known", *PREDICTION_COLUMNS)
SAMPLE_COLUMNS: Final = ("sample_number", "text")


class Candidate(NamedTuple):
    """A word of the vocabulary with its probability."""

    word: str
    probability: float


class Prediction(NamedTuple):
    """Most probable words after a text, before it or in its gap."""

    tokens: Sentence
    place: str
    """`after` the text, `before` it, or in the `gap` that it has."""
    candidates: list[Candidate]
    """Words by falling probability."""
    unknown: float
    """Probability of `<UNK>`, of all words outside the vocabulary; 0 in a gap."""


class Substitutes(NamedTuple):
    """Most probable words at the position of each token of a sentence."""

    tokens: Sentence
    candidates: list[list[Candidate]]
    """Words for each token, by falling probability."""


class Samples(NamedTuple):
    """Random continuations of a text."""

    tokens: Sentence
    samples: list[Sentence]  # sentences, including the text


Answer = Prediction | Substitutes | Samples


def predict_words(
    model: LanguageModel,
    texts: Sequence[Text],
    top: int = 10,
    *,
    backward: bool = False,
    with_unknown: bool = False,
) -> list[Prediction]:
    """Predict the most probable words after each text, or in its gap.

    After a text (before it, if `backward`), the softmax gives the probabilities, with `</S>`
    (`<S>`) for the end of the sentence. A gap is filled by words only, by Bayes' rule from both
    sides.

    Args:
        model: Language model.
        texts: Raw texts or lists of tokens, with `___` for a word to predict. An empty list is the
            start (or end) of a sentence.
        top: Number of words, at most the size of the vocabulary.
        backward: Predict the word before each text; a gap uses both directions.
        with_unknown: Include `<UNK>` among the words after a text.

    Returns:
        One prediction per text, with its words and their probabilities.

    Raises:
        InputError: A text has several gaps, or `top` is less than 1.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    check_at_least("top", top, 1)
    unknown = model.vocabulary.indices([UNKNOWN_TOKEN])[0]
    predictions = []
    tokenize = partial(cut_around_gaps, cut=model.tokenize)
    checked = map(check_text, tokenize_texts(texts, tokenize))
    for batch in split_by_size(checked, BATCH_TOKENS["cpu"], DEFAULT_BATCH_SIZE):
        in_gaps = _in_gaps(model, [text for text in batch if GAP in text])
        beside = _beside(model, [text for text in batch if GAP not in text], backward)
        for text in batch:
            has_gap = GAP in text
            log_p = next(in_gaps if has_gap else beside)
            share = log_p[unknown].exp().item()
            if not with_unknown:
                log_p[unknown] = -torch.inf
            place = "gap" if has_gap else "before" if backward else "after"
            predictions.append(Prediction(text, place, _best(model, log_p, top), share))
    return predictions


def _in_gaps(model: LanguageModel, texts: list[Sentence]) -> Iterator[Tensor]:
    """Yield the log probability, shape (V,), of every word in the gap of each text."""
    ahead, _ = model.read([text[: text.index(GAP)] for text in texts], backward=False)
    behind, _ = model.read(
        [text[text.index(GAP) + 1 :] for text in texts], backward=True
    )
    yield from _between(model, ahead, behind)


def _beside(
    model: LanguageModel, texts: list[Sentence], backward: bool
) -> Iterator[Tensor]:
    """Yield the log probability, shape (V,), of every word after each text, or before it."""
    contexts, _ = model.read(texts, backward=backward)
    yield from model.softmax.of_words(contexts)


def substitute_words(
    model: LanguageModel, sentences: Iterable[Text], top: int = 10
) -> Iterator[Substitutes]:
    """Find the most probable words in the place of each token, as if a gap were there.

    Args:
        model: Language model.
        sentences: Raw texts or lists of tokens.
        top: Number of words per token, at most the size of the vocabulary.

    Returns:
        An iterator over the words for each token of one sentence.

    Raises:
        InputError: `top` is less than 1.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    check_at_least("top", top, 1)

    def compute(batch: list[Sentence], layer: Tensor) -> list[Substitutes]:
        lengths = [len(sentence) for sentence in batch]
        inner = [
            0 < index <= length for length in lengths for index in range(length + 2)
        ]
        rows = torch.tensor(inner, device=layer.device).nonzero()[
            :, 0
        ]  # rows of tokens
        ahead, behind = layer.chunk(2, dim=1)
        log_p = _between(model, ahead[rows - 1], behind[rows + 1])
        return [
            Substitutes(sentence, [_best(model, next(log_p), top) for _ in sentence])
            for sentence in batch
        ]

    return model.compute_batches(sentences, compute, Substitutes([], []))


def check_text(text: Sentence) -> Sentence:
    """Return a list of tokens; raise an `InputError` if it has several gaps, or a mask of BERT."""
    if mask := _MASK.search("".join(text)):
        raise InputError(
            f"{' '.join(text)}: write {GAP} for the word to predict, not {mask[0]}."
        )
    if (n_gaps := text.count(GAP)) > 1:
        raise InputError(
            f"{' '.join(text)}: {n_gaps} gaps ({GAP}). Fill all but one of them."
        )
    return text


def cut_around_gaps(text: str, cut: Callable[[str], Sentence]) -> Sentence:
    """Tokenize a text; three or more `_` are one token, wherever they stand."""
    first, *others = re.split(r"_{3,}", text)
    return [*cut(first), *(token for part in others for token in (GAP, *cut(part)))]


def _between(model: LanguageModel, ahead: Tensor, behind: Tensor) -> Iterator[Tensor]:
    """Yield the log probability, (V,), of every word between two contexts, shape (N, P)."""
    ranks = torch.arange(
        1, len(model.vocabulary) + 1, dtype=torch.float64, device="cpu"
    )
    of_word = ranks.reciprocal().log1p().log()  # log p(w), up to a constant
    both = zip(
        model.softmax.of_words(ahead), model.softmax.of_words(behind), strict=True
    )
    for left, right in both:
        yield _without(model, left + right - of_word, *SPECIAL_TOKENS)


def _without(model: LanguageModel, log_p: Tensor, *words: str) -> Tensor:
    """Exclude words from log probabilities, shape (V,), and normalize the rest."""
    log_p[model.vocabulary.indices(words)] = -torch.inf
    return log_p.log_softmax(dim=0)


def _best(model: LanguageModel, log_p: Tensor, top: int) -> list[Candidate]:
    """Return the most probable words by log probabilities, shape (V,); ties keep their order."""
    least = log_p.topk(min(top, len(log_p))).values[-1]
    near = (log_p >= least).nonzero()[:, 0]
    order = near[log_p[near].argsort(descending=True, stable=True)][:top]
    return [
        Candidate(model.vocabulary.words[index], probability)
        for index, probability in zip(
            order.tolist(), log_p[order].exp().tolist(), strict=True
        )
        if probability > 0
    ]


def sample_sentences(
    model: LanguageModel,
    text: Text,
    n_samples: int = 1,
    *,
    backward: bool = False,
    temperature: float = 1.0,
    seed: int = 0,
    max_words: int = 50,
) -> list[Sentence]:
    """Continue a text, word by word, each drawn by its probability.

    `<UNK>` is never drawn, nor the boundary that the direction does not predict.

    Args:
        model: Language model.
        text: Raw text or tokens to continue, perhaps none.
        n_samples: Number of sentences.
        backward: Put words before the text instead of after it.
        temperature: Divisor of the logits. Below 1, probable words become more probable; above 1,
            less.
        seed: Seed of all random numbers. A sample depends only on it and on its own number.
        max_words: Maximum number of added words; a sentence that ends is shorter.

    Returns:
        Sentences, including the text.

    Raises:
        InputError: `temperature` is not above 0, or the text has a gap.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    if not temperature > 0:
        raise SettingsError(f"--temperature {temperature}: must be above 0.")
    check_at_least("n_samples", n_samples, 0)
    check_at_least("seed", seed, 0)
    text = (
        model.tokenize(text) if isinstance(text, str) else check_sentence(text, "text")
    )
    if GAP in text:
        raise InputError(f"a text to continue cannot contain a gap ({GAP}).")
    end, never = (START_TOKEN, END_TOKEN) if backward else (END_TOKEN, START_TOKEN)
    random = [np.random.default_rng([seed, number]) for number in range(n_samples)]
    samples = [list(text) for _ in random]
    contexts, state = model.read([text], backward=backward)
    contexts = contexts.expand(n_samples, -1)
    state = select_state(
        state, torch.zeros(n_samples, dtype=torch.int64, device=contexts.device)
    )
    running = list(range(n_samples))
    for _ in range(max_words):
        drawn = [
            _draw(
                model,
                _without(model, log_p, never, UNKNOWN_TOKEN),
                random[index],
                temperature,
            )
            for index, log_p in zip(
                running, model.softmax.of_words(contexts), strict=True
            )
        ]
        going = [row for row, word in enumerate(drawn) if word != end]
        running = [running[row] for row in going]
        if not running:
            break
        words = [drawn[row] for row in going]
        for index, word in zip(running, words, strict=True):
            samples[index].insert(0 if backward else len(samples[index]), word)
        starts = select_state(state, torch.tensor(going, device=contexts.device))
        contexts, state = model.read(
            [[word] for word in words], backward=backward, state=starts
        )
    return samples


def _draw(
    model: LanguageModel, log_p: Tensor, random: np.random.Generator, temperature: float
) -> str:
    """Draw a word by log probabilities, shape (V,)."""
    scaled = (log_p - log_p.max()) / temperature
    # With Gumbel noise, each word is the largest with its probability.
    index = np.argmax(scaled.numpy() + random.gumbel(size=len(scaled)))
    return model.vocabulary.words[index]


def rows_of(answer: Answer, model: LanguageModel) -> Iterator[list[object]]:
    """Yield the rows of predicted words, the most probable word first, or of samples."""
    if isinstance(answer, Samples):
        for number, sample in enumerate(answer.samples, start=1):
            yield [number, " ".join(sample)]
    elif isinstance(answer, Prediction):
        for rank, candidate in enumerate(answer.candidates, start=1):
            yield [rank, *candidate]
    else:
        for position, token in enumerate(answer.tokens):
            known = token in model.vocabulary and token != UNKNOWN_TOKEN
            for rank, candidate in enumerate(answer.candidates[position], start=1):
                yield [position, token, known, rank, *candidate]
