"""Checks of arguments, which raise an error that names the argument."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Final, TypeVar, cast

from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.wording import kind_of, listed


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise a `SettingsError` unless a value is one of the choices."""
    if value not in choices:
        raise SettingsError(f"{name} {value!r}: expected {listed(choices, 'or')}.")


def check_at_least(name: str, value: int, least: int) -> None:
    """Raise a `SettingsError` for a number that is too small, or for another value."""
    check_type(name, value, Integral, "a whole number")
    if value < least:
        raise SettingsError(f"{name} {value}: expected {least} or more")


def check_type(
    name: str, value: object, kind: type | tuple[type, ...], expected: str
) -> None:
    """Raise an `InputError` for an argument that has another type."""
    if not isinstance(value, kind):
        raise InputError(f"{name}: expected {expected}, found {kind_of(value)}.")


Sentence = list[str]


Text = str | Sentence  # raw text, or a list of tokens


_Item = TypeVar("_Item")


_READS: Final = ("__iter__", "__getitem__")


_REMEDIES: Final = {
    str: " Tokenize it first, for example with elmo_cli.tokenize().",
    bytes: " Decode them first, for example by .decode().",
}


def check_sentence(
    sentence: object, name: str = "sentence", expected: str = "a list of tokens"
) -> Sentence:
    """Return the tokens of a sentence, a sequence of strings; its name is for error messages."""
    # Arrays are accepted. An iterator is not, because reading it once would consume it.
    is_table = isinstance(sentence, Mapping) or hasattr(sentence, "columns")
    is_sequence = hasattr(sentence, "__getitem__") and not is_table
    if isinstance(sentence, (str, bytes)) or not is_sequence:
        remedy = next(
            (text for kind, text in _REMEDIES.items() if isinstance(sentence, kind)), ""
        )
        raise InputError(
            f"{name}: expected {expected}, found {kind_of(sentence)}.{remedy}"
        )
    tokens: Sentence = list(cast(Sequence[str], sentence))
    for position, token in enumerate(tokens):
        if not isinstance(token, str):
            raise InputError(
                f"{name}[{position}]: expected a string, found {kind_of(token)}."
            )
    return tokens


def check_sentences(
    batch: Iterable[object], name: str = "sentences"
) -> Iterator[Sentence]:
    """Yield the tokens of each sentence of a batch or stream."""
    for index, sentence in enumerate(check_batch(batch, name)):
        yield check_sentence(sentence, f"{name}[{index}]")


def check_batch(batch: Iterable[_Item], name: str) -> Iterable[_Item]:
    """Return a batch unchanged; raise an `InputError` for a string, a mapping, a set or a table."""
    remedy = None
    if isinstance(batch, (str, bytes)):
        remedy = "Put it into a list."
    elif isinstance(batch, Mapping):
        remedy = "Give one of its values. Only HubElmo takes the mapping of TF-Hub."
    elif hasattr(
        batch, "columns"
    ):  # Iterating over a table gives the names of its columns.
        remedy = "Choose one of its columns."
    elif isinstance(batch, (set, frozenset)) or not any(
        hasattr(batch, name) for name in _READS
    ):
        remedy = "Make a list."
    if remedy is not None:
        raise InputError(f"{name}: expected a list, found {kind_of(batch)}. {remedy}")
    return batch
