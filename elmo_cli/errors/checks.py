"""Checks of arguments, which raise an error that names the argument or its option."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Final, TypeVar, cast

from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.errors.messages import option_of
from elmo_cli.errors.wording import expected_one_of, kind_of
from elmo_cli.types import Sentence, Text

_Item = TypeVar("_Item")
_PATH: Final = re.compile(r"\S*[./\\]\S*")
"""What may be the path of a file rather than a text."""


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise a `SettingsError` unless a value is one of the choices."""
    if value not in choices:
        raise SettingsError(
            "{option}: {problem}",
            option=option_of(name),
            problem=expected_one_of(choices, value),
        )


def check_at_least(name: str, value: int, least: int) -> None:
    """Raise a `SettingsError` for a number that is too small, or for another value."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise SettingsError(
            "{name}: expected a whole number, found {found}",
            name=name,
            found=kind_of(value),
        )
    if value < least:
        raise SettingsError(
            "{option}: expected {least} or more, found {value}",
            option=option_of(name),
            value=value,
            least=least,
        )


def check_flag(name: str, value: object) -> None:
    """Raise a `SettingsError` unless a value is True or False, perhaps of NumPy."""
    is_of_numpy = str(getattr(value, "dtype", "")) == "bool"
    if not isinstance(value, bool) and not is_of_numpy:
        raise SettingsError(
            "{option}: expected True or False, found {found}",
            option=option_of(name),
            found=kind_of(value),
        )


def check_function(name: str, value: object) -> None:
    """Raise an `InputError` for an argument that is neither a function nor None."""
    if value is not None and not callable(value):
        raise _other_kind_error(name, value, "a function")


def check_path(name: str, value: object) -> None:
    """Raise an `InputError` for an argument that is not the path of a file."""
    check_type(name, value, (str, os.PathLike), "a path")


def check_type(
    name: str,
    value: object,
    kind: type | tuple[type, ...],
    expected: str,
    remedy: str | None = None,
) -> None:
    """Raise an `InputError` for an argument that has another type."""
    if not isinstance(value, kind):
        raise _other_kind_error(name, value, expected, remedy)


def check_sentence(
    sentence: object, name: str = "sentence", expected: str = "a list of tokens"
) -> Sentence:
    """Return the tokens of a sentence, a sequence of strings.

    `name` and `expected` describe it in the error for anything else.
    """
    # Arrays are accepted. An iterator is not, because reading it once would consume it.
    is_text = isinstance(sentence, (str, bytes))
    is_table = isinstance(sentence, Mapping) or hasattr(sentence, "columns")
    if is_text or is_table or not hasattr(sentence, "__getitem__"):
        remedy = None
        if isinstance(sentence, str):
            remedy = "Tokenize it first, for example with elmo_cli.tokenize()."
        raise _other_kind_error(name, sentence, expected, remedy)
    tokens: Sentence = list(cast(Sequence[str], sentence))
    for position, token in enumerate(tokens):
        if not isinstance(token, str):
            raise _other_kind_error(f"{name}[{position}]", token, "a string")
    return tokens


def check_sentences(
    batch: Iterable[object], name: str = "sentences"
) -> Iterator[Sentence]:
    """Return the tokens of each sentence of a batch or stream.

    The batch is checked now, and each sentence when it is read.
    """
    if isinstance(batch, str):
        remedy = "Tokenize it first, for example with elmo_cli.tokenize()."
        raise _other_kind_error(name, batch, "lists of tokens", remedy)
    return (
        check_sentence(sentence, f"{name}[{index}]")
        for index, sentence in enumerate(check_batch(batch, name))
    )


def list_texts(texts: object, name: str = "texts") -> list[Text]:
    """Return the texts of an argument that is one string, or a batch of texts."""
    if isinstance(texts, str):
        _check_is_no_file(texts, name)
        return [texts]
    batch = check_batch(cast(Iterable[object], texts), name, "a string or a list")
    return list(check_texts(batch, name))


def _check_is_no_file(text: str, name: str) -> None:
    """Raise an `InputError` for the path of a file in the place of a text."""
    is_like_path = _PATH.fullmatch(text) is not None
    if is_like_path and os.path.isfile(text):
        raise InputError(
            "{name}: expected a text, found the file {text}",
            remedy="Read it first: {path}.read_text().splitlines()",
            name=name,
            text=repr(text),
            path=f"Path({text!r})",
        )


def check_texts(texts: Iterable[object], name: str = "texts") -> Iterator[Text]:
    """Return the texts of a batch or stream, each a string or a list of tokens.

    The batch is checked now, and each text when it is read.
    """
    return (
        _check_text(text, f"{name}[{index}]")
        for index, text in enumerate(check_batch(texts, name))
    )


def _check_text(text: object, name: str) -> Text:
    if isinstance(text, str):
        return text
    return check_sentence(text, name, "a string or a list of tokens")


def check_batch(
    batch: Iterable[_Item], name: str, expected: str = "a list"
) -> Iterable[_Item]:
    """Return a batch unchanged; raise an `InputError` for a string, set or table.

    `expected` describes it in the error.
    """
    if not _is_batch(batch):
        raise _other_kind_error(name, batch, expected, _batch_remedy(batch))
    return batch


def _is_batch(value: object) -> bool:
    """Return whether the items of a value can be read in an order."""
    if isinstance(value, (str, bytes, Mapping, set, frozenset)):
        return False
    # Iterating over a table gives the names of its columns.
    if hasattr(value, "columns"):
        return False
    return hasattr(value, "__iter__") or hasattr(value, "__getitem__")


def _batch_remedy(value: object) -> str | None:
    """Return how a value that is no batch becomes one."""
    if isinstance(value, str):
        return "Put it into a list."
    if isinstance(value, Mapping):
        return "Give one of its values. Only HubElmo takes the mapping of TF-Hub."
    if hasattr(value, "columns"):
        return "Choose one of its columns."
    if isinstance(value, (set, frozenset)):
        return "Make a list."
    return None


def _other_kind_error(
    name: str, value: object, expected: str, remedy: str | None = None
) -> InputError:
    """Return the error for an argument of another kind than the expected one.

    `remedy` is that of a value that is not bytes.
    """
    if isinstance(value, bytes):
        remedy = "Decode them first, for example by .decode()."
    return InputError(
        "{name}: expected {expected}, found {found}",
        remedy=remedy,
        name=name,
        expected=expected,
        found=kind_of(value),
    )
