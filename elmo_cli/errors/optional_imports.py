"""Imports of optional packages, with the command that installs a missing one."""

from importlib import import_module
from typing import Any

from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.errors.messages import Message


def load_extra(name: str | Message, package: str, extra: str) -> Any:
    """Import a package of an extra.

    Raise an `ElmoError` with the remedy if it is missing. `name` is what needs it.
    """
    try:
        return import_module(package)
    except ImportError as error:
        message = Message(
            "{name} needs {package}, which is not installed",
            remedy="Install it with {command}.",
            name=name,
            package=error.name or package,
            command=install_command(extra),
        )
        raise ElmoError(message) from None


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "elmo-cli[{extra}]", or in a checkout pip install ".[{extra}]"'


def load_pyarrow() -> Any:
    """Import pyarrow; raise an `ElmoError` if it is missing."""
    return load_extra("format parquet", "pyarrow", "parquet")
