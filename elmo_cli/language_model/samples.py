"""Random continuations of a text."""

import math
from collections.abc import Iterator
from numbers import Real
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmo_cli.errors.checks import (
    check_at_least,
    check_choice,
    check_sentence,
    check_type,
)
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.language_model.candidates import exclude_words
from elmo_cli.language_model.gaps import GAP, cut_around_gaps, mark_gaps
from elmo_cli.language_model.language_model import LanguageModel, check_language_model
from elmo_cli.model.bilm import select_state
from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN, UNKNOWN_TOKEN
from elmo_cli.options.text import TextSettings
from elmo_cli.options.tokenizer_names import AUTO
from elmo_cli.text.choose_tokenizer import choose_tokenizer_of_strings
from elmo_cli.types import READING_DIRECTIONS, ReadingDirection, Sentence, Text

SAMPLE_COLUMNS: Final = ("sample_number", "text")


class Samples(NamedTuple):
    """Random continuations of a text."""

    tokens: Sentence
    samples: list[Sentence]
    """Sentences, including the text."""

    def rows(self) -> Iterator[list[object]]:
        """Yield `SAMPLE_COLUMNS` of each sample."""
        for number, sample in enumerate(self.samples, start=1):
            yield [number, " ".join(sample)]


def sample_sentences(
    model: LanguageModel,
    text: Text,
    samples: int = 1,
    *,
    direction: ReadingDirection = "forward",
    temperature: float = 1.0,
    seed: int = 0,
    max_words: int = 50,
    tokenizer: str | None = AUTO,
    language: str | None = None,
) -> list[Sentence]:
    """Continue a text with words drawn at random by their probability.

        sample_sentences(model, "The cat", 2)[1]
        # ["The", "cat", "sees", "what", "you", "want", "to", "touch", "."]

    Neither `<UNK>` nor the boundary that the direction does not predict is drawn.

    Args:
        model: Language model.
        text: Raw text or tokens to continue; may be empty.
        samples: Number of sentences.
        direction: "forward" adds words after the text, and "backward" before it.
        temperature: Divisor of the logits. Below 1, probable words become more
            probable; above 1, less.
        seed: Seed of all random numbers. A sample depends only on it and on its own
            number.
        max_words: Maximum number of added words; a sentence that ends is shorter.
        tokenizer: "auto", "whitespace", "moses", "spacy" or "residues"; a language may
            follow, as in "spacy:de". "auto" splits a text that is tokenized at white
            space, and tokenizes others like the model's training text, else by "moses".
        language: Code of the language of the text. None means the model's.

    Returns:
        Sentences, including the text.

    Raises:
        InputError: The text is neither a string nor a list of tokens, or has a gap.
        SettingsError: `temperature` is not above 0, or another argument has a wrong
            value.
    """
    check_language_model(model)
    check_type("temperature", temperature, Real, "a number above 0")
    if not 0 < temperature < math.inf:
        raise SettingsError(
            "{--temperature}: expected a finite number above 0, found {value}",
            value=temperature,
        )
    check_choice("direction", direction, READING_DIRECTIONS)
    check_at_least("samples", samples, 0)
    check_at_least("max_words", max_words, 0)
    check_at_least("seed", seed, 0)
    if isinstance(text, str):
        settings = TextSettings(tokenizer=tokenizer, language=language)
        chosen = choose_tokenizer_of_strings([text], settings, model.files)
        text = cut_around_gaps(text, chosen.tokenize)
    else:
        text = check_sentence(text, "text", "a string or a list of tokens")
    if GAP in mark_gaps(text):
        raise InputError(
            f"a text to continue cannot contain a gap ({GAP})",
            remedy="Remove the gap.",
        )
    is_backward = direction == "backward"
    end = START_TOKEN if is_backward else END_TOKEN
    other_boundary = END_TOKEN if is_backward else START_TOKEN
    random = [np.random.default_rng([seed, number]) for number in range(samples)]
    sentences = [list(text) for _ in range(samples)]
    # All samples continue from the context and the state at the end of the text.
    contexts, state = model.read([text], direction=direction)
    contexts = contexts.expand(samples, -1)
    first_text = torch.zeros(samples, dtype=torch.int64, device=contexts.device)
    state = select_state(state, first_text)
    running = list(range(samples))  # numbers of the samples that have not ended
    for _ in range(max_words):
        # Row k of the contexts and of the state is that of sample `running[k]`.
        rows = []  # rows of the samples that go on
        new_words = []  # their words
        log_p_of_rows = model.softmax.of_words(contexts)
        for row, (number, log_p) in enumerate(zip(running, log_p_of_rows, strict=True)):
            log_p = exclude_words(model, log_p, other_boundary, UNKNOWN_TOKEN)
            word = _draw(model, log_p, random=random[number], temperature=temperature)
            if word == end:
                continue
            rows.append(row)
            new_words.append(word)
            if is_backward:
                sentences[number].insert(0, word)
            else:
                sentences[number].append(word)
        if not rows:
            break
        running = [running[row] for row in rows]
        state = select_state(state, torch.tensor(rows, device=contexts.device))
        contexts, state = model.read(
            [[word] for word in new_words], direction=direction, state=state
        )
    return sentences


def _draw(
    model: LanguageModel, log_p: Tensor, random: np.random.Generator, temperature: float
) -> str:
    """Draw a word by log probabilities, shape (V,)."""
    scaled = (log_p - log_p.max()) / temperature
    # With Gumbel noise, each word is the largest with its probability.
    index = np.argmax(scaled.numpy() + random.gumbel(size=len(scaled)))
    return model.vocabulary.words[index]
