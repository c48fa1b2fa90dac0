"""Surprisal of the tokens, words or regions of sentences, in bits, and their table.

The surprisal of a token is -log2 of its probability in its context. A token that is not in the
vocabulary has the surprisal of `<UNK>`, which covers all unknown words. A row of the table is a
unit of a sentence. Its surprisal is the sum over its tokens:

token      one token
word       separated by white space in the text: `didn` and `'t` are the word `didn't`
region     separated by `|` in the text: `The horse | raced past the barn | fell.`

Next to the surprisal stands what else predicts the reading time of a word: its length and its log
frequency, from `frequencies`. Minus this is the surprisal of the word without a context.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, chain
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo_cli.errors.checks import (
    Sentence,
    Text,
    check_batch,
    check_choice,
    check_sentence,
    check_type,
)
from elmo_cli.errors.exceptions import InputError
from elmo_cli.inference.fast_bilm import BACKWARD, BOTH, FORWARD
from elmo_cli.language_model.frequencies import estimate_frequencies, sum_frequencies
from elmo_cli.language_model.scoring import LanguageModel, ScoredRecord, score_records
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, Direction
from elmo_cli.options.text import TextSettings
from elmo_cli.text.parsers import row_record
from elmo_cli.text.records import Record
from elmo_cli.text.tokenizers import Tokenizer, chosen_tokenizer, normalize

UnitKind = Literal["token", "word", "region"]
SLOTS: Final[dict[str, Sequence[int]]] = {
    "forward": FORWARD,
    "backward": BACKWARD,
    "both": BOTH,
}
"""Directions of `LanguageModel.score_batch` by their name."""
_REGION_MARK: Final = "|"


class Unit(NamedTuple):
    """Part of a sentence."""

    number: int
    """Position of a token, from 0; or number of a word or region, from 1."""
    text: str
    tokens: slice
    """Positions of its tokens."""
    region: "Unit | None" = None
    """Region of a word, if the text has regions."""


def ignore_marks(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer for texts with marks of regions, which are no tokens."""
    tokenize = tokenizer.tokenize
    return replace(
        tokenizer, tokenize=lambda text: tokenize(text.replace(_REGION_MARK, " "))
    )


def find_units(kind: UnitKind, text: str, tokens: Sentence) -> list[Unit]:
    """Split the tokens of a sentence into units, none of which is empty."""
    if kind == "token":
        return [Unit(n, token, slice(n, n + 1)) for n, token in enumerate(tokens)]
    parts = text.split() if kind == "word" else map(str.strip, text.split(_REGION_MARK))
    return _align(kind, parts, tokens)


def units_of(
    kind: UnitKind, record: Record, *, with_regions: bool = False
) -> list[Unit]:
    """Split the tokens of a record into units. Words that the input gives may be empty."""
    text, tokens = record.text, record.tokens
    if kind == "word" and record.words:
        ends = list(accumulate(word.n_tokens for word in record.words))
        return [
            Unit(number, word.text, slice(end - word.n_tokens, end))
            for number, (word, end) in enumerate(
                zip(record.words, ends, strict=True), start=1
            )
        ]
    if not with_regions:
        return find_units(kind, text, tokens)
    regions = find_units("region", text, tokens)
    of_token = [
        region for region in regions for _ in range(*region.tokens.indices(len(tokens)))
    ]
    words = find_units(kind, text.replace(_REGION_MARK, " "), tokens)
    return [word._replace(region=of_token[word.tokens.start]) for word in words]


def _align(kind: str, parts: Iterable[str], tokens: Sentence) -> list[Unit]:
    """Find the tokens of each part of a text, by their visible and normalized characters."""
    units: list[Unit] = []
    stop = 0
    for number, part in enumerate(parts, start=1):
        start, rest = stop, _visible(part)
        while rest:
            token = tokens[stop] if stop < len(tokens) else None
            if token is None or not rest.startswith(_visible(token)):
                raise _not_aligned(kind, f"{kind} {number}, {part!r}", token)
            rest, stop = rest[len(_visible(token)) :], stop + 1
        if stop > start:
            units.append(Unit(number, part, slice(start, stop)))
    if left := "".join(map(_visible, tokens[stop:])):
        raise _not_aligned(kind, "the end of the text", left)
    return units


def _not_aligned(kind: str, location: str, token: str | None) -> InputError:
    actual = "has no tokens" if token is None else f"differs from the token {token!r}"
    return InputError(
        f"{location}: the {kind} {actual}. "
        f"Choose a --tokenizer that changes no characters and joins no {kind}s."
    )


def _visible(text: str) -> str:
    """Return a normalized text without white space and control characters, as tokenizers do."""
    return "".join(
        char
        for char in normalize(text)
        if not char.isspace() and unicodedata.category(char) != "Cc"
    )


class Surprisals(NamedTuple):
    """Surprisal of the T tokens of a sentence, in bits."""

    tokens: Sentence
    known: NDArray[np.bool_]
    """True for each token that is a word of the vocabulary, not `<UNK>`; shape (T,)."""
    surprisal: NDArray[np.float64]
    """Shape (T,); in D directions, (D, T), or with the boundary, (D, T + 1)."""
    entropy: NDArray[np.float64] | None
    """Expected surprisal at each position, shape (T,) or (D, T); None unless it was requested."""


def measure_surprisal(
    model: LanguageModel,
    sentences: Iterable[Text],
    batch_size: int = DEFAULT_BATCH_SIZE,
    *,
    backward: bool = False,
    with_entropy: bool = False,
) -> Iterator[Surprisals]:
    """Measure the surprisal of each token of a stream of sentences.

    Args:
        model: Language model.
        sentences, batch_size: As in `LanguageModel.score`.
        backward: Predict each token from the tokens after it instead of those before it.
        with_entropy: Compute the entropy of each prediction too.

    Yields:
        The surprisals of one sentence, in the order of the sentences.
    """
    direction: Direction = "backward" if backward else "forward"
    measured = measure_directions(
        model, sentences, batch_size, direction=direction, with_entropy=with_entropy
    )
    for tokens, known, surprisal, entropy in measured:
        yield Surprisals(
            tokens, known, surprisal[0], None if entropy is None else entropy[0]
        )


def measure_directions(
    model: LanguageModel,
    sentences: Iterable[Text],
    batch_size: int = DEFAULT_BATCH_SIZE,
    is_ready: Callable[[], bool] | None = None,
    *,
    direction: Direction = "both",
    with_entropy: bool = False,
    with_boundary: bool = False,
) -> Iterator[Surprisals]:
    """Measure the surprisal of each token in one direction, or in both; see `measure_surprisal`.

    `with_boundary` includes the surprisal of `</S>` after the tokens, or, backward, of `<S>`.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    slots = SLOTS[direction]

    def compute(batch: list[Sentence], top: Tensor) -> list[Surprisals]:
        batch_scores = model.score_batch(batch, top, slots, with_entropy=with_entropy)
        return [
            _in_bits(tokens, known, list(map(of_tokens, slots, scores)))
            for tokens, (known, scores) in zip(batch, batch_scores, strict=True)
        ]

    def of_tokens(slot: int, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        # The boundary is the last prediction of the forward direction, the first of the other.
        return scores if with_boundary else scores[:, slot : scores.shape[1] - 1 + slot]

    empty = _in_bits(
        [], np.empty(0, bool), [np.empty((1 + with_entropy, 0)) for _ in slots]
    )
    return model.compute_batches(
        sentences,
        compute,
        empty,
        directions=slots,
        batch_size=batch_size,
        is_ready=is_ready,
    )


def _in_bits(
    tokens: Sentence, known: NDArray[np.bool_], scores: Sequence[NDArray[np.float64]]
) -> Surprisals:
    """Convert log probabilities, shape (1, T), or with entropies, (2, T), to bits."""
    bits = np.stack(scores) / np.log(2)  # (D, 1 or 2, T)
    return Surprisals(
        tokens, known, -bits[:, 0], bits[:, 1] if bits.shape[1] > 1 else None
    )


def directed(name: str, direction: Direction) -> list[str]:
    """Return the names of a column of each direction."""
    return [f"{name}_forward", f"{name}_backward"] if direction == "both" else [name]


class UnitSurprisal(NamedTuple):
    """Surprisal of a `Unit` of a sentence, and what predicts its reading time."""

    number: int
    text: str
    n_tokens: int
    n_unknown: int
    surprisal: Sequence[float | None]
    """Sum over its tokens in each direction, in bits; None without tokens."""
    entropy: Sequence[float | None]
    """Entropy in each direction where the unit begins in that direction; empty if not computed."""
    log_frequency: float | None
    """Sum over its words; None if one of them has none."""
    region: Unit | None = None

    @property
    def known(self) -> bool:
        """True if the vocabulary contains all its tokens."""
        return self.n_unknown == 0


@dataclass(frozen=True)
class SurprisalTable:
    """Table of surprisals: which rows and columns it has."""

    unit: UnitKind = "token"
    direction: Direction = "forward"
    with_entropy: bool = False
    frequencies: Mapping[str, float] | None = None
    """Log frequencies of words, in bits, from `read_frequencies`. None estimates them from the
    ranks in the vocabulary; the name of their column says so."""
    with_regions: bool = False  # add the region of each word

    @property
    def columns(self) -> list[str]:
        """Names of the columns of `row`."""
        names = [f"{self.unit}_number", self.unit, "tokens"]
        return [
            *(["position", "token"] if self.unit == "token" else names),
            *(["region_number", "region"] if self.with_regions else []),
            *directed("surprisal", self.direction),
            *(["surprisal_average"] if self.direction == "both" else []),
            *(directed("entropy", self.direction) if self.with_entropy else []),
            "log_frequency_by_rank" if self.frequencies is None else "log_frequency",
            *("length", "known"),
        ]

    def row(self, unit: UnitSurprisal) -> list[object]:
        """Return the row of a unit: the length is the number of characters of its text."""
        return [
            *(unit.number, unit.text),
            *([] if self.unit == "token" else [unit.n_tokens]),
            *([unit.region.number, unit.region.text] if unit.region else []),
            *unit.surprisal,
            *([_average(unit.surprisal)] if self.direction == "both" else []),
            *unit.entropy,
            *(unit.log_frequency, len(unit.text), unit.known),
        ]

    def measure(
        self,
        model: LanguageModel,
        records: Iterable[Record],
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] | None = None,
    ) -> Iterator[ScoredRecord[list[UnitSurprisal]]]:
        """Measure the units of a stream of records, whose texts have the words or regions."""
        measure = partial(
            measure_directions,
            model,
            batch_size=batch_size,
            is_ready=is_ready,
            direction=self.direction,
            with_entropy=self.with_entropy,
        )
        given = self.frequencies
        frequencies = estimate_frequencies(model.vocabulary) if given is None else given
        frequency = lru_cache(2**16)(partial(self._frequency, frequencies))
        for scored in score_records(records, measure):
            surprisals = _joined(scored.result)
            try:
                units = units_of(
                    self.unit, scored.record, with_regions=self.with_regions
                )
            except InputError as error:
                raise InputError(f"record {scored.names[-1]}: {error}") from None
            # NumPy would take ten times as long for the few tokens of each unit.
            words, known = tuple(surprisals.tokens), surprisals.known.tolist()
            lists = surprisals.surprisal, surprisals.entropy
            values = [[] if array is None else array.tolist() for array in lists]
            result = [
                self._add(unit, frequency, words, known, *values) for unit in units
            ]
            yield ScoredRecord(scored.names, scored.record, result)

    def _add(
        self,
        unit: Unit,
        frequency: Callable[[str, tuple[str, ...]], float | None],
        words: tuple[str, ...],
        known: list[bool],
        surprisal: list[list[float]],
        entropy: list[list[float]],
    ) -> UnitSurprisal:
        tokens, n_tokens = unit.tokens, unit.tokens.stop - unit.tokens.start
        if not n_tokens:
            none: list[float | None] = [None] * len(surprisal)
            return UnitSurprisal(
                unit.number, unit.text, 0, 0, none, none[: len(entropy)], None
            )
        # The backward direction meets the last token of the unit first.
        begins = [
            tokens.stop - 1 if slot else tokens.start for slot in SLOTS[self.direction]
        ]
        return UnitSurprisal(
            unit.number,
            unit.text,
            n_tokens,
            n_tokens - sum(known[tokens]),
            [sum(values[tokens]) for values in surprisal],
            [values[begin] for values, begin in zip(entropy, begins, strict=False)],
            frequency(unit.text, words[tokens]),
            unit.region,
        )

    def _frequency(
        self, frequencies: Mapping[str, float], text: str, tokens: tuple[str, ...]
    ) -> float | None:
        if self.unit != "region":
            return sum_frequencies([(text, tokens)], frequencies)
        words = find_units("word", text, list(tokens))
        return sum_frequencies(
            [(each.text, tokens[each.tokens]) for each in words], frequencies
        )


def _average(directions: Sequence[float | None]) -> float | None:
    values = [value for value in directions if value is not None]
    return sum(values) / len(values) if values else None


def _joined(parts: list[Surprisals]) -> Surprisals:
    """Join the surprisals of the sentences of a record, (D, T) each."""
    if len(parts) == 1:
        return parts[0]
    tokens = list(chain.from_iterable(part.tokens for part in parts))
    known = np.concatenate([part.known for part in parts])
    surprisal = np.concatenate([part.surprisal for part in parts], axis=-1)
    entropies = [part.entropy for part in parts if part.entropy is not None]
    entropy = np.concatenate(entropies, axis=-1) if entropies else None
    return Surprisals(tokens, known, surprisal, entropy)


def measure_units(
    model: LanguageModel,
    texts: Iterable[str | Sequence[str]],
    by: UnitKind = "word",
    *,
    direction: Direction = "forward",
    with_entropy: bool = False,
    frequencies: Mapping[str, float] | None = None,
    tokenizer: str | None = None,
    language: str | None = None,
    split_sentences: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> Iterator[list[UnitSurprisal]]:
    """Measure the surprisal of the words, regions or tokens of a stream of raw texts.

    `elmo surprisal` prints the same values.

    Args:
        model: Language model.
        texts: Raw texts, in which `|` separates regions; or lists, of words if words are measured,
            each of which is tokenized by itself, or else of tokens.
        by: `word`, as white space separates them, `region` or `token`.
        direction: `forward`, `backward` or `both`, in this order.
        with_entropy: Measure the entropy where each unit begins.
        frequencies: Log frequencies of words, in bits. None: from their ranks in the vocabulary.
        tokenizer, language: As in `ElmoEmbedder.encode`.
        split_sentences: Compute each sentence of a text by itself.
        batch_size: As in `LanguageModel.score`.

    Returns:
        One list of units per text, in its order.
    """
    check_type("model", model, LanguageModel, "a LanguageModel")
    check_choice("by", by, ("token", "word", "region"))
    check_choice("direction", direction, tuple(SLOTS))
    settings = TextSettings(
        tokenizer=tokenizer or model.files.tokenizer,
        language=language,
        split_sentences=split_sentences,
        splits_words=by == "word",
    )
    chosen = chosen_tokenizer(settings, model.files.language, "moses")
    chosen = ignore_marks(chosen) if by == "region" else chosen

    def records() -> Iterator[Record]:
        for index, text in enumerate(check_batch(texts, "texts")):
            if not isinstance(text, str):
                text = check_sentence(
                    text, f"texts[{index}]", "a string or a list of words"
                )
            yield row_record({"text": text}, settings, chosen)[0]

    table = SurprisalTable(by, direction, with_entropy, frequencies)
    return (scored.result for scored in table.measure(model, records(), batch_size))
