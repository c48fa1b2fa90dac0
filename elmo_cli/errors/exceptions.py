"""Errors that a user can cause, one class per kind of problem.

The message of each is one line that names the thing, the problem and the remedy. The
command line prints it and exits with status 1, or 2 for a `SettingsError`. Python shows
it with arguments in place of options: `overwrite=True` for `--overwrite`.

    ElmoError
      InputError, a ValueError
        OtherInputError
        SettingsError
        MissingInputError
      WeightsError, a ValueError
        MissingWeightsError
      ModelError, a ValueError
        MissingModelError
      OutputError, an OSError
        OutputNameError
        MissingFolderError
      DeviceError, a RuntimeError
      ComputationError, a RuntimeError
      StoppedError

The bases in Python are those that a caller may already catch. For the same reason each
class `Missing...` is also a `MissingFileError`, and so a `FileNotFoundError`, and an
`OutputNameError` is also a `SettingsError`.
"""

from collections.abc import Sequence
from errno import ENOENT

from elmo_cli.errors.messages import Message


class ElmoError(Exception):
    """Base class of all errors that this package raises on purpose.

        raise InputError(f"{path}: no words", remedy="Write one word per line.")
        raise OutputError(
            f"{path}: already exists", remedy="Use {--overwrite True} to replace it."
        )

    The arguments are those of `Message`, which explains the braces. `str` of an error
    names arguments of Python, and the command line the options that are typed.
    """

    def __init__(
        self,
        problem: str | Message = "",
        /,
        *,
        remedy: str | Sequence[str] | None = None,
        shell_remedy: str | None = None,
        **values: object,
    ) -> None:
        if isinstance(problem, Message):
            message = problem
        else:
            message = Message(
                problem, remedy=remedy, shell_remedy=shell_remedy, **values
            )
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0])


class InputError(ElmoError, ValueError):
    """An input or argument that cannot be used."""


class OtherInputError(InputError):
    """An input that differs from the one that a run began with."""


class SettingsError(InputError):
    """An option with a wrong value, or one that does not fit the other options."""


class WeightsError(ElmoError, ValueError):
    """A weights file that cannot be read or does not fit its options."""


class ModelError(ElmoError, ValueError):
    """A model that is unknown, incomplete or described by an invalid options.json."""


class OutputError(ElmoError, OSError):
    """An output file that cannot be written."""


class OutputNameError(SettingsError, OutputError):
    """A name of an output whose suffix is no format of it."""


class MissingFileError(ElmoError, FileNotFoundError):
    """A file or folder that is missing. Each kind of error has a class for it too."""

    errno = ENOENT


class MissingInputError(InputError, MissingFileError):
    """An input that is missing."""


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
