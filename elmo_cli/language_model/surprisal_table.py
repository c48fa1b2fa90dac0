"""Table of the surprisal of units: tokens, words, regions or sentences.

The surprisal of a unit is the sum over its tokens. Next to it stands what else predicts
the reading time of a word: its length and its log frequency, from `frequencies`. Minus
the log frequency is the surprisal of the word without a context.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np

from elmo_cli.errors.exceptions import InputError
from elmo_cli.language_model.directed_surprisal import (
    DirectedSurprisals,
    directed_columns,
    measure_directions,
)
from elmo_cli.language_model.frequencies import estimate_frequencies, sum_frequencies
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.scored_records import ScoredRecord, score_records
from elmo_cli.language_model.units import (
    Unit,
    find_units,
    units_of,
)
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, Direction, reading_directions
from elmo_cli.options.surprisal import UnitKind
from elmo_cli.records.record import Record
from elmo_cli.types import Sentence

_Frequency = Callable[[str, tuple[str, ...], bool], float | None]
"""Function that returns the log frequency of a text with its tokens.

The last argument is the `is_whole` of its unit.
"""


class UnitSurprisal(NamedTuple):
    """Surprisal of a token, word, region or sentence, in bits.

        word = measure_surprisal(model, "The keys are here.", by="word")[1]
        word.text, word.surprisal  # ("keys", 11.86)

    For regressions on reading times it also has `log_frequency` and `n_tokens`.
    """

    number: int
    """Number in its text, from 1."""
    text: str
    """Text of the unit: its tokens separated by spaces, or as it is in a raw text."""
    n_tokens: int
    """Number of its tokens."""
    n_unknown: int
    """Number of its tokens that the vocabulary lacks."""
    surprisals: Sequence[float | None]
    """Sum over its tokens in each direction, in bits; None without tokens."""
    entropies: Sequence[float | None]
    """Entropy in each direction where the unit begins in that direction; empty if not
    computed."""
    log_frequency: float | None
    """Sum over its words; None if one of them has none."""
    region: Unit | None = None
    """Region that it belongs to; None if the text has no regions."""
    is_whole: bool = True
    """False if one of its tokens belongs to another unit too."""

    def __repr__(self) -> str:
        if self.surprisal is None:
            return f"UnitSurprisal({self.text!r}, surprisal=None)"
        return f"UnitSurprisal({self.text!r}, surprisal={self.surprisal:.2f})"

    @property
    def surprisal(self) -> float | None:
        """Surprisal in bits, averaged over the directions; None without tokens."""
        return _average(self.surprisals)

    @property
    def entropy(self) -> float | None:
        """Entropy in bits, averaged over the directions; None if not computed."""
        return _average(self.entropies)

    @property
    def known(self) -> bool:
        """True if the vocabulary contains all its tokens."""
        return self.n_unknown == 0


MeasuredRecord = ScoredRecord[list[UnitSurprisal]]
"""Record with the surprisals of its units."""


class _Column(NamedTuple):
    """Column of a table of surprisals."""

    name: str
    value: Callable[[UnitSurprisal], object]
    """Function that returns the value of a unit."""


@dataclass(frozen=True)
class SurprisalTable:
    """Table of surprisals: which rows and columns it has."""

    unit: UnitKind = "token"
    direction: Direction = "forward"
    entropy: bool = False
    log_frequencies: Mapping[str, float] | None = None
    """Log frequencies of words, in bits, as in `FrequencyList`. None estimates them
    from the ranks in the vocabulary; the name of their column says so."""
    with_regions: bool = False
    """Add the region of each word or token."""
    with_sentence_numbers: bool = False
    """Add the number of each sentence, because a record may have several."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns of `row`."""
        return [column.name for column in self._columns]

    def row(self, unit: UnitSurprisal) -> list[object]:
        """Return the row of a unit.

        The length is its number of characters, without spaces around them.
        """
        return [column.value(unit) for column in self._columns]

    @cached_property
    def _columns(self) -> list[_Column]:
        columns = []
        if self.unit == "token":
            columns.append(_Column("position", lambda unit: unit.number - 1))
        elif self.unit != "sentence" or self.with_sentence_numbers:
            columns.append(_Column(f"{self.unit}_number", lambda unit: unit.number))
        columns.append(_Column(self.unit, lambda unit: unit.text))
        if self.with_regions:
            columns.append(_Column("region_number", _region_number))
            columns.append(_Column("region", _region_text))
        if self.unit != "token":
            columns.append(_Column("tokens", lambda unit: unit.n_tokens))
        for index, name in enumerate(directed_columns("surprisal", self.direction)):
            columns.append(_Column(name, partial(_surprisal_at, index)))
        if self.direction == "both":
            columns.append(_Column("surprisal_average", lambda unit: unit.surprisal))
        if self.entropy:
            for index, name in enumerate(directed_columns("entropy", self.direction)):
                columns.append(_Column(name, partial(_entropy_at, index)))
        frequency = "log_frequency"
        if self.log_frequencies is None:
            frequency = "log_frequency_by_rank"
        columns.append(_Column(frequency, lambda unit: unit.log_frequency))
        columns.append(_Column("length", lambda unit: len(unit.text.strip())))
        columns.append(_Column("known", lambda unit: unit.known))
        return columns

    def measure(
        self,
        model: LanguageModel,
        records: Iterable[Record],
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] | None = None,
    ) -> Iterator[MeasuredRecord]:
        """Measure the units of a stream of records.

        `batch_size` and `is_ready` are as in `LanguageModel.iter_scores`.
        """
        measure_sentences = partial(
            measure_directions,
            model,
            batch_size=batch_size,
            is_ready=is_ready,
            direction=self.direction,
            with_entropy=self.entropy,
        )
        frequencies = self.log_frequencies
        if frequencies is None:
            frequencies = {}
            # Models that only read forward come from other programs, whose vocabularies
            # are not in the order of the words' counts.
            if "backward" in model.directions:
                frequencies = estimate_frequencies(model.vocabulary)
        frequency = lru_cache(2**16)(partial(self._frequency, frequencies))
        for scored in score_records(records, measure_sentences):
            try:
                units = units_of(
                    self.unit, scored.record, with_regions=self.with_regions
                )
            except InputError as error:
                raise InputError(
                    "record {name}: {error}", name=scored.names[-1], error=error
                ) from None
            surprisals = _join_sentences(scored.result)
            result = self._of_units(units, surprisals, frequency)
            yield ScoredRecord(scored.names, scored.record, result)

    def _of_units(
        self, units: list[Unit], measured: DirectedSurprisals, frequency: _Frequency
    ) -> list[UnitSurprisal]:
        # NumPy would take ten times as long for the few tokens of each unit.
        words = tuple(measured.tokens)
        known: list[bool] = measured.known.tolist()
        surprisal: list[list[float]] = measured.surprisal.tolist()
        entropy: list[list[float]] = []
        if measured.entropy is not None:
            entropy = measured.entropy.tolist()
        directions = reading_directions(self.direction)
        result = []
        for unit in units:
            tokens = unit.tokens
            n_tokens = tokens.stop - tokens.start
            if n_tokens == 0:
                result.append(self._of_empty_word(unit))
                continue
            entropies = []
            # `entropy` is empty unless it was requested.
            for direction, values in zip(directions, entropy, strict=False):
                # The backward direction meets the last token of the unit first.
                first = tokens.start if direction == "forward" else tokens.stop - 1
                entropies.append(values[first])
            result.append(
                UnitSurprisal(
                    number=unit.number,
                    text=unit.text,
                    n_tokens=n_tokens,
                    n_unknown=n_tokens - sum(known[tokens]),
                    surprisals=[sum(values[tokens]) for values in surprisal],
                    entropies=entropies,
                    log_frequency=frequency(
                        unit.text.strip(), words[tokens], unit.is_whole
                    ),
                    region=unit.region,
                    is_whole=unit.is_whole,
                )
            )
        return result

    def _of_empty_word(self, unit: Unit) -> UnitSurprisal:
        nothing: list[None] = [None for _ in reading_directions(self.direction)]
        return UnitSurprisal(
            number=unit.number,
            text=unit.text,
            n_tokens=0,
            n_unknown=0,
            surprisals=nothing,
            entropies=nothing if self.entropy else [],
            log_frequency=None,
        )

    def _frequency(
        self,
        frequencies: Mapping[str, float],
        text: str,
        tokens: tuple[str, ...],
        is_whole: bool,
    ) -> float | None:
        if self.unit not in ("region", "sentence"):
            return sum_frequencies([(text, tokens)], frequencies)
        if not is_whole:
            # The tokens have characters of another region.
            words_alone = [(word, [word]) for word in text.split()]
            return sum_frequencies(words_alone, frequencies)
        words = find_units("word", text, list(tokens))
        return sum_frequencies(
            [(word.text, tokens[word.tokens]) for word in words], frequencies
        )


def _region_number(unit: UnitSurprisal) -> int | None:
    return None if unit.region is None else unit.region.number


def _region_text(unit: UnitSurprisal) -> str | None:
    return None if unit.region is None else unit.region.text


def _surprisal_at(index: int, unit: UnitSurprisal) -> float | None:
    return unit.surprisals[index]


def _entropy_at(index: int, unit: UnitSurprisal) -> float | None:
    return unit.entropies[index]


def _average(directions: Sequence[float | None]) -> float | None:
    values = [value for value in directions if value is not None]
    return sum(values) / len(values) if values else None


def _join_sentences(sentences: list[DirectedSurprisals]) -> DirectedSurprisals:
    """Join the surprisals of the sentences of a record."""
    if len(sentences) == 1:
        return sentences[0]
    tokens: Sentence = []
    entropies = []
    for sentence in sentences:
        tokens += sentence.tokens
        if sentence.entropy is not None:
            entropies.append(sentence.entropy)
    return DirectedSurprisals(
        tokens=tokens,
        known=np.concatenate([sentence.known for sentence in sentences]),
        surprisal=np.concatenate([each.surprisal for each in sentences], axis=1),
        entropy=np.concatenate(entropies, axis=1) if entropies else None,
    )
