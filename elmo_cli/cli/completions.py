"""Completions of values with TAB: models, layers and devices, and the columns of the input."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

_SOURCES: Final = ("pairs", "queries", "corpus", "file", "text", "input_file")
"""Names of the parameters whose files have columns."""


def complete_models(_ctx: Any, _parameter: Any, start: str) -> list[CompletionItem]:
    """Return the models whose names begin with `start`, and let the shell add files."""
    from elmo_cli.pretrained.registry import MODELS

    names = [model.name for model in MODELS if model.name.startswith(start)]
    return [CompletionItem(start, type="file"), *map(CompletionItem, names)]


def complete_values(*values: str) -> Callable[..., list[str]]:
    """Return a `shell_complete` that offers values. Users may type other values."""
    return lambda _ctx, _parameter, start: [each for each in values if each.startswith(start)]


def complete_columns(ctx: click.Context, _parameter: Any, start: str) -> list[str]:
    """Return the columns of the input that begin with `start`, or with its part after a comma."""
    before, comma, begin = start.rpartition(",")
    # click leaves arguments in `ctx.args` if the last option has no value yet.
    paths = [*map(ctx.params.get, _SOURCES), *ctx.args]
    for path in filter(os.path.isfile, filter(None, paths)):
        with suppress(Exception):  # Completion is silent.
            names = _read_columns(path, ctx)
            return [f"{before}{comma}{name}" for name in names if name.startswith(begin)]
    return []


def _read_columns(path: str, ctx: click.Context) -> list[str]:
    from elmo_cli.text.input_formats import PARQUET, find_format, names_in_head
    from elmo_cli.text.sources import Source
    from elmo_cli.text.tables import column_types

    with Source(path) as source:
        found = find_format(source, ctx.params.get("input_format"))
        is_parquet = found.name == PARQUET.name
        return [*column_types(source)] if is_parquet else names_in_head(source, found)
