"""Imports of optional packages, with the command that installs a missing one."""

from importlib import import_module
from typing import Any

from elmo_cli.errors.exceptions import ElmoError


def load_extra(name: str, package: str, extra: str) -> Any:
    """Import a package of an extra; raise an `ElmoError` if it is missing.

    `name` says in the error what needs the package.
    """
    try:
        return import_module(package)
    except ImportError as error:
        needed = f"{name} needs {error.name or package}, which is not installed"
        install = f"Install it with {install_command(extra)}."
        raise ElmoError(f"{needed}. {install}") from None


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "elmo-cli[{extra}]", or in a checkout pip install ".[{extra}]"'


def load_pyarrow() -> Any:
    """Import pyarrow; raise an `ElmoError` if it is missing."""
    return load_extra("format parquet", "pyarrow", "parquet")
