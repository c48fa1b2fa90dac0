"""Log frequencies of words: log2 of the share of a word among all words, in bits.

They come from a file of counts, or are estimated from the ranks in a model's vocabulary. The
frequency of a word in a text does not depend on the punctuation around it.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence

from elmo_cli.model.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo_cli.text.tokenizers import normalize


def estimate_frequencies(vocabulary: Vocabulary) -> dict[str, float]:
    """Estimate the log frequency of each word of a vocabulary from its rank.

    The words are in the order of their counts. A share that is log-uniform in the rank r, from 0,
    is `log((r + 2) / (r + 1)) / log(V + 1)`: Zipf's law, as in the sampled softmax of training.
    """
    total = math.log(len(vocabulary) + 1)
    return {
        word: math.log2(math.log1p(1 / (rank + 1)) / total)
        for rank, word in enumerate(vocabulary.words)
        if word not in SPECIAL_TOKENS
    }


def sum_frequencies(
    words: Sequence[tuple[str, Sequence[str]]], frequencies: Mapping[str, float]
) -> float | None:
    """Return the sum of the log frequencies of words, each with its tokens. None if one has none.

    A word is looked up without the punctuation around it, as it is written or in lower case. If it
    is missing, its tokens are added. Punctuation counts only if there is nothing else.
    """
    values: list[float | None] = []
    for word, tokens in [each for each in words if _bare(each[0])] or words:
        if (
            value := _look_up(word, frequencies, is_token=list(tokens) == [word])
        ) is not None:
            values.append(value)
        else:
            parts = [token for token in tokens if _bare(token)] or tokens
            values += [_look_up(part, frequencies, is_token=True) for part in parts]
    present = [value for value in values if value is not None]
    return sum(present) if len(present) == len(values) else None


def _look_up(
    word: str, frequencies: Mapping[str, float], *, is_token: bool
) -> float | None:
    """Look up a word, at first without the punctuation around it; a token may be `Dr.` or `'t`."""
    plain = normalize(word).strip()
    forms = [*([word, plain] if is_token else []), _bare(plain) or plain]
    values = (frequencies.get(form, frequencies.get(form.lower())) for form in forms)
    return next((value for value in values if value is not None), None)


def _bare(word: str) -> str:
    """Return a word without the punctuation and symbols around it; empty if it has only these."""
    return word.strip(
        "".join(char for char in word if unicodedata.category(char)[0] in "PSZ")
    )
