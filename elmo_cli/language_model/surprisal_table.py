"""Table of the surprisal of tokens, words or regions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from elmo_cli.errors.checks import check_batch, check_choice, check_sentence, check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.language_model.frequencies import estimate_frequencies, sum_frequencies
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.scored_records import ScoredRecord, score_records
from elmo_cli.language_model.surprisal import (
    SLOTS,
    Surprisals,
    directed,
    measure_directions,
)
from elmo_cli.language_model.units import (
    Unit,
    UnitKind,
    find_units,
    ignore_marks,
    units_of,
)
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, Direction
from elmo_cli.options.text import TextSettings
from elmo_cli.records.columns import row_record
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import chosen_tokenizer


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
