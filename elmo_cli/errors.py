"""Errors that a user can cause, one class per kind of problem.

The message of each is one line that names the thing, the problem and the remedy. The command line
prints it and exits with status 1, or 2 for a `SettingsError`. Python shows it with arguments in
place of options: `overwrite=True` for `--overwrite`.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from errno import ENOENT
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import Any, Final

_FLAGS: Final = (
    "overwrite",
    "paragraphs",
    "skip-errors",
    "split-sentences",
    "use-sentence-keys",
)
_OTHER_NAMES: Final = {"format": "file_format", "mean-layers": "layers"}
_OPTION: Final = re.compile(
    r"`[^`]*`|--(?P<name>[a-z][a-z-]*[a-z])(?: (?P<value>allennlp|average|carry|conllu|cpu|float16|"
    r"float32|form|jsonl|lemma|mean|packed|parquet|pca|spacy:\w+|text|tokens|top|tsne|zero)\b)?"
)
"""Option in a message, with a value that may follow. Commands in backticks stay as they are."""
_names_options = False
_offered: Collection[str] | None = None  # options of the running command


@contextmanager
def option_names(
    shown: bool = True, offered: Collection[str] | None = None
) -> Iterator[None]:
    """Let messages name options, as the command line does, or arguments. See `is_offered`."""
    global _names_options, _offered
    before, (_names_options, _offered) = (_names_options, _offered), (shown, offered)
    try:
        yield
    finally:
        _names_options, _offered = before


def is_offered(option: str) -> bool:
    """Return whether advice may name an option: the running command has it, if there is one."""
    return _offered is None or option in _offered


def _name_argument(option: re.Match[str]) -> str:
    name, value = option["name"], option["value"]
    if name is None:
        return option[0]
    argument = _OTHER_NAMES.get(name, name.replace("-", "_"))
    return (
        f"{argument}=True"
        if name in _FLAGS
        else f"{argument}={value!r}"
        if value
        else argument
    )


class ElmoError(Exception):
    """Root of all errors that this package raises on purpose."""

    def __str__(self) -> str:
        message = super().__str__()
        return message if _names_options else _OPTION.sub(_name_argument, message)


class InputError(ElmoError, ValueError):
    """Text, a sentence or a word that cannot be used."""


class OtherInputError(InputError):
    """An input that differs from the one that a run began with."""


class SettingsError(InputError):
    """An option with a wrong value, or that other options, the input or the model exclude."""


class OptionsError(ElmoError, ValueError):
    """An options.json that does not describe a model."""


class WeightsError(ElmoError, ValueError):
    """A weights file that cannot be read or does not fit its options."""


class ModelError(ElmoError, ValueError):
    """A model that is unknown or incomplete."""


class OutputError(ElmoError, OSError):
    """An output file that cannot be written."""


class OutputNameError(SettingsError, OutputError):
    """A name of an output whose suffix is no format of it."""


class MissingFileError(ElmoError, FileNotFoundError):
    """A file or folder that is missing. Each kind of error has a class for it too."""

    errno = ENOENT


class MissingInputError(InputError, MissingFileError):
    """An input that is missing."""


class MissingOptionsError(OptionsError, MissingFileError):
    """An options.json that is missing."""


class MissingWeightsError(WeightsError, MissingFileError):
    """A weights file that is missing."""


class MissingModelError(ModelError, MissingFileError):
    """A model that is missing, or a file of it."""


class MissingFolderError(OutputError, MissingFileError):
    """A folder for an output that is missing."""


class DeviceError(ElmoError, RuntimeError):
    """A device that is not available."""


class ComputationError(ElmoError, RuntimeError):
    """A computation that failed because memory is too small or a device is lost."""


class StoppedError(ElmoError):
    """A run that stopped because `should_stop` returned True."""


def not_read(
    path: str | Path,
    content: str,
    error: OSError,
    kind: type[ElmoError],
    remedy: str = "",
) -> ElmoError:
    """Return the error for a file that cannot be read; see `missing_file` for a missing one."""
    if isinstance(error, FileNotFoundError):
        return missing_file(path, kind, remedy)
    reason = f"{error.strerror}. {remedy}" if remedy else error.strerror
    return kind(f"{path}: cannot read the {content}: {reason}")


def missing_file(
    path: str | Path, kind: type[ElmoError], remedy: str = ""
) -> ElmoError:
    """Return the error of a kind for a file that is missing, with a similar name beside it."""
    folder, name = os.path.split(path)
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    question = did_you_mean(name, names, key=lambda each: os.path.splitext(each)[0])
    [missing] = [
        each for each in kind.__subclasses__() if issubclass(each, MissingFileError)
    ]
    return missing(f"{path}: no such file.{question} {remedy}".rstrip())


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


def load_extra(name: str, package: str, extra: str) -> Any:
    """Import a package of an extra. Raise an `ElmoError` with the remedy if it is missing."""
    try:
        return import_module(package)
    except ImportError as error:
        needed = f"{name} needs {error.name or package}, which is not installed"
        raise ElmoError(
            f"{needed}. Install it with {install_command(extra)}."
        ) from None


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "elmo-cli[{extra}]", or in a checkout pip install ".[{extra}]"'


def listed(words: Iterable[object], last: str) -> str:
    """Return words for a message, with `or` or `and` before the last: `a, b or c`."""
    return f" {last} ".join(", ".join(map(str, words)).rsplit(", ", 1))


def ignore(*_: object) -> Any:
    """Do nothing, in place of a function that is called back."""


def did_you_mean(
    word: str, others: Iterable[str], key: Callable[[str], str] = str
) -> str:
    """Return the question whether a word with a similar key was meant, after a space, or `""`."""
    from difflib import get_close_matches  # Most runs need none.

    folded = {key(each).casefold(): each for each in others}
    similar = get_close_matches(key(word).casefold(), folded, n=1)
    return f" Did you mean {folded[similar[0]]!r}?" if similar else ""


def kind_of(value: object) -> str:
    """Describe a value of a wrong kind for an error message."""
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    return (
        "bytes"
        if isinstance(value, bytes)
        else f"a value of type {type(value).__name__}"
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; torch and h5py may add pages to it."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def system_reason(error: OSError) -> str:
    """Return the system's message for an error of a file, without what HDF5 adds."""
    if "unable to lock" in str(error):
        return (
            f"HDF5 cannot lock it ({os.strerror(error.errno or 0)}). Close the program that writes "
            "it, or set the environment variable HDF5_USE_FILE_LOCKING to FALSE"
        )
    return os.strerror(error.errno) if error.errno else first_line(error)


def shown(value: object) -> str:
    """Return a value from a file for a message, shortened if it is long."""
    text = str(value)
    return text if len(text) <= 1000 else f"{text[:1000]}..."


def utf8_name(path: str) -> str:
    """Return the name of a file, with escapes such as `\\xe9` for bytes that are not UTF-8."""
    return os.fsencode(path).decode(errors="backslashreplace")


def counted(number: int, unit: str) -> str:
    """Format a number with its unit: `1 line`, `2,000 lines`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def size_text(n_bytes: float) -> str:
    """Format a number of bytes in powers of 1000: `1.5 GB`."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if n_bytes < 1000 or unit == "TB":
            break
        n_bytes /= 1000
    return (
        f"{n_bytes:,.0f} {unit}"
        if n_bytes >= 10 or unit == "bytes"
        else f"{n_bytes:.1f} {unit}"
    )
