"""Errors that a user can cause, one class per kind of problem.

The message of each is one line that names the thing, the problem and the remedy. The
command line prints it and exits with status 1, or 2 for a `SettingsError`. Python shows
it with arguments in place of options: `overwrite=True` for `--overwrite`.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from errno import ENOENT
from typing import Final

from elmo_cli.errors.messages import Message

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

    def __init__(self, message: str | Message = "") -> None:
        super().__init__(message)

    def __str__(self) -> str:
        if self.args and isinstance(self.args[0], Message):
            return str(self.args[0])
        message = super().__str__()
        return message if _names_options else _OPTION.sub(_name_argument, message)


class InputError(ElmoError, ValueError):
    """Text, a sentence or a word that cannot be used."""


class OtherInputError(InputError):
    """An input that differs from the one that a run began with."""


class SettingsError(InputError):
    """An option with a wrong value, or one that does not fit the other options."""


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
