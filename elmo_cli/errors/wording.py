"""Wording of messages: lists, numbers, sizes, names and reasons."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Final

SAYS_ITS_KIND: Final = {"says_its_kind": True}
"""`extra` of a warning in the log that begins with its kind, such as `Skipped: `.

The command line writes `Warning: ` before the others."""

_SYNONYMS: Final = {
    "average": "mean",
    "avg": "mean",
    "mean": "average",
    "bf16": "bfloat16",
    "fp16": "float16",
    "gpu": "cuda",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    "h5": "hdf5",
    "json": "jsonl",
    "txt": "text",
}
"""Name that an option has for a value, by another name of the value."""

_LONGEST_VALUE: Final = 1000
_LONGEST_EXCERPT: Final = 80


def listed(words: Iterable[object], last: str) -> str:
    """Return words for a message, with `or` or `and` before the last: `a, b or c`."""
    texts = [str(word) for word in words]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def expected_one_of(choices: Iterable[str], found: object) -> str:
    """Return the problem of a value that is not one of the choices, and its remedy."""
    choices = list(choices)
    expected = f"expected {listed(choices, 'or')}"
    if not isinstance(found, str):
        return f"{expected}, found {found!r}"
    problem = f"{expected}, found {quoted(found)}"
    digits = "0123456789"
    stems = [choice.rstrip(digits) for choice in choices]
    if found.rstrip(digits) in stems:  # float64 is no mistake for float16.
        return problem
    return with_question(problem, did_you_mean(found, choices))


def with_question(problem: str, question: str) -> str:
    """Return a problem, and after it the question of `did_you_mean`, if any."""
    return f"{problem}. {question}" if question else problem


def unknown_suffix(path: str | PurePath) -> str:
    """Return the problem of an output whose suffix is of no format."""
    suffix = PurePath(path).suffix
    return f"{path}: unknown suffix {suffix!r}" if suffix else f"{path}: no suffix"


def did_you_mean(
    word: str, others: Iterable[str], key: Callable[[str], str] = str
) -> str:
    """Return the question whether another word was meant: `Did you mean 'hdf5'?`.

    Without a `similar_word` the question is empty.
    """
    similar = similar_word(word, others, key)
    return f"Did you mean {similar!r}?" if similar else ""


def similar_word(
    word: str, others: Iterable[str], key: Callable[[str], str] = str
) -> str:
    """Return a synonym of a word, or a word with a similar key, or ""."""
    from difflib import get_close_matches  # Most runs need none.

    by_key = {key(other).casefold(): other for other in others}
    typed = key(word).casefold()
    synonym = _SYNONYMS.get(typed)
    if synonym in by_key:
        return by_key[synonym]
    if typed in by_key:
        return by_key[typed]
    for each in by_key:
        if len(typed) > 2 and _is_swapped(typed, each):
            return by_key[each]
    for each in get_close_matches(typed, by_key, cutoff=0.6):
        # Short words share most letters with many others.
        shorter = min(len(typed), len(each))
        if shorter > 3:
            return by_key[each]
        if shorter == 3 and get_close_matches(typed, [each], cutoff=0.8):
            return by_key[each]
    return ""


def _is_swapped(typed: str, other: str) -> bool:
    """Return whether two letters next to each other are swapped in a word."""
    if len(typed) != len(other):
        return False
    places = [index for index in range(len(typed)) if typed[index] != other[index]]
    if len(places) != 2 or places[1] != places[0] + 1:
        return False
    return sorted(typed) == sorted(other)


def kind_of(value: object) -> str:
    """Describe a value of a wrong kind for an error message."""
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if isinstance(value, bytes):
        return "bytes"
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    return f"a value of type {type(value).__name__}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message. torch and h5py may add pages."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def json_problem(error: ValueError | RecursionError) -> str:
    """Return what is wrong with a text that is not valid JSON, and where."""
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON, line {error.lineno}, column {error.colno}"
    if isinstance(error, RecursionError):
        return "not valid JSON: too many nested brackets"
    if isinstance(error, UnicodeDecodeError):
        return f"not valid UTF-8 (byte 0x{error.object[error.start]:02x})"
    return "not valid JSON: a number has too many digits"


def system_reason(error: OSError) -> str:
    """Return the system's message for an error of a file, without what HDF5 adds."""
    if "unable to lock" in str(error):
        return (
            f"HDF5 cannot lock it ({os.strerror(error.errno or 0)}). Close the program "
            "that writes it, or set the environment variable HDF5_USE_FILE_LOCKING to "
            "FALSE."
        )
    if error.filename is not None and error.strerror:
        return error.strerror  # Errors of HDF5 and of Arrow name no file.
    return os.strerror(error.errno) if error.errno else first_line(error)


def shown(value: object) -> str:
    """Return a value from a file for a message, cut after 1,000 characters."""
    return _cut(str(value), _LONGEST_VALUE)


def excerpt(text: str) -> str:
    """Return a text for a message, cut after 80 characters."""
    return _cut(text, _LONGEST_EXCERPT)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def quoted(text: str) -> str:
    """Return an excerpt of a text in quotes for a message."""
    return repr(excerpt(text))


def utf8_name(path: str) -> str:
    r"""Return the name of a file as UTF-8, with `\xe9` and the like for other bytes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def counted(number: int, unit: str) -> str:
    """Format a number with its unit: `1 line`, `2,000 lines`."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


def rate_text(n_tokens: int, seconds: float) -> str:
    """Return the speed of a run after a comma, or "" for one of under a second."""
    if n_tokens == 0 or seconds < 1:
        return ""
    return f", {n_tokens / seconds:,.0f} tokens/s"


def size_text(n_bytes: float) -> str:
    """Format a number of bytes in powers of 1000: `1.5 GB`."""
    unit = "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if n_bytes < 1000:
            break
        n_bytes /= 1000
        unit = larger
    if n_bytes >= 10 or unit == "bytes":
        return f"{n_bytes:,.0f} {unit}"
    return f"{n_bytes:.1f} {unit}"
