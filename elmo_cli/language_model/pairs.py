"""Minimal pairs: whether the acceptable sentence of a pair is the more probable one.

The surprisal of a sentence is the sum over its tokens and its end, or, backward, its start. A tie
counts as half.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from elmo_cli.errors.checks import Sentence
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.scored_records import ScoredRecord, record_names
from elmo_cli.language_model.surprisal import Surprisals, directed, measure_directions
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, Direction
from elmo_cli.options.text import ALL_COLUMNS, TextSettings
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import Tokenizer


class Pair(NamedTuple):
    """Surprisals of the two sentences of a pair in each direction, in bits."""

    good: list[float]
    bad: list[float]
    n_unknown_good: int
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
        unknown = self.n_unknown_good, self.n_unknown_bad
        return [*self.good, *self.bad, *self.correct, *unknown]


def pair_columns(direction: Direction) -> list[str]:
    """Return the names of the columns of a pair, without those that name it."""
    return [
        *directed("surprisal_good", direction),
        *directed("surprisal_bad", direction),
        *directed("correct", direction),
        *(["correct_both"] if direction == "both" else []),
        *("unknown_good", "unknown_bad"),
    ]


@dataclass(frozen=True)
class PairTable:
    """Table that has pairs, and how it is read."""

    columns: tuple[str, ...]  # columns of the acceptable and the unacceptable sentence
    settings: TextSettings
    group: str | None = None  # column that the rows repeat in addition

    def __post_init__(self) -> None:
        if len(self.columns) != 2:
            names = ",".join(self.columns)
            raise SettingsError(
                f"--pairs {names}: name two columns, separated by a comma, such as good,bad."
            )
        if self.settings.text_column is not None:
            raise SettingsError(
                "--text-column has no effect with the two columns of --pairs"
            )

    @property
    def reading(self) -> TextSettings:
        """Settings to read the records by."""
        good, bad = self.columns
        columns = self.settings.keep_columns
        if columns != ALL_COLUMNS:
            columns = tuple(dict.fromkeys([*columns, *filter(None, [self.group]), bad]))
        return replace(
            self.settings, text_column=good, text_option="--pairs", keep_columns=columns
        )

    def measure(
        self,
        model: LanguageModel,
        records: Iterable[Record],
        tokenizer: Tokenizer,
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] = lambda: True,
        *,
        direction: Direction = "forward",
    ) -> Iterator[ScoredRecord[Pair]]:
        """Yield the pair of each record of `reading`, with the columns that the row repeats."""
        waiting: deque[tuple[tuple[str | int, ...], Record, list[int]]] = deque()

        def sentences() -> Iterator[Sentence]:
            for number, record in enumerate(records, start=1):
                names = record_names(number, record)
                text = record.columns[self.columns[1]]
                good, bad = (
                    record.split(),
                    tokenizer.tokenize_sentences(str(text or "")),
                )
                bad = [[*map(str, text)]] if isinstance(text, list) else bad
                waiting.append((names, record, [len(good), len(bad)]))
                for kind, sentences in (("good", good), ("bad", bad)):
                    if not any(sentences):
                        raise InputError(
                            f"pair {names[0]}: the {kind} sentence is empty"
                        )
                    yield from sentences

        measured = measure_directions(
            model,
            sentences(),
            batch_size,
            is_ready,
            direction=direction,
            with_boundary=True,
        )
        for first in measured:
            names, record, counts = waiting.popleft()
            parts = [first, *islice(measured, sum(counts) - 1)]
            good, bad = parts[: counts[0]], parts[counts[0] :]
            pair = Pair(_sum(good), _sum(bad), _n_unknown(good), _n_unknown(bad))
            yield ScoredRecord(names, self._keep_columns(record), pair)

    def _keep_columns(self, record: Record) -> Record:
        chosen = self.settings.keep_columns
        if chosen == ALL_COLUMNS:
            chosen = tuple(name for name in record.columns if name not in self.columns)
        names = dict.fromkeys([*chosen, *filter(None, [self.group])])
        return record._replace(columns={name: record.columns[name] for name in names})


def _sum(sentences: list[Surprisals]) -> list[float]:
    sums: list[float] = sum(each.surprisal.sum(axis=1) for each in sentences).tolist()
    return sums


def _n_unknown(sentences: list[Surprisals]) -> int:
    return sum(int((~each.known).sum()) for each in sentences)


class Accuracy:
    """Shares of correct pairs, of all pairs and of each group."""

    def __init__(self, direction: Direction, group: str | None = None) -> None:
        self._kinds = (
            ["forward", "backward", "both"] if direction == "both" else [direction]
        )
        self._group = group
        self._correct: dict[str, list[list[float]]] = {}
        self.n_pairs = self.n_unknown = (
            0  # number of pairs, and of those with unknown words
        )

    def add(self, scored: ScoredRecord[Pair]) -> None:
        """Count a pair."""
        pair, names = scored.result, ["all pairs"]
        self.n_pairs += 1
        self.n_unknown += pair.n_unknown_good + pair.n_unknown_bad > 0
        if self._group is not None:
            names.append(f"{self._group} {scored.record.columns[self._group]}")
        for name in names:
            self._correct.setdefault(name, []).append(pair.correct)

    def lines(self) -> Iterator[str]:
        """Yield one line per group, all pairs first."""
        for name, correct in self._correct.items():
            n, sums = len(correct), map(sum, zip(*correct, strict=True))
            shares = [
                f"{kind} {total:g} of {n:,} ({total / n:.1%})"
                for kind, total in zip(self._kinds, sums, strict=True)
            ]
            yield f"{name}: correct {', '.join(shares)}"
