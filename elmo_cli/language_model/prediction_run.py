"""Run over texts whose words are predicted: their answers, and what it counts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from elmo_cli.language_model.candidates import PREDICTION_COLUMNS
from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.next_words import Prediction, predict_words
from elmo_cli.language_model.samples import SAMPLE_COLUMNS, Samples, sample_sentences
from elmo_cli.language_model.scored_records import ScoredRecord, record_names
from elmo_cli.language_model.substitutes import (
    SUBSTITUTE_COLUMNS,
    Substitutes,
    iter_substitutes,
)
from elmo_cli.options.prediction import PredictionSettings
from elmo_cli.records.record import Record
from elmo_cli.runs.pipeline import per_item
from elmo_cli.types import Sentence

Answer: TypeAlias = Prediction | Substitutes | Samples
"""What the settings ask for: `Substitutes` with `each`, `Samples` with `samples`."""


@dataclass
class PredictionSummary:
    """What a run has predicted."""

    n_samples: int = 0
    n_empty: int = 0
    """Number of samples that add no word to their text."""
    unknown: list[float] = field(default_factory=list)
    """Probability of `<UNK>` after or before each text without a gap."""

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        if isinstance(answer, Prediction) and answer.unknown is not None:
            self.unknown.append(answer.unknown)
        if isinstance(answer, Samples):
            self.n_samples += len(answer.samples)
            self.n_empty += answer.samples.count(list(answer.tokens))


def answer_columns(settings: PredictionSettings) -> Sequence[str]:
    """Return the names of the columns of `answer_rows`."""
    if settings.samples is not None:
        return SAMPLE_COLUMNS
    if settings.each:
        return SUBSTITUTE_COLUMNS
    return PREDICTION_COLUMNS


def answer_rows(answer: Answer, model: LanguageModel) -> Iterator[list[object]]:
    """Return the rows of an answer of a model."""
    if isinstance(answer, Substitutes):
        return answer.rows(model.vocabulary)
    return answer.rows()


def run_prediction(
    model: LanguageModel,
    settings: PredictionSettings,
    chunks: Iterable[list[Record]],
    *,
    numbers_sentences: bool,
    write: Callable[[ScoredRecord[Answer]], object],
) -> PredictionSummary:
    """Answer the records of a text.

    Args:
        model: Language model.
        settings: What is predicted.
        chunks: Records in lists that are computed together.
        numbers_sentences: Whether the sentences of a record have names of their own:
            those of the record and a number, from 1.
        write: Called with each record and its answer, once it is computed; without
            `each`, with each sentence of it.
    """

    def answer(texts: Iterator[Sentence]) -> Iterable[Answer]:
        if settings.samples is not None:
            return _sample(model, settings, texts)
        if settings.each:
            return iter_substitutes(model, texts, settings.top)
        return predict_words(
            model,
            texts,
            settings.top,
            direction=settings.direction,
            with_unknown=settings.with_unknown,
        )

    summary = PredictionSummary()
    numbers = count(1)
    for chunk in chunks:
        for record, answers in per_item(chunk, Record.split, answer):
            if settings.each:
                answers = [_join_answers(answers)]
            names = record_names(next(numbers), record)
            for sentence_number, result in enumerate(answers, start=1):
                own_names = (*names, sentence_number) if numbers_sentences else names
                write(ScoredRecord(names=own_names, record=record, result=result))
                summary.add(result)
    return summary


def _sample(
    model: LanguageModel, settings: PredictionSettings, texts: Iterable[Sentence]
) -> Iterator[Samples]:
    assert settings.samples is not None
    for text in texts:
        samples = sample_sentences(
            model,
            text,
            settings.samples,
            direction=settings.direction,
            temperature=settings.temperature,
            seed=settings.seed,
            max_words=settings.max_words,
        )
        yield Samples(text, samples)


def _join_answers(answers: list[Answer]) -> Answer:
    """Return the answer for a record with `each`, of those for its sentences."""
    joined = Substitutes([], [])
    for answer in answers:
        assert isinstance(answer, Substitutes)
        joined.tokens.extend(answer.tokens)
        joined.candidates.extend(answer.candidates)
    return joined
