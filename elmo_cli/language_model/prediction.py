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
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.model.bilm import select_state
from elmo_cli.model.characters import END_TOKEN, START_TOKEN
from elmo_cli.model.vocabulary import UNKNOWN_TOKEN
from elmo_cli.text.lines import Sentence, checked_sentence

GAP: Final = "___"
"""The token that stands for a word to be found."""

Array = NDArray[np.float64]
Place = Literal["after", "before", "gap"]


class Candidate(NamedTuple):
    """A word of the vocabulary, and how probable it is."""

    word: str
    probability: float


class Prediction(NamedTuple):
    """The most probable words at a place in a text."""

    tokens: Sentence
    place: Place
    """After the text, before it, or in the gap that it has."""
    candidates: list[Candidate]
    """By falling probability."""


def predict_words(
    model: LanguageModel, texts: Sequence[Sentence], top: int = 10, *, backward: bool = False
) -> list[Prediction]:
    """Find the most probable words after each text, or in its gap.

    After a text (before it, where `backward`), the probabilities are those of the softmax,
    with `</S>` (`<S>`) for the end of the sentence and `<UNK>` for all other words. In a
    gap, filled by Bayes' rule from both sides, these three are left out.

    Args:
        model: a biLM with its softmax.
        texts: each a list of tokens, with `___` where a word is to be found; without
            tokens, the start (or end) of a sentence.
        top: how many words, at most the vocabulary.
        backward: find the word before each text; a gap takes both directions.

    Raises:
        InputError: a text has several gaps, or `top` is less than 1.
    """
    if top < 1:
        raise InputError(f"top {top}: expected 1 or more")
    size = max(1, model.softmax.at_once() // 2)  # a gap takes two contexts
    return [
        prediction
        for start in range(0, len(texts), size)
        for prediction in _predict(model, texts[start : start + size], top, backward)
    ]


def _predict(
    model: LanguageModel, texts: Sequence[Sentence], top: int, backward: bool
) -> list[Prediction]:
    first, last = model.boundaries
    placed = [(text, _place(text, backward)) for text in map(check_text, texts)]
    ahead = [[first, *_left(text)] for text, place in placed if place != "before"]
    behind = [[*_right(text), last] for text, place in placed if place != "after"]
    from_left = iter(_log_probabilities(model, ahead, backward=False))
    from_right = iter(_log_probabilities(model, behind, backward=True))
    predictions = []
    for text, place in placed:
        if place == "gap":
            log_p = next(from_left) + next(from_right) - _log_prior(len(model.vocabulary))
            log_p = _without(model, log_p, START_TOKEN, END_TOKEN, UNKNOWN_TOKEN)
        else:
            log_p = next(from_left if place == "after" else from_right)
        predictions.append(Prediction(text, place, _candidates(model, log_p, top)))
    return predictions


def check_text(text: Sentence, name: str = "") -> Sentence:
    """Make sure that a text has one gap at most, and hand it back.

    Args:
        text: its tokens.
        name: what an error starts with.

    Raises:
        InputError: it has several.
    """
    found = list(checked_sentence(text))
    n_gaps = found.count(GAP)
    if n_gaps > 1:
        raise InputError(f"{name}expected one gap ({GAP}), found {n_gaps}, in: {' '.join(found)}")
    return found


def cut_around_gaps(text: str, cut: Callable[[str], Sentence]) -> Sentence:
    """The tokens of a text, three or more `_` being one wherever they stand."""
    first, *others = re.split(r"_{3,}", text)
    return [*cut(first), *(token for part in others for token in (GAP, *cut(part)))]


def _log_prior(n_words: int) -> Array:
    """How probable each word is by itself, but for a constant; shape (V,)."""
    prior: Array = np.log(np.log1p(1 / (np.arange(n_words) + 1)))
    return prior


def _place(text: Sentence, backward: bool) -> Place:
    if GAP in text:
        return "gap"
    return "before" if backward else "after"


def _left(text: Sentence) -> Sentence:
    return text[: text.index(GAP)] if GAP in text else text


def _right(text: Sentence) -> Sentence:
    return text[text.index(GAP) + 1 :] if GAP in text else text


def _log_probabilities(model: LanguageModel, texts: list[Sentence], *, backward: bool) -> Array:
    """The log probability of every word, float64, shape (B, V), and (0, V) of no texts."""
    if not texts:
        return np.empty((0, len(model.vocabulary)))
    contexts, _ = model.read(texts, backward=backward)
    return _of_words(model, contexts)


def _of_words(model: LanguageModel, contexts: Tensor) -> Array:
    log_p: Array = model.softmax.of_words(contexts).numpy()
    return log_p


def _without(model: LanguageModel, log_p: Array, *words: str) -> Array:
    """Log probabilities of all words, shape (V,), to those of the others, which sum to one."""
    kept = log_p.copy()
    kept[model.vocabulary.indices(words)] = -np.inf
    largest = kept.max()
    total: Array = kept - largest - np.log(np.exp(kept - largest).sum())
    return total


def _candidates(model: LanguageModel, log_p: Array, top: int) -> list[Candidate]:
    """The most probable words; of equal ones, the first in the vocabulary."""
    order = np.argsort(-log_p, kind="stable")[:top]
    words = model.vocabulary.words
    return [
        Candidate(words[index], float(np.exp(log_p[index])))
        for index in order.tolist()
        if log_p[index] > -np.inf
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
        model: a biLM with its softmax.
        text: the tokens to continue, perhaps none.
        n_samples: how many sentences.
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
    _check_sampling(text, n_samples, temperature, seed)
    random = [np.random.default_rng([seed, number]) for number in range(n_samples)]
    added = _sample(model, text, random, backward, temperature, max_words)
    return [[*words[::-1], *text] if backward else [*text, *words] for words in added]


def _check_sampling(text: Sentence, n_samples: int, temperature: float, seed: int) -> None:
    if not temperature > 0:
        raise InputError(f"temperature {temperature}: expected a number above 0")
    for name, value in (("n_samples", n_samples), ("seed", seed)):
        if value < 0:
            raise InputError(f"{name} {value}: expected 0 or more")
    if GAP in checked_sentence(text):
        raise InputError(f"expected a text without a gap ({GAP}) to continue")


def _sample(
    model: LanguageModel,
    text: Sentence,
    random: Sequence[np.random.Generator],
    backward: bool,
    temperature: float,
    max_words: int,
) -> list[list[str]]:
    """The words of each sample, in the order in which they are drawn."""
    first, last = model.boundaries
    end, never = (START_TOKEN, END_TOKEN) if backward else (END_TOKEN, START_TOKEN)
    added: list[Sentence] = [[] for _ in random]
    contexts, state = model.read([[*text, last] if backward else [first, *text]], backward=backward)
    contexts = contexts.expand(len(random), -1)
    state = select_state(state, torch.zeros(len(random), dtype=torch.int64, device=contexts.device))
    running = list(range(len(random)))
    while running and len(added[running[0]]) < max_words:
        drawn = _draw(model, contexts, [random[i] for i in running], temperature, never)
        going = [place for place, word in enumerate(drawn) if word != end]
        running = [running[place] for place in going]
        for index, place in zip(running, going, strict=True):
            added[index].append(drawn[place])
        if running:
            rows = torch.tensor(going, device=contexts.device)
            words = [[drawn[place]] for place in going]
            contexts, state = model.read(words, backward=backward, state=select_state(state, rows))
    return added


def _draw(
    model: LanguageModel,
    contexts: Tensor,
    random: Sequence[np.random.Generator],
    temperature: float,
    never: str,
) -> list[str]:
    """A word for each context, float, shape (N, P)."""
    drawn = []
    size = model.softmax.at_once()
    for start in range(0, len(contexts), size):
        piece = slice(start, start + size)
        for generator, log_p in zip(random[piece], _of_words(model, contexts[piece]), strict=True):
            others = _without(model, log_p, never, UNKNOWN_TOKEN)
            with np.errstate(over="ignore"):  # where the temperature is nearly 0
                p = np.exp((others - others.max()) / temperature)
            index = _inverse(np.cumsum(p), generator.random())
            drawn.append(model.vocabulary.words[index])
    return drawn


def _inverse(cumulative: Array, uniform: float) -> int:
    """The index whose share of a cumulative sum a number from 0 to before 1 falls into."""
    total = cumulative[-1]
    index = np.searchsorted(cumulative, uniform * total, side="right")
    # Rounding may reach the total, whose first index is the last that has a share.
    return int(min(index, np.searchsorted(cumulative, total, side="left")))
