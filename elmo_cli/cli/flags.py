"""The options under their old name, until all commands import `options`."""

from elmo_cli.cli.options import *  # noqa: F403
