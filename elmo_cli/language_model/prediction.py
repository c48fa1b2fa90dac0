"""Prediction of words after a text, before it or in a gap of it.

Both directions meet in a gap. If the text on the left (l) and the text on the right (r) were
independent given the word w, Bayes' rule would give

    p(w | l, r)  is proportional to  p(w | l) p(w | r) / p(w)

The two log probabilities are added, the log probability of the word by itself is subtracted, and
the result is normalized over the vocabulary. The model does not know p(w). A vocabulary by falling
count approximates it: p(w) is taken to be log-uniform in the word's rank, as in the sampled softmax
of training.
"""

from collections.abc import Iterator

from elmo_cli.language_model.language_model import LanguageModel
from elmo_cli.language_model.next_words import Prediction
from elmo_cli.language_model.samples import Samples
from elmo_cli.language_model.substitutes import Substitutes
from elmo_cli.model.vocabulary import (
    UNKNOWN_TOKEN,
)

Answer = Prediction | Substitutes | Samples


def rows_of(answer: Answer, model: LanguageModel) -> Iterator[list[object]]:
    """Yield the rows of predicted words, the most probable word first, or of samples."""
    if isinstance(answer, Samples):
        for number, sample in enumerate(answer.samples, start=1):
            yield [number, " ".join(sample)]
    elif isinstance(answer, Prediction):
        for rank, candidate in enumerate(answer.candidates, start=1):
            yield [rank, *candidate]
    else:
        for position, token in enumerate(answer.tokens):
            known = token in model.vocabulary and token != UNKNOWN_TOKEN
            for rank, candidate in enumerate(answer.candidates[position], start=1):
                yield [position, token, known, rank, *candidate]
