"""Minimal pairs: whether the acceptable sentence of a pair is the more probable one.

A table has pairs in one of two forms:

columns    each row has an acceptable and an unacceptable sentence
rows       two rows with the same id are a pair; the label of one is `good`, of the other `bad`

The surprisal of a sentence is the sum over its tokens and its end; the backward direction predicts
the start of the sentence in place of the end. A tie counts as half.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from elmo_cli.errors import InputError
from elmo_cli.language_model.scoring import LanguageModel, record_names, score_keyed
from elmo_cli.language_model.surprisal import DirectedSurprisals, Direction, measure_directions
from elmo_cli.settings import ALL_COLUMNS, DEFAULT_BATCH_SIZE, TextSettings
from elmo_cli.text.records import Record, Sentence
from elmo_cli.text.text_settings import DEFAULT_ID

LABELS: Final = {"good": True, "bad": False, "1": True, "0": False, "true": True, "false": False}
"""Labels in lower case; True for a row with an acceptable sentence."""


class PairSentence(NamedTuple):
    """Place of a sentence in its pair."""

    names: tuple[str | int, ...]
    """Values of the columns that name the pair."""
    is_good: bool
    columns: Mapping[str, object]
    """Columns of the input that the row of the pair repeats."""


class Pair(NamedTuple):
    """Surprisals of the two sentences of a pair, in bits."""

    names: tuple[str | int, ...]
    columns: Mapping[str, object]
    """Columns of the row, or of the row of the acceptable sentence."""
    good: list[float]
    """Surprisal of the acceptable sentence in each direction."""
    bad: list[float]
    n_unknown_good: int
    """Number of unknown tokens."""
    n_unknown_bad: int

    @property
    def correct(self) -> list[float]:
        """1 if the acceptable sentence is more probable, 0.5 for a tie, or else 0.

        There is one value per direction; two directions are followed by their sum.
        """
        pairs = list(zip(self.good, self.bad, strict=True))
        if len(pairs) > 1:
            pairs.append((sum(self.good), sum(self.bad)))
        return [(good < bad) + 0.5 * (good == bad) for good, bad in pairs]

    @property
    def row(self) -> list[object]:
        """Values of `pair_columns`."""
        return [
            *self.names,
            *self.good,
            *self.bad,
            *self.correct,
            *(self.n_unknown_good, self.n_unknown_bad),
        ]


def pair_columns(direction: Direction) -> list[str]:
    """Return the names of the columns of a pair, without those that name it."""
    suffixes = ["_forward", "_backward"] if direction == "both" else [""]
    names = [f"surprisal_{kind}{suffix}" for kind in ("good", "bad") for suffix in suffixes]
    correct = [f"correct{suffix}" for suffix in suffixes]
    correct += ["correct_both"] if direction == "both" else []
    return [*names, *correct, "unknown_good", "unknown_bad"]


@dataclass(frozen=True)
class PairTable:
    """Table that has pairs, and how it is read."""

    columns: tuple[str, ...]
    """Columns of the acceptable and the unacceptable sentence; or the column of the labels."""
    settings: TextSettings
    """Settings of the text. `reading` adds what the pairs need."""
    group: str | None = None
    """Column that the rows repeat in addition."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.columns) <= 2:
            raise InputError(f"pairs: expected one column or two, found {len(self.columns)}")
        if len(self.columns) == 2 and self.settings.text_column is not None:
            raise InputError("--text-column has no effect with the two columns of --pairs")

    @property
    def are_rows(self) -> bool:
        """True if each sentence has a row of its own."""
        return len(self.columns) == 1

    @property
    def _id(self) -> str:
        return self.settings.id_column or DEFAULT_ID

    @property
    def reading(self) -> TextSettings:
        """Settings to read the records by. If they are rows, their ids are no ids of records."""
        columns = self.settings.keep_columns
        if columns != ALL_COLUMNS:
            names = [*columns, self.group, self.columns[-1], self._id if self.are_rows else None]
            columns = tuple(dict.fromkeys(name for name in names if name is not None))
        if self.are_rows:
            return replace(self.settings, id_column=None, keep_columns=columns)
        return replace(self.settings, text_column=self.columns[0], keep_columns=columns)

    def measure(
        self,
        model: LanguageModel,
        records: Iterable[Record],
        tokenize: Callable[[str], Sentence],
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] = lambda: True,
        *,
        direction: Direction = "forward",
    ) -> Iterator[Pair]:
        """Measure the pairs of a stream of records.

        Args:
            model: Model of the words.
            records: Records that were read by `reading`; without ids if they are rows.
            tokenize: Function that splits the unacceptable sentence of a row into tokens.
            batch_size, is_ready: As in `LanguageModel.score`.
            direction: Directions of the predictions.

        Raises:
            InputError: A sentence is empty, a label is unknown, or a pair is not complete.
        """
        measure = partial(
            measure_directions,
            model,
            batch_size=batch_size,
            is_ready=is_ready,
            direction=direction,
            with_boundary=True,
        )
        if self.are_rows:
            sentences = self._row_sentences(records)
        else:
            sentences = self._column_sentences(records, tokenize)
        return _join(score_keyed(map(_check_tokens, sentences), measure))

    def _column_sentences(
        self, records: Iterable[Record], tokenize: Callable[[str], Sentence]
    ) -> Iterator[tuple[PairSentence, Sentence]]:
        """Yield the sentences of both columns of each record."""
        bad = self.columns[1]
        for number, record in enumerate(records, start=1):
            names, text = record_names(number, record), record.columns[bad]
            columns = self._kept_columns(record)
            yield PairSentence(names, True, columns), record.tokens
            tokens = [*map(str, text)] if isinstance(text, list) else tokenize(str(text or ""))
            yield PairSentence(names, False, columns), tokens

    def _row_sentences(self, records: Iterable[Record]) -> Iterator[tuple[PairSentence, Sentence]]:
        """Yield the sentence of each record."""
        for number, record in enumerate(records, start=1):
            label = record.columns[self.columns[0]]
            is_good = LABELS.get(str(label).lower())
            if is_good is None:
                expected = "expected good or bad, 1 or 0, or true or false"
                raise InputError(
                    f"record {number}, column {self.columns[0]!r}: {expected}, found {label!r}"
                )
            identifier = record.columns[self._id]
            if identifier is None:
                raise InputError(
                    f"record {number}, column {self._id!r}: expected an id, found none"
                )
            name = identifier if isinstance(identifier, int) else str(identifier)
            yield PairSentence((name,), is_good, self._kept_columns(record)), record.tokens

    def _kept_columns(self, record: Record) -> dict[str, object]:
        """Return the columns of a record that the row of its pair repeats."""
        chosen = self.settings.keep_columns
        if chosen == ALL_COLUMNS:
            used = {*self.columns, self._id} if self.are_rows else set(self.columns)
            chosen = tuple(name for name in record.columns if name not in used)
        names = dict.fromkeys([*chosen, *([self.group] if self.group else [])])
        return {name: record.columns[name] for name in names}


def _check_tokens(keyed: tuple[PairSentence, Sentence]) -> tuple[PairSentence, Sentence]:
    sentence, tokens = keyed
    if not tokens:
        raise InputError(f"pair {sentence.names[0]}: the {_label(sentence)} sentence is empty")
    return keyed


_Measured = tuple[PairSentence, DirectedSurprisals]


def _join(measured: Iterable[_Measured]) -> Iterator[Pair]:
    """Join the sentences of each pair, in any order."""
    waiting: dict[tuple[str | int, ...], _Measured] = {}
    for sentence, surprisals in measured:
        other = waiting.pop(sentence.names, None)
        if other is None:
            waiting[sentence.names] = sentence, surprisals
        elif other[0].is_good == sentence.is_good:
            label = _label(sentence)
            raise InputError(f"pair {sentence.names[0]}: expected one {label} sentence, found two")
        elif sentence.is_good:
            yield _pair((sentence, surprisals), other)
        else:
            yield _pair(other, (sentence, surprisals))
    if waiting:
        [(alone, _), *_] = waiting.values()
        label = _label(alone)
        raise InputError(
            f"pair {alone.names[0]}: expected a good and a bad sentence, found a {label} one"
        )


def _label(sentence: PairSentence) -> str:
    return "good" if sentence.is_good else "bad"


def _pair(good: _Measured, bad: _Measured) -> Pair:
    return Pair(
        good[0].names,
        good[0].columns,
        *(surprisals.surprisal.sum(axis=1).tolist() for _, surprisals in (good, bad)),
        *(int((~surprisals.known).sum()) for _, surprisals in (good, bad)),
    )


class Accuracy:
    """Shares of correct pairs, of all pairs and of each group."""

    def __init__(self, direction: Direction, group: str | None = None) -> None:
        self._kinds = ["forward", "backward", "both"] if direction == "both" else [direction]
        self._group = group
        self._correct: dict[str, list[list[float]]] = {}
        self.n_pairs = self.n_unknown = 0
        """Number of pairs, and of those with unknown words."""

    def add(self, pair: Pair) -> None:
        """Count a pair."""
        self.n_pairs += 1
        self.n_unknown += pair.n_unknown_good + pair.n_unknown_bad > 0
        self._correct.setdefault("all pairs", []).append(pair.correct)
        if self._group is not None:
            name = f"{self._group} {pair.columns[self._group]}"
            self._correct.setdefault(name, []).append(pair.correct)

    def lines(self) -> Iterator[str]:
        """Yield one line per group, all pairs first."""
        for name, correct in self._correct.items():
            n = len(correct)
            sums = [sum(values) for values in zip(*correct, strict=True)]
            shares = [
                f"{kind} {total:g} of {n:,} ({total / n:.1%})"
                for kind, total in zip(self._kinds, sums, strict=True)
            ]
            yield f"{name}: correct {', '.join(shares)}"
