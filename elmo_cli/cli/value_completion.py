"""Completion of values with TAB: models, columns, and values that are usual."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from elmo_cli.options.text import DEFAULT_TEXT_SETTINGS
from elmo_cli.records.formats import find_format
from elmo_cli.text.sources import Source

_INPUTS: Final = ("pairs", "queries", "corpus", "file", "text", "input_file", "inputs")
"""Parameters that name files with columns."""


def complete_models(
    _ctx: click.Context, _parameter: Any, start: str
) -> list[CompletionItem]:
    """Return the models whose names begin with `start`, and let the shell add files."""
    from elmo_cli.pretrained.registry import MODELS

    items = [CompletionItem(start, type="file")]
    for model in MODELS:
        if model.name.startswith(start):
            items.append(CompletionItem(model.name))
    return items


def complete_values(*values: str) -> Callable[..., list[str]]:
    """Return a `shell_complete` that offers values. Users may type other values."""

    def complete(_ctx: click.Context, _parameter: Any, start: str) -> list[str]:
        return [value for value in values if value.startswith(start)]

    return complete


def complete_columns(ctx: click.Context, _parameter: Any, start: str) -> list[str]:
    """Return the columns of the input that begin with `start`.

    After a comma, only the part behind it is completed.
    """
    before, comma, begin = start.rpartition(",")
    # click leaves arguments in `ctx.args` if the last option has no value yet.
    paths: list[str | None] = []
    for name in _INPUTS:
        value = ctx.params.get(name)
        paths += value if isinstance(value, tuple) else [value]
    for path in [*paths, *ctx.args]:
        if path and os.path.isfile(path):
            with suppress(Exception):  # Completion is silent.
                names = _read_columns(path, input_format=ctx.params.get("input_format"))
                return [
                    f"{before}{comma}{name}" for name in names if name.startswith(begin)
                ]
    return []


def _read_columns(path: str, input_format: str | None) -> list[str]:
    with Source(path) as source:
        found = find_format(source, input_format)
        return found.column_names(source, DEFAULT_TEXT_SETTINGS)
