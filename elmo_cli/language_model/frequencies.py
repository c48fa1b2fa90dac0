"""Log frequencies of words: log2 of the share of a word among all words, in bits.

They come from a file of counts, or are estimated from the ranks in a model's
vocabulary. The frequency of a word in a text does not depend on the punctuation around
it.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from numbers import Real

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import InputError
from elmo_cli.model.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_cli.text.tokenizers import normalize


def estimate_frequencies(vocabulary: Vocabulary) -> dict[str, float]:
    """Estimate the log frequency of each word of a vocabulary from its rank.

    The words are in the order of their counts. A share that is log-uniform in the rank
    r, from 0, is `log((r + 2) / (r + 1)) / log(V + 1)`: Zipf's law, as in the sampled
    softmax of training.
    """
    total = math.log(len(vocabulary) + 1)
    return {
        word: math.log2(math.log1p(1 / (rank + 1)) / total)
        for rank, word in enumerate(vocabulary.words)
        if word not in SPECIAL_TOKENS
    }


def log_frequencies_of(
    counts: Mapping[str, float], name: str = "frequencies"
) -> dict[str, float]:
    """Return the log frequency of each word from counts; words with 0 have none.

    Counts may be any numbers from 0, such as one per million words. `name` is the name
    of the counts in an error.

    Raises:
        InputError: A count is no such number, or all are 0.
    """
    check_type(name, counts, Mapping, "counts of words or a file of them")
    totals: dict[str, float] = {}
    for word, count in counts.items():
        is_count = isinstance(count, Real) and 0 <= count < math.inf
        if not isinstance(word, str) or not is_count:
            raise InputError(
                f"{name}: expected the counts of words, found {word!r}: {count!r}"
            )
        # Words that differ in their typographic marks are one word.
        plain = normalize(word).strip()
        totals[plain] = totals.get(plain, 0.0) + count
    total = sum(totals.values())
    if not total:
        raise InputError(f"{name}: no words with counts")
    return {word: math.log2(count / total) for word, count in totals.items() if count}


def sum_frequencies(
    words: Sequence[tuple[str, Sequence[str]]], frequencies: Mapping[str, float]
) -> float | None:
    """Return the sum of the log frequencies of words, each with its tokens.

    A word is looked up without the punctuation around it, as it is written or in lower
    case. If it is missing, its tokens are added. Punctuation counts only if there is
    nothing else. The sum is None if one of the words has no frequency.
    """
    with_letters = [(word, tokens) for word, tokens in words if _bare(word)]
    values: list[float] = []
    for word, tokens in with_letters or words:
        value = _look_up(word, frequencies, is_token=list(tokens) == [word])
        own_values = [value]
        if value is None:
            parts = [token for token in tokens if _bare(token)] or tokens
            own_values = [_look_up(part, frequencies, is_token=True) for part in parts]
        for each in own_values:
            if each is None:
                return None
            values.append(each)
    return sum(values)


def _look_up(
    word: str, frequencies: Mapping[str, float], *, is_token: bool
) -> float | None:
    """Look up a word without the punctuation around it.

    A token is first looked up as it is, because it may be `Dr.` or `'t`.
    """
    plain = normalize(word).strip()
    forms = [word, plain] if is_token else []
    forms.append(_bare(plain) or plain)
    for form in forms:
        value = frequencies.get(form, frequencies.get(form.lower()))
        if value is not None:
            return value
    return None


def _bare(word: str) -> str:
    """Return a word without the punctuation and symbols around it."""
    marks = [char for char in word if unicodedata.category(char)[0] in "PSZ"]
    return word.strip("".join(marks))
