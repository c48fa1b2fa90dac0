"""The example sentences of WordNet's senses.

From WordNet's own files, `data.POS`, `index.POS` and `POS.exc` in one folder (Debian:
wordnet-base, /usr/share/wordnet; their format: `man 5 wndb`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elmo_cli.text.records import Sentence
from elmo_cli.text.tokenizers import tokenize

PARTS_OF_SPEECH = ("noun", "verb", "adj")


class Example(NamedTuple):
    """A sentence with a word in one of its senses."""

    sense: int
    """Its number in WordNet, from 0: the more frequent first."""
    sentence: Sentence
    place: int
    """The token that is the word, perhaps inflected."""


def read_examples(folder: Path) -> dict[tuple[str, str], list[Example]]:
    """The examples of each word and part of speech that has them for two senses or more.

    Examples in which the word is not to be found, or more than once, are left out.
    """
    words: dict[tuple[str, str], list[Example]] = {}
    for pos in PARTS_OF_SPEECH:
        try:
            quoted = dict(_read_quotes(folder / f"data.{pos}"))
            bases = _read_exceptions(folder / f"{pos}.exc")
            senses = list(_read_senses(folder / f"index.{pos}"))
        except OSError as error:
            raise SystemExit(f"{folder}: expected WordNet's files: {error}") from None
        for word, synsets in senses:
            found = list(_find_examples(word, [quoted.get(s, []) for s in synsets], bases))
            if len({example.sense for example in found}) >= 2:
                words[word, pos] = found
    return words


def _read_quotes(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each synset's offset and the quoted examples of its gloss."""
    for line in path.read_text(encoding="latin-1").split("\n"):
        if line[:1].isdigit():
            yield line[:8], re.findall(r'"([^"]+)"', line.partition(" | ")[2])


def _read_senses(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each single word of several senses and its synsets, the most frequent first."""
    for line in path.read_text(encoding="latin-1").split("\n"):
        fields = line.split()
        if line[:1].isalpha() and fields[0].isalpha() and int(fields[2]) > 1:
            yield fields[0], fields[-int(fields[2]) :]


def _read_exceptions(path: Path) -> dict[str, list[str]]:
    """Irregular forms and the words they are forms of."""
    lines = path.read_text(encoding="latin-1").split("\n")
    return {form: bases for form, *bases in map(str.split, filter(None, lines))}


def _find_examples(
    word: str, quoted: list[list[str]], bases: dict[str, list[str]]
) -> Iterator[Example]:
    for sense, sentences in enumerate(quoted):
        for sentence in sentences:
            places = [
                place
                for place, form in enumerate(re.findall(r"[^\W\d_]+", sentence.lower()))
                if is_form(form, word, bases)
            ]
            if len(places) == 1:
                tokens = tokenize(sentence)
                found = [i for i, token in enumerate(tokens) if is_form(token.lower(), word, bases)]
                if len(found) == 1:
                    yield Example(sense, tokens, found[0])


def is_form(form: str, word: str, bases: dict[str, list[str]]) -> bool:
    """Whether a form is the word or an inflection: irregular, or by the rules of English."""
    if form == word or word in bases.get(form, []):
        return True
    if not form.startswith(word[:-1]):
        return False
    stems = [word, word + word[-1]]
    if word.endswith("e"):
        stems.append(word[:-1])
    if word.endswith("y"):
        stems.append(word[:-1] + "i")
    endings = ("s", "es", "d", "ed", "ing", "er", "est")
    return any(form == stem + ending for stem in stems for ending in endings)
