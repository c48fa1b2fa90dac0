"""Target words at annotated places of texts."""

from collections.abc import Mapping
from typing import NamedTuple

from elmo_cli.errors.messages import Message
from elmo_cli.errors.wording import counted
from elmo_cli.records.record import AnnotatedPlace, Record
from elmo_cli.text.alignment import (
    AlignedTokens,
    CharacterSpan,
    align_spans,
    locate_tokens,
)
from elmo_cli.types import Sentence


class FoundPlace(NamedTuple):
    """Place of a target word in a record."""

    place: AnnotatedPlace
    tokens: slice
    """Positions of its tokens in the record."""
    word: str
    """The target word."""


def align_place(place: AnnotatedPlace, tokens: Sentence) -> AlignedTokens:
    """Return the tokens of a record that a place overlaps; perhaps none.

    Raise an `InputError` if they are not those of the text of the place.
    """
    span = CharacterSpan(0, 0)
    if place.end <= len(place.text):
        span = CharacterSpan(place.start, place.end)
    [aligned] = align_spans([span], locate_tokens(place.text, tokens))
    return aligned


def must_have_place(record: Record) -> bool:
    """Return whether a record is certainly a use of its annotated word alone."""
    return any(place.is_certain for place in record.places)


class PlaceFinder:
    """Finder of the target words at annotated places, with what went wrong."""

    def __init__(self, words: Mapping[str, str], unit: str) -> None:
        """Find target words by their forms, in any case.

        `unit` is what the number of a record counts, for warnings, such as `line`.
        """
        self._unit = unit
        self._words = words
        self._names = set(words.values())
        self._folded = {form.casefold(): word for form, word in words.items()}
        self._left_out: list[str] = []
        self._unfound: list[str] = []
        self._uneven: list[str] = []

    def find(self, record: Record) -> list[FoundPlace]:
        """Return the target words at the places of a record, by their positions.

        A word that has its place in `indexes_target_token` is the target word that is
        its `lemma`, in whatever form, or the only target word. Nothing is returned if
        there is no target word at any place.
        """
        if not record.tokens:
            return []
        found: dict[int, FoundPlace] = {}
        others = []
        for place in record.places:
            aligned = align_place(place, record.tokens)
            tokens = record.tokens[aligned.tokens]
            forms = [place.text[place.start : place.end], *tokens]
            word = None
            if tokens:
                word = self._word_of(forms, place)
            if word is None:
                others.append(" ".join(tokens) or f"{place.start}:{place.end}")
                continue
            if len(tokens) > 1 or not aligned.are_whole:
                self._uneven.append(f"{record.start}: {' '.join(tokens)!r}")
            start = aligned.tokens.start
            found.setdefault(start, FoundPlace(place, aligned.tokens, word))
        if others and not found:
            rows = self._left_out if must_have_place(record) else self._unfound
            rows.append(f"{record.start}: {others[0]!r}")
        return [found[start] for start in sorted(found)]

    def _word_of(self, forms: list[str], place: AnnotatedPlace) -> str | None:
        if place.is_certain and place.lemma in self._names:
            return place.lemma
        for form in forms:
            word = self._words.get(form) or self._folded.get(form.casefold())
            if word is not None:
                return word
        if place.is_certain and len(self._names) == 1:
            [only_word] = self._names
            return only_word
        return None

    def warnings(self) -> list[Message]:
        """Return warnings about places without a target word or of other tokens."""
        warnings = []
        consequences = {
            "these rows were left out": self._left_out,
            "the words of these rows were searched for": self._unfound,
        }
        for consequence, places in consequences.items():
            if places:
                warnings.append(
                    Message(
                        f"{counted(len(places), 'annotated place')} without a "
                        f"target word, so {consequence}. The first is "
                        f"{self._unit} {places[0]}",
                        remedy="Add the form to {--words}, or check the characters.",
                    )
                )
        if self._uneven:
            are = "is" if len(self._uneven) == 1 else "are"
            warnings.append(
                Message(
                    f"{counted(len(self._uneven), 'annotated word')} {are} not "
                    "one whole token. The vector is the mean of all tokens that "
                    f"the characters overlap. The first is {self._unit} "
                    f"{self._uneven[0]}",
                )
            )
        return warnings
