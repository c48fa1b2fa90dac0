"""Rows of `elmo surprisal`: one per token, word or region of each sentence."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.language_model.frequencies import estimate_frequencies, sum_frequencies
from elmo_cli.language_model.scored_records import ScoredRecord, score_records
from elmo_cli.language_model.scoring import LanguageModel
from elmo_cli.language_model.surprisal import (
    SLOTS,
    DirectedSurprisals,
    Direction,
    measure_directions,
)
from elmo_cli.language_model.units import Unit, UnitKind, find_units
from elmo_cli.settings import DEFAULT_BATCH_SIZE
from elmo_cli.text.records import Record


class UnitSurprisal(NamedTuple):
    """Surprisal of a token, word or region, and what predicts its reading time."""

    number: int
    """Position of a token, from 0; or number of a word or region, from 1."""
    text: str
    n_tokens: int
    n_unknown: int
    """Number of its tokens that are not in the vocabulary."""
    surprisal: Sequence[float]
    """Sum over its tokens in each direction, in bits."""
    entropy: Sequence[float]
    """Entropy in each direction where the unit begins in that direction; empty if not computed."""
    log_frequency: float | None
    """Sum over its tokens; None if one of them has none."""

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

    @property
    def columns(self) -> list[str]:
        """Names of the columns of `row`."""
        if self.unit == "token":
            names = ["position", "token"]
        else:
            names = [f"{self.unit}_number", self.unit, "tokens"]
        return [
            *names,
            *self._directed("surprisal"),
            *(["surprisal_average"] if self.direction == "both" else []),
            *(self._directed("entropy") if self.with_entropy else []),
            "log_frequency_by_rank" if self.frequencies is None else "log_frequency",
            *("length", "known"),
        ]

    def _directed(self, name: str) -> list[str]:
        """Return the names of a column of each direction."""
        both = self.direction == "both"
        return [f"{name}_forward", f"{name}_backward"] if both else [name]

    def row(self, unit: UnitSurprisal) -> list[object]:
        """Return the row of a unit: the length is the number of characters of its text."""
        average = sum(unit.surprisal) / 2
        return [
            *(unit.number, unit.text),
            *([] if self.unit == "token" else [unit.n_tokens]),
            *unit.surprisal,
            *([average] if self.direction == "both" else []),
            *unit.entropy,
            *(unit.log_frequency, len(unit.text), unit.known),
        ]

    def measure(
        self,
        model: LanguageModel,
        records: Iterable[Record],
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[ScoredRecord[list[UnitSurprisal]]]:
        """Measure the units of a stream of records.

        Args:
            model: Model of the words.
            records: Records. Their texts have the words or the marked regions.
            batch_size, is_ready: As in `LanguageModel.score`.

        Raises:
            InputError: The tokens of a record do not fit its words or regions.
        """
        measure = partial(
            measure_directions,
            model,
            batch_size=batch_size,
            is_ready=is_ready,
            direction=self.direction,
            with_entropy=self.with_entropy,
        )
        frequencies = self.frequencies
        if frequencies is None:
            frequencies = estimate_frequencies(model.vocabulary)
        for scored in score_records(records, measure):
            units = self._units(scored, frequencies)
            yield ScoredRecord(scored.names, scored.record, units)

    def _units(
        self, scored: ScoredRecord[DirectedSurprisals], frequencies: Mapping[str, float]
    ) -> list[UnitSurprisal]:
        """Add the surprisals of the tokens of each unit of a sentence."""
        surprisals = scored.result
        try:
            units = find_units(self.unit, scored.record.text, surprisals.tokens)
        except InputError as error:
            raise InputError(f"record {scored.names[-1]}: {error}") from None
        return [self._add(unit, surprisals, frequencies) for unit in units]

    def _add(
        self, unit: Unit, surprisals: DirectedSurprisals, frequencies: Mapping[str, float]
    ) -> UnitSurprisal:
        """Add the surprisals of the tokens of a unit."""
        tokens = unit.tokens
        # The backward direction meets the last token of the unit first.
        begins = [tokens.stop - 1 if slot else tokens.start for slot in SLOTS[self.direction]]
        return UnitSurprisal(
            unit.number,
            unit.text,
            tokens.stop - tokens.start,
            int((~surprisals.known[tokens]).sum()),
            surprisals.surprisal[:, tokens].sum(axis=1).tolist(),
            [float(row[begin]) for row, begin in zip(surprisals.entropy, begins, strict=False)],
            sum_frequencies(surprisals.tokens[tokens], frequencies),
        )
