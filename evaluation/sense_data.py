"""Corpora of word senses: SemCor, test sets, and WordNet's index.

A sense is a sense key of WordNet 3.0, such as `long%3:00:02::`.
"""

import html
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from evaluation.token_style import to_tokens

Word = tuple[str, str]
"""A lemma in lower case and its part of speech: n, v, a or r."""

_PARTS_OF_SPEECH = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
_SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
_ELEMENT = re.compile(r"<(?:(/?)s\b|(wf|punc)([^>]*)>([^<]*)<)")
_SYNTACTIC_MARKER = re.compile(r"\((a|p|ip)\)")
"""Marks of adjectives, as in `some(a)`, which sense keys of WordNet 3.0 lack."""
_ATTRIBUTE = re.compile(r"""(\w+)=(?:"([^"]*)"|([^\s">]+))""")


class Target(NamedTuple):
    """Word of a sentence with its senses."""

    positions: range
    """Positions of its tokens, at least one."""
    word: Word
    senses: tuple[str, ...]
    """Correct senses, mostly one."""


class SenseSentence(NamedTuple):
    """Sentence with its targets."""

    tokens: list[str]
    targets: list[Target]
    source: str
    """Name of the corpus or data set."""


def word_of(sense: str) -> Word:
    """Return the word of a sense key."""
    lemma, _, rest = sense.partition("%")
    return lemma.lower(), _SENSE_TYPES[rest[0]]


def read_semcor(paths: Iterable[Path]) -> Iterator[SenseSentence]:
    """Yield the sentences of SemCor in its original format.

    Its elements are like `<wf cmd="done" lexsn=...>`.

    Args:
        paths: Files such as `br-a01`; their attributes may be quoted or not.
    """
    for path in paths:
        words: list[str] = []
        tags: list[tuple[int, tuple[str, ...]]] = []
        for match in _ELEMENT.finditer(path.read_text(encoding="latin-1")):
            closes, name, attributes, text = match.groups()
            if name is None:
                if closes and words:
                    without_words = [(i, None, senses) for i, senses in tags]
                    yield _make_sentence(words, without_words, "SemCor")
                words = []
                tags = []
                continue
            senses = _senses_of(attributes) if name == "wf" else ()
            if senses:
                tags.append((len(words), senses))
            words.append(html.unescape(text).replace("_", " "))


def _senses_of(attributes: str) -> tuple[str, ...]:
    """Return the sense keys of an element of SemCor; empty if it is not tagged."""
    values = {
        name: quoted or bare for name, quoted, bare in _ATTRIBUTE.findall(attributes)
    }
    if "lemma" not in values or not values.get("lexsn"):
        return ()
    lemma = html.unescape(values["lemma"]).lower()
    numbers = _SYNTACTIC_MARKER.sub("", values["lexsn"]).split(";")
    return tuple(
        f"{lemma}%{number}" for number in numbers if number[:1] in _SENSE_TYPES
    )


def read_test_sets(path: Path) -> Iterator[SenseSentence]:
    """Yield the sentences of `ALL.data.xml`, with the senses of its gold file.

    The source of a sentence is its data set, such as `senseval2`: the first part of its
    id.
    """
    gold = path.with_name(path.name.replace(".data.xml", ".gold.key.txt"))
    lines = map(str.split, gold.read_text(encoding="utf-8").splitlines())
    senses_by_id = {name: tuple(senses) for name, *senses in lines if senses}
    for sentence in ElementTree.parse(path).iter("sentence"):
        tags = []
        for index, element in enumerate(sentence):
            if element.tag == "instance":
                attributes = element.attrib
                word = (
                    attributes["lemma"].lower(),
                    _PARTS_OF_SPEECH[attributes["pos"]],
                )
                tags.append((index, word, senses_by_id[attributes["id"]]))
        words = [element.text or "" for element in sentence]
        yield _make_sentence(words, tags, sentence.attrib["id"].partition(".")[0])


def _make_sentence(
    words: list[str],
    tags: Iterable[tuple[int, Word | None, tuple[str, ...]]],
    source: str,
) -> SenseSentence:
    tokens, positions = to_tokens(words)
    targets = [
        Target(positions[index], word or word_of(senses[0]), senses)
        for index, word, senses in tags
        if positions[index]
    ]
    return SenseSentence(tokens, targets, source)


def read_sense_numbers(path: Path) -> dict[str, int]:
    """Read WordNet's index.sense: the number of each sense, from 1."""
    fields = map(str.split, path.read_text(encoding="utf-8").splitlines())
    return {sense: int(number) for sense, _, number, _ in fields}
