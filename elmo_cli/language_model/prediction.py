"""A text to the words that may go on with it, come before it or fill a gap in it.

In a gap, both directions meet. If what is left of it (l) and what is right of it (r) were
independent given the word w, Bayes' rule would give

    p(w | l, r)  is proportional to  p(w | l) p(w | r) / p(w)

so their log probabilities are added, that of the word by itself is taken off, and the
result is made to sum to one over the vocabulary. The model does not know p(w); a vocabulary
by falling count does, roughly: it is taken to be log-uniform in the word's rank, as the
sampled softmax of training takes it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmo_cli.errors import InputError, check_at_least
from elmo_cli.inference.batching import BATCH_TOKENS, split_by_size
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.model.bilm import select_state
from elmo_cli.model.vocabulary import END_TOKEN, SPECIAL_TOKENS, START_TOKEN, UNKNOWN_TOKEN
from elmo_cli.settings import DEFAULT_BATCH_SIZE
from elmo_cli.text.records import Sentence, check_sentence

GAP: Final = "___"
"""The token that stands for a word to be found."""


class Candidate(NamedTuple):
    """A word of the vocabulary, and how probable it is."""

    word: str
    probability: float


class Prediction(NamedTuple):
    """The most probable words at a place in a text."""

    tokens: Sentence
    place: str
    """`after` the text, `before` it, or in the `gap` that it has."""
    candidates: list[Candidate]
    """By falling probability."""
    unknown: float
    """The probability of `<UNK>`, of all words outside the vocabulary; 0 in a gap."""


class Substitutes(NamedTuple):
    """The most probable words in the place of each token of a sentence."""

    tokens: Sentence
    candidates: list[list[Candidate]]
    """Of each token, by falling probability."""


def predict_words(
    model: LanguageModel,
    texts: Sequence[Sentence],
    top: int = 10,
    *,
    backward: bool = False,
    with_unknown: bool = False,
) -> list[Prediction]:
    """Find the most probable words after each text, or in its gap.

    After a text (before it, where `backward`), the probabilities are those of the softmax,
    with `</S>` (`<S>`) for the end of the sentence. In a gap, filled by Bayes' rule from both
    sides, there are words only.

    Args:
        texts: each a list of tokens, with `___` where a word is to be found; without
            tokens, the start (or end) of a sentence.
        top: how many words, at most the vocabulary.
        backward: find the word before each text; a gap takes both directions.
        with_unknown: after a text, show `<UNK>` among the words.

    Raises:
        InputError: a text has several gaps, or `top` is less than 1.
    """
    check_at_least("top", top, 1)
    return [
        prediction
        for some in split_by_size(map(check_text, texts), BATCH_TOKENS["cpu"], DEFAULT_BATCH_SIZE)
        for prediction in _predict(model, some, top, backward, with_unknown)
    ]


def _predict(
    model: LanguageModel, texts: list[Sentence], top: int, backward: bool, with_unknown: bool
) -> Iterator[Prediction]:
    unknown = model.vocabulary.indices([UNKNOWN_TOKEN])[0]
    in_gaps = _in_gaps(model, [text for text in texts if GAP in text])
    beside = _beside(model, [text for text in texts if GAP not in text], backward)
    for text in texts:
        has_gap = GAP in text
        log_p = next(in_gaps if has_gap else beside)
        share = log_p[unknown].exp().item()
        if not with_unknown:
            log_p[unknown] = -torch.inf
        place = "gap" if has_gap else "before" if backward else "after"
        yield Prediction(text, place, _best(model, log_p, top), share)


def _in_gaps(model: LanguageModel, texts: list[Sentence]) -> Iterator[Tensor]:
    """The log probability, shape (V,), of every word in the gap of each text."""
    ahead, _ = model.read([text[: text.index(GAP)] for text in texts], backward=False)
    behind, _ = model.read([text[text.index(GAP) + 1 :] for text in texts], backward=True)
    yield from _between(model, ahead, behind)


def _beside(model: LanguageModel, texts: list[Sentence], backward: bool) -> Iterator[Tensor]:
    """The same of every word after each text, or before it."""
    contexts, _ = model.read(texts, backward=backward)
    yield from model.softmax.of_words(contexts)


def substitute_words(
    model: LanguageModel, sentences: Iterable[Sentence], top: int = 10
) -> Iterator[Substitutes]:
    """Find the most probable words in the place of each token, as if a gap were there.

    Args:
        top: how many words for each token, at most the vocabulary.

    Raises:
        InputError: `top` is less than 1.
    """
    check_at_least("top", top, 1)

    def compute(batch: list[Sentence], layer: Tensor) -> list[Substitutes]:
        lengths = [len(sentence) for sentence in batch]
        inner = [0 < index <= length for length in lengths for index in range(length + 2)]
        rows = torch.tensor(inner).nonzero()[:, 0].to(layer.device)  # those of tokens
        ahead, behind = layer.chunk(2, dim=1)
        log_p = _between(model, ahead[rows - 1], behind[rows + 1])
        return [
            Substitutes(sentence, [_best(model, next(log_p), top) for _ in sentence])
            for sentence in batch
        ]

    return model.compute_batches(sentences, compute, Substitutes([], []))


def check_text(text: Sentence) -> Sentence:
    """Make sure that a text, of tokens, has one gap at most, and hand it back."""
    found = list(check_sentence(text))
    n_gaps = found.count(GAP)
    if n_gaps > 1:
        raise InputError(f"expected one gap ({GAP}), found {n_gaps}, in: {' '.join(found)}")
    return found


def cut_around_gaps(text: str, cut: Callable[[str], Sentence]) -> Sentence:
    """The tokens of a text, three or more `_` being one wherever they stand."""
    first, *others = re.split(r"_{3,}", text)
    return [*cut(first), *(token for part in others for token in (GAP, *cut(part)))]


def _between(model: LanguageModel, ahead: Tensor, behind: Tensor) -> Iterator[Tensor]:
    """The log probability, shape (V,), of every word between two contexts, shape (N, P)."""
    ranks = torch.arange(1, len(model.vocabulary) + 1, dtype=torch.float64)
    of_word = ranks.reciprocal().log1p().log()  # by itself, but for a constant
    both = zip(model.softmax.of_words(ahead), model.softmax.of_words(behind), strict=True)
    for left, right in both:
        yield _without(model, left + right - of_word, *SPECIAL_TOKENS)


def _without(model: LanguageModel, log_p: Tensor, *words: str) -> Tensor:
    """Take words out of log probabilities, shape (V,): those of the others sum to one."""
    log_p[model.vocabulary.indices(words)] = -torch.inf
    return log_p.log_softmax(dim=0)


def _best(model: LanguageModel, log_p: Tensor, top: int) -> list[Candidate]:
    """The most probable words, by log probabilities of shape (V,); of equal ones, the first."""
    least = log_p.topk(min(top, len(log_p))).values[-1]
    near = (log_p >= least).nonzero()[:, 0]
    order = near[log_p[near].argsort(descending=True, stable=True)][:top]
    return [
        Candidate(model.vocabulary.words[index], probability)
        for index, probability in zip(order.tolist(), log_p[order].exp().tolist(), strict=True)
        if probability > 0
    ]


def sample_sentences(
    model: LanguageModel,
    text: Sentence,
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
        text: the tokens to continue, perhaps none.
        backward: put words before the text, not after it.
        temperature: what the logits are divided by: below 1 the probable words get more
            probable, above 1 less.
        seed: of all that is random. A sample depends on it and on its own number only.
        max_words: words added at most; a sentence that ends is shorter.

    Returns:
        Sentences, the text included.

    Raises:
        InputError: `temperature` is not above 0, or the text has a gap.
    """
    if not temperature > 0:
        raise InputError(f"temperature {temperature}: expected a number above 0")
    check_at_least("n_samples", n_samples, 0)
    check_at_least("seed", seed, 0)
    if GAP in check_sentence(text):
        raise InputError(f"expected a text without a gap ({GAP}) to continue")
    random = [np.random.default_rng([seed, number]) for number in range(n_samples)]
    return _sample(model, text, random, backward, temperature, max_words)


def _sample(
    model: LanguageModel,
    text: Sentence,
    random: Sequence[np.random.Generator],
    backward: bool,
    temperature: float,
    max_words: int,
) -> list[Sentence]:
    end, never = (START_TOKEN, END_TOKEN) if backward else (END_TOKEN, START_TOKEN)
    samples = [list(text) for _ in random]
    contexts, state = model.read([text], backward=backward)
    contexts = contexts.expand(len(random), -1)
    state = select_state(state, torch.zeros(len(random), dtype=torch.int64, device=contexts.device))
    running = list(range(len(random)))
    for _ in range(max_words):
        drawn = [
            _draw(model, _without(model, log_p, never, UNKNOWN_TOKEN), random[index], temperature)
            for index, log_p in zip(running, model.softmax.of_words(contexts), strict=True)
        ]
        going = [place for place, word in enumerate(drawn) if word != end]
        running = [running[place] for place in going]
        if not running:
            break
        words = [drawn[place] for place in going]
        for index, word in zip(running, words, strict=True):
            samples[index].insert(0 if backward else len(samples[index]), word)
        starts = select_state(state, torch.tensor(going, device=contexts.device))
        contexts, state = model.read([[word] for word in words], backward=backward, state=starts)
    return samples


def _draw(
    model: LanguageModel, log_p: Tensor, random: np.random.Generator, temperature: float
) -> str:
    """A word, by log probabilities of shape (V,)."""
    scaled = (log_p - log_p.max()) / temperature
    # With Gumbel noise, each word is the largest with its probability.
    index = np.argmax(scaled.numpy() + random.gumbel(size=len(scaled)))
    return model.vocabulary.words[index]
