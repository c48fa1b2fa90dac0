"""Evidence in a text that it is raw, or that it is tokenized.

In a tokenized text, spaces detach marks and clitics from the words: `here .`, `do n't`.
In a raw text, marks are attached to the ends of words: `here.`, `here,"`. Both are
counted. The order of the lines does not matter, and neither does their number.

Some marks are no evidence:

- `?`, `!`, `:` and `;` after a space, because raw French has them there, and `।`, as
  in raw Hindi
- the `.` of an abbreviation (`Mr.`, `U.S.`), which tokenizers leave at the word
- the dots of `. . .`
- texts in a script without spaces between words
"""

import html
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from elmo_cli.text.scripts import find_unspaced_script

Evidence = Literal["raw", "tokenized"]

EVIDENCE_LINES: Final = 200
"""Number of lines at the beginning of a text that are looked at."""

_MIN_ATTACHED: Final = 0.01
"""Minimum share of the words of a raw text that end in a mark."""
_MARKS: Final = ",;:!?.…،؛؟।۔"
"""They include those of Arabic, Hindi and Urdu."""
_CLOSING: Final = "\"'”’»“)]}*_"
"""Quotes, brackets and signs of emphasis that may follow a mark."""
_DETACHED_MARKS: Final = frozenset(
    [
        ".",
        ",",
        "。",
        "，",
        "、",
        # Quotes and brackets of the Penn Treebank
        "``",
        "''",
        "-lrb-",
        "-rrb-",
        # Marks within words, as in WikiText
        "@-@",
        "@,@",
        "@.@",
    ]
)
_CLITICS: Final = frozenset(["'s", "'re", "'ve", "'ll", "'d", "'m", "n't"])
"""English clitics, which follow a word."""
_BEFORE_T: Final = (
    "ain",
    "aren",
    "can",
    "couldn",
    "didn",
    "doesn",
    "don",
    "hadn",
    "hasn",
    "haven",
    "isn",
    "mustn",
    "needn",
    "shouldn",
    "wasn",
    "weren",
    "won",
    "wouldn",
)
"""Words before `'t`, as moses splits `don't`. Raw Dutch has `'t` after other words."""
_ELISIONS: Final = (
    "l'",
    "d'",
    "qu'",
    "c'",
    "j'",
    "n'",
    "s'",
    "m'",
    "dell'",
    "nell'",
    "all'",
    "dall'",
    "sull'",
    "un'",
)
"""French and Italian words that are attached to the next one in raw text."""
_ABBREVIATION_LIST: Final = """
    adm al approx apr assn assoc aug ave blvd brig bros bzw calif capt cf cmdr co colo
    corp dec dept dr eds engr esq etc evtl feb fla gov govt hrsg inc jan jr kg km lieut
    lt ltd maj messrs mfg mgr mich minn mlle mme mmes mr mrs ms mss mt nebr nov nr nrn
    oct okla pct penn phd pp prof rev sens sept sgt sr sra st ste supt tenn univ usw vgl
    vol vols vs
"""
_ABBREVIATIONS: Final = frozenset(_ABBREVIATION_LIST.split())
"""Abbreviations without those that often end a sentence as words, such as "mass"."""


def find_evidence(lines: Iterable[str]) -> Evidence | None:
    """Return what the marks in lines of text say; None without any evidence."""
    all_words: list[str] = []
    n_detached = 0
    n_attached = 0
    for line in lines:
        # Moses writes quotes and apostrophes as `&quot;` and `&apos;`.
        words = [html.unescape(word) for word in line.split()]
        all_words += words
        for index in range(len(words)):
            if _is_detached(words, index):
                n_detached += 1
            elif _has_attached_mark(words, index):
                n_attached += 1
    if n_detached == 0 and n_attached == 0:
        return None
    if find_unspaced_script(all_words) is not None:
        return None
    if n_detached >= n_attached:
        return "tokenized"
    # A text without punctuation still has rare abbreviations that are not known.
    return "raw" if n_attached >= _MIN_ATTACHED * len(all_words) else None


def _is_detached(words: Sequence[str], index: int) -> bool:
    """Return whether a word of a line is a mark or a clitic that a space detaches."""
    word = words[index].lower().replace("’", "'")
    if word in _ELISIONS:
        return index < len(words) - 1
    if index == 0:
        # In a list of tokens, a mark has a line of its own.
        return len(words) == 1 and word in _DETACHED_MARKS
    before = words[index - 1]
    if word in _CLITICS:
        return before[-1:].isalnum()
    if word == "'t":
        return before.lower() in _BEFORE_T
    if word == ".":
        # Spaces may also separate the dots of an ellipsis.
        following = words[index + 1 : index + 2]
        return before != "." and following != ["."]
    return word in _DETACHED_MARKS


def _has_attached_mark(words: Sequence[str], index: int) -> bool:
    """Return whether a word of a line ends in a mark that is not a part of it."""
    word = words[index]
    stem = word.rstrip(_MARKS + _CLOSING)
    end = word[len(stem) :]
    marks = end.strip(_CLOSING)
    n_letters = _n_last_letters(stem)
    if not marks or n_letters < 2:
        return False
    if marks != ".":
        return True
    is_abbreviation = (
        "." in stem or stem.strip(_CLOSING + "(“‘«").lower() in _ABBREVIATIONS
    )
    if is_abbreviation or len(words) == 1:
        return False
    if index == len(words) - 1 or end != ".":
        return True
    # Before a small letter, the word is an abbreviation.
    following = words[index + 1].lstrip(_CLOSING + "(“‘«`")
    begins_sentence = following[:1].isalpha() and not following[:1].islower()
    return n_letters >= 4 and begins_sentence


def _n_last_letters(stem: str) -> int:
    """Count the letters at the end of a word, with their combining marks."""
    n_letters = 0
    for character in reversed(stem):
        if unicodedata.category(character)[0] not in "LM":
            break
        n_letters += 1
    return n_letters
