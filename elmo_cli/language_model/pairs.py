"""Minimal pairs: whether the acceptable sentence of a pair is the more probable one.

The surprisal of a sentence is the sum over its tokens and its end, or, backward, its
start. A tie counts as half.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import listed
from elmo_cli.language_model.directed_surprisal import (
    DirectedSurprisals,
    directed_columns,
    measure_directions,
)
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.scored_records import (
    ScoredRecord,
    WriteRows,
    record_names,
)
from elmo_cli.options.model import DEFAULT_BATCH_SIZE, Direction
from elmo_cli.options.text import ALL_COLUMNS, TextSettings
from elmo_cli.records.columns import missing_column_error
from elmo_cli.records.input_format import TextInput
from elmo_cli.records.open_records import Records
from elmo_cli.records.record import Record
from elmo_cli.runs.pipeline import per_item
from elmo_cli.text.tokenizers import Tokenizer
from elmo_cli.types import Sentence

_ALL: Final = "all pairs"
"""Name of the group of all pairs."""


class ScoredPair(NamedTuple):
    """Surprisals of the two sentences of a pair in each direction, in bits."""

    good: list[float]
    bad: list[float]
    n_unknown_good: int
    n_unknown_bad: int

    @property
    def has_unknown(self) -> bool:
        """True if a sentence has unknown words."""
        return self.n_unknown_good > 0 or self.n_unknown_bad > 0

    @property
    def correct(self) -> list[float]:
        """1 if the acceptable sentence is more probable, 0.5 for a tie, or else 0.

        There is one value per direction; two directions are followed by their sum.
        """
        values = []
        for good, bad in zip(self.good, self.bad, strict=True):
            values.append(_share_correct(good, bad))
        if len(values) > 1:
            values.append(_share_correct(good=sum(self.good), bad=sum(self.bad)))
        return values

    @property
    def row(self) -> list[object]:
        """Values of `pair_columns`."""
        return [
            *self.good,
            *self.bad,
            # Without the point of a float, these are counts in every format.
            *[int(value) if value.is_integer() else value for value in self.correct],
            self.n_unknown_good,
            self.n_unknown_bad,
        ]


def _share_correct(good: float, bad: float) -> float:
    if good == bad:
        return 0.5
    return 1.0 if good < bad else 0.0


def _error_in_row(start: int, problem: object) -> Message:
    return Message("row {start}: {problem}", start=start, problem=problem)


def pair_columns(direction: Direction) -> list[str]:
    """Return the names of the columns of a pair, without those that name it."""
    names = [
        *directed_columns("surprisal_good", direction),
        *directed_columns("surprisal_bad", direction),
        *directed_columns("correct", direction),
    ]
    if direction == "both":
        names.append("correct_both")
    return [*names, "unknown_good", "unknown_bad"]


class _Sentences(NamedTuple):
    """Record of a pair with the tokens of its sentences."""

    names: tuple[str | int, ...]
    record: Record
    good: list[Sentence]
    bad: list[Sentence]


@dataclass(frozen=True)
class PairTable:
    """Table that has pairs, and how it is read."""

    columns: tuple[str, ...]
    """Columns of the acceptable and the unacceptable sentence."""
    settings: TextSettings
    group: str | None = None
    """Column that the rows repeat in addition."""

    def __post_init__(self) -> None:
        if len(self.columns) != 2:
            raise SettingsError(
                "{--pair-columns}: expected two columns separated by a comma, such "
                "as good,bad; found {names}",
                names=repr(",".join(self.columns)),
            )

    @property
    def reading(self) -> TextSettings:
        """Settings to read the records by."""
        good, bad = self.columns
        columns = self.settings.repeated_columns
        if columns != ALL_COLUMNS:
            columns = tuple(dict.fromkeys([*self._repeated_columns(columns), bad]))
        return replace(self.settings, text_column=good, keep_columns=columns)

    def check_columns(self, names: Sequence[str], table: str) -> None:
        """Raise an `InputError` if a table with these columns lacks one of its own."""
        options = dict.fromkeys(self.columns, "--pair-columns")
        if self.group is not None:
            options.setdefault(self.group, "--group-by")
        good, bad = self.columns
        if good not in names and bad not in names and "." not in good + bad:
            raise InputError(
                f"{table}: no columns {good!r} and {bad!r}, found "
                f"{listed(map(repr, names), 'and')}",
                remedy="Name two of them with {--pair-columns}.",
            )
        for name, option in options.items():
            is_nested = "." in name
            if name not in names and not is_nested:
                raise missing_column_error(name, names, option_name=option, table=table)

    def kept_columns(self, record: Record) -> dict[str, object]:
        """Return the columns of a record that its row repeats."""
        return {
            name: value
            for name, value in record.columns.items()
            if name not in self.columns
        }

    def group_of(self, record: Record, file: str | None = None) -> str | None:
        """Return the name of a record's group: of `group`, or else of its file."""
        if self.group is not None:
            return f"{self.group} {record.columns[self.group]}"
        return None if file is None else f"file {file}"

    def measure(
        self,
        model: LanguageModel,
        records: Iterable[Record],
        tokenizer: Tokenizer,
        batch_size: int = DEFAULT_BATCH_SIZE,
        is_ready: Callable[[], bool] | None = None,
        *,
        direction: Direction = "forward",
        error_at: Callable[[int, object], Message] = _error_in_row,
    ) -> Iterator[ScoredRecord[ScoredPair]]:
        """Yield the pair of each record of `reading`, with the columns to repeat.

        `tokenizer` is the one of the records. `batch_size` and `is_ready` are as in
        `LanguageModel.iter_scores`, and `error_at` is that of a `TextInput`.
        """
        measure_sentences = partial(
            measure_directions,
            model,
            batch_size=batch_size,
            is_ready=is_ready,
            direction=direction,
            with_boundary=True,
        )
        measured = per_item(
            self._read_sentences(records, tokenizer, error_at),
            lambda read: [*read.good, *read.bad],
            measure_sentences,
        )
        for read, surprisals in measured:
            good = surprisals[: len(read.good)]
            bad = surprisals[len(read.good) :]
            pair = ScoredPair(
                good=_surprisal_sums(good),
                bad=_surprisal_sums(bad),
                n_unknown_good=_n_unknown(good),
                n_unknown_bad=_n_unknown(bad),
            )
            yield ScoredRecord(read.names, self._keep_columns(read.record), pair)

    def _read_sentences(
        self,
        records: Iterable[Record],
        tokenizer: Tokenizer,
        error_at: Callable[[int, object], Message],
    ) -> Iterator[_Sentences]:
        _, bad_column = self.columns
        for number, record in enumerate(records, start=1):
            names = record_names(number, record)
            good = record.split()
            text = record.columns[bad_column]
            if isinstance(text, list):
                bad = [[str(token) for token in text]]
            else:
                bad = tokenizer.tokenize_sentences(str(text or ""))
            for column, sentences in zip(self.columns, (good, bad), strict=True):
                if not any(sentences):
                    problem = Message(
                        f"field {column!r}: expected a sentence, found none",
                        remedy="Add it, or remove the row.",
                    )
                    raise InputError(error_at(record.start or number, problem))
            yield _Sentences(names, record, good=good, bad=bad)

    def _keep_columns(self, record: Record) -> Record:
        chosen: Sequence[str] = self.settings.repeated_columns
        if chosen == ALL_COLUMNS:
            chosen = [name for name in record.columns if name not in self.columns]
        kept: Mapping[str, object] = {
            name: record.columns[name] for name in self._repeated_columns(chosen)
        }
        return record._replace(columns=kept)

    def _repeated_columns(self, chosen: Sequence[str]) -> list[str]:
        """Return the columns that rows repeat: the chosen ones and the group's."""
        names = [*chosen] if self.group is None else [*chosen, self.group]
        return list(dict.fromkeys(names))


def _surprisal_sums(sentences: list[DirectedSurprisals]) -> list[float]:
    """Return the surprisal of some sentences together in each direction."""
    of_sentences = [each.surprisal.sum(axis=1) for each in sentences]  # (K,) each
    sums: list[float] = sum(of_sentences).tolist()
    return sums


def _n_unknown(sentences: list[DirectedSurprisals]) -> int:
    return sum(int((~each.known).sum()) for each in sentences)


class Accuracy:
    """Shares of correct pairs, of all pairs and of each group."""

    def __init__(self, direction: Direction) -> None:
        """Count no pairs yet."""
        self._kinds: list[str] = [direction]
        if direction == "both":
            self._kinds = ["forward", "backward", "both"]
        self._groups: dict[str, list[ScoredPair]] = {}

    def add(self, pair: ScoredPair, group: str | None = None) -> None:
        """Count a pair, which may belong to a group."""
        self._groups.setdefault(_ALL, []).append(pair)
        if group is not None:
            self._groups.setdefault(group, []).append(pair)

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self._groups.get(_ALL, []))

    @property
    def n_unknown(self) -> int:
        """Number of pairs with unknown words."""
        return self.n_pairs - len(_pairs_without_unknown(self._groups.get(_ALL, [])))

    def lines(self) -> Iterator[str]:
        """Yield one line per group, all pairs first.

        If a part of its pairs has unknown words, the line also has the shares of the
        other pairs.
        """
        for name, pairs in self._groups.items():
            line = f"{name}: {self._shares_text(pairs, ' correct')}"
            known = _pairs_without_unknown(pairs)
            if 0 < len(known) < len(pairs):
                line += f"; without unknown words {self._shares_text(known)}"
            yield line

    def _shares_text(self, pairs: list[ScoredPair], word: str = "") -> str:
        """Return the share of correct pairs, as text.

        Of several directions, each has its own share. `word` follows the numbers of the
        first one.
        """
        shares: list[str] = []
        for index, kind in enumerate(self._kinds):
            total = sum(pair.correct[index] for pair in pairs)
            share = total / len(pairs)
            direction = "" if len(self._kinds) == 1 else f"{kind} "
            first_word = word if not shares else ""
            shares.append(
                f"{direction}{total:g} of {len(pairs):,}{first_word} ({share:.1%})"
            )
        return ", ".join(shares)


def run_pairs(
    table: PairTable,
    model: LanguageModel,
    records: Records,
    accuracy: Accuracy,
    *,
    write: WriteRows,
    text_input: TextInput,
    batch_size: int = DEFAULT_BATCH_SIZE,
    direction: Direction = "forward",
    file: str | None = None,
) -> None:
    """Measure the pairs of an open table, write a row of each, and count it.

    Args:
        table: The table, by whose `reading` the records were opened.
        model: Language model.
        records: Records of the open table.
        accuracy: Counts, to which the pairs are added.
        write: Called with the row of each pair, once it is computed.
        text_input: The open table.
        batch_size: Sentences per batch; only matters with carried state.
        direction: Direction in which the model reads, or both.
        file: First value of each row, and group of the pairs unless the table has one.
            None for the only table.
    """
    for scored in table.measure(
        model,
        records.records,
        tokenizer=text_input.tokenizer,
        batch_size=batch_size,
        is_ready=records.is_ready,
        direction=direction,
        error_at=text_input.error_at,
    ):
        names = scored.names if file is None else (file, *scored.names)
        write([scored.result.row], scored.record.columns, names)
        accuracy.add(scored.result, table.group_of(scored.record, file))


def _pairs_without_unknown(pairs: list[ScoredPair]) -> list[ScoredPair]:
    """Return the pairs without unknown words."""
    return [pair for pair in pairs if not pair.has_unknown]
