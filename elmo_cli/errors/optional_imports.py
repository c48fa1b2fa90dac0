"""Imports of optional packages, with the command that installs a missing one."""

from importlib import import_module
from typing import Any

from elmo_cli.errors.exceptions import ElmoError


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


def load_pyarrow() -> Any:
    """Import pyarrow; raise an `ElmoError` if it is missing."""
    return load_extra("format parquet", "pyarrow", "parquet")
