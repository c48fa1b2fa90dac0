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
from itertools import accumulate
from typing import Final, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmo_cli.errors import InputError, check_at_least
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.model.bilm import select_state
from elmo_cli.model.characters import END_TOKEN, START_TOKEN
from elmo_cli.model.vocabulary import SPECIAL_TOKENS, UNKNOWN_TOKEN
from elmo_cli.text.lines import Sentence, checked_sentence

GAP: Final = "___"
"""The token that stands for a word to be found."""

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
    size = max(1, model.softmax.at_once() // 2)  # a gap takes two contexts
    return [
        prediction
        for start in range(0, len(texts), size)
        for prediction in _predict(model, texts[start : start + size], top, backward, with_unknown)
    ]


def _predict(
    model: LanguageModel, texts: Sequence[Sentence], top: int, backward: bool, with_unknown: bool
) -> list[Prediction]:
    first, last = model.boundaries
    unknown = model.vocabulary.indices([UNKNOWN_TOKEN])[0]
    checked = list(map(check_text, texts))
    split = [_split(text, backward) for text in checked]
    predictions = {}
    for place in {place for place, _, _ in split}:
        chosen = [index for index, (other, _, _) in enumerate(split) if other == place]
        contexts = []
        if place != "before":
            left = [[first, *split[index][1]] for index in chosen]
            contexts.append(model.read(left, backward=False)[0])
        if place != "after":
            right = [[*split[index][2], last] for index in chosen]
            contexts.append(model.read(right, backward=True)[0])
        log_p = _between(model, *contexts) if place == "gap" else model.softmax.of_words(*contexts)
        shares = log_p[:, unknown].exp().tolist()
        if not with_unknown:
            log_p[:, unknown] = -torch.inf
        found = zip(chosen, _candidates(model, log_p, top), shares, strict=True)
        for index, candidates, share in found:
            predictions[index] = Prediction(checked[index], place, candidates, share)
    return [predictions[index] for index in range(len(texts))]


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
        found = [
            candidates
            for piece in torch.split(rows, max(1, model.softmax.at_once() // 2))
            for candidates in _candidates(
                model, _between(model, ahead[piece - 1], behind[piece + 1]), top
            )
        ]
        ends = accumulate(lengths)
        return [
            Substitutes(sentence, found[end - len(sentence) : end])
            for sentence, end in zip(batch, ends, strict=True)
        ]

    return model.compute_batches(sentences, compute, Substitutes([], []))


def check_text(text: Sentence) -> Sentence:
    """Make sure that a text, of tokens, has one gap at most, and hand it back.

    Raises:
        InputError: it has several.
    """
    found = list(checked_sentence(text))
    n_gaps = found.count(GAP)
    if n_gaps > 1:
        raise InputError(f"expected one gap ({GAP}), found {n_gaps}, in: {' '.join(found)}")
    return found


def cut_around_gaps(text: str, cut: Callable[[str], Sentence]) -> Sentence:
    """The tokens of a text, three or more `_` being one wherever they stand."""
    first, *others = re.split(r"_{3,}", text)
    return [*cut(first), *(token for part in others for token in (GAP, *cut(part)))]


def _split(text: Sentence, backward: bool) -> tuple[Place, Sentence, Sentence]:
    """Where a word is to be found, and the tokens before and after that place."""
    if GAP in text:
        gap = text.index(GAP)
        return "gap", text[:gap], text[gap + 1 :]
    return ("before", [], text) if backward else ("after", text, [])


def _between(model: LanguageModel, ahead: Tensor, behind: Tensor) -> Tensor:
    """The log probability, shape (N, V), of every word between two contexts, shape (N, P)."""
    ranks = torch.arange(1, len(model.vocabulary) + 1, dtype=torch.float64)
    log_p = model.softmax.of_words(ahead).add_(model.softmax.of_words(behind))
    log_p -= ranks.reciprocal().log1p().log()  # of the word by itself, but for a constant
    return _without(model, log_p, *SPECIAL_TOKENS)


def _without(model: LanguageModel, log_p: Tensor, *words: str) -> Tensor:
    """Take words out of log probabilities, shape (N, V): those of the others sum to one."""
    log_p[:, torch.from_numpy(model.vocabulary.indices(words))] = -torch.inf
    return log_p.sub_(log_p.logsumexp(dim=1, keepdim=True))


def _candidates(model: LanguageModel, log_p: Tensor, top: int) -> Iterator[list[Candidate]]:
    """The most probable words of each row, shape (N, V); of equal ones, the first."""
    words = model.vocabulary.words
    least = log_p.topk(min(top, len(words)), dim=1).values[:, -1:]
    for row, is_near in zip(log_p, log_p >= least, strict=True):
        near = is_near.nonzero()[:, 0]
        order = near[row[near].argsort(descending=True, stable=True)][:top]
        probabilities = row[order].exp().tolist()
        yield [
            Candidate(words[index], probability)
            for index, probability in zip(order.tolist(), probabilities, strict=True)
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
    if GAP in checked_sentence(text):
        raise InputError(f"expected a text without a gap ({GAP}) to continue")
    random = [np.random.default_rng([seed, number]) for number in range(n_samples)]
    added = _sample(model, text, random, backward, temperature, max_words)
    return [[*words[::-1], *text] if backward else [*text, *words] for words in added]


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
        log_p = _without(model, model.softmax.of_words(contexts[piece]), never, UNKNOWN_TOKEN)
        log_p -= log_p.amax(dim=1, keepdim=True)  # (n, V)
        for generator, row in zip(random[piece], (log_p / temperature).numpy(), strict=True):
            # With Gumbel noise, each word is the largest with its probability.
            index = np.argmax(row + generator.gumbel(size=len(row)))
            drawn.append(model.vocabulary.words[index])
    return drawn
