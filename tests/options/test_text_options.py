"""Options of a text: the keywords of functions, and the names of formats."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

import pytest

from elmo_cli import ElmoEmbedder, InputError, write_word_vectors
from elmo_cli.analysis.write_occurrences import write_occurrences
from elmo_cli.distributed.ray_engine import EmbedBatch
from elmo_cli.options.fields import option_fields
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import OUTPUT_FORMATS, FileFormat, OutputSettings
from elmo_cli.options.output_format import format_of_suffix
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.text import (
    DISTRIBUTED_FORMATS,
    INPUT_FORMATS,
    TextSettings,
    text_settings,
)
from elmo_cli.records.formats import FORMATS


def keywords_of(function: Callable[..., Any], options: Any) -> dict[str, Any]:
    """Return the default of each argument that is an option of a dataclass."""
    names = option_fields(options)
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in names:
            found[name] = parameter.default
    return found


def defaults_of(options: Any) -> dict[str, Any]:
    """Return the default of each option of a dataclass."""
    names = option_fields(options)
    return {each.name: each.default for each in fields(options) if each.name in names}


EMBED_FILE = keywords_of(ElmoEmbedder.embed_file, TextSettings)
# Nothing is written per record: neither columns nor the gap of a record.
NOT_OF_AVERAGES = {"shard", "skip_errors", "keep_columns"}


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        pytest.param(write_occurrences, set(), id="write_occurrences"),
        pytest.param(write_word_vectors, NOT_OF_AVERAGES, id="word vectors"),
        pytest.param(EmbedBatch, set(), id="EmbedBatch"),
    ],
)
def test_functions_read_a_text_with_the_keywords_of_embed_file(
    function: Callable[..., Any], missing: set[str]
) -> None:
    keywords = keywords_of(function, TextSettings)
    expected = {
        name: default for name, default in EMBED_FILE.items() if name not in missing
    }
    if function is not EmbedBatch:
        # AllenNLP's method splits at white space, and a batch is read already.
        expected["tokenizer"] = "auto"
    # The order counts, too.
    assert list(keywords.items()) == list(expected.items())


@pytest.mark.parametrize(
    ("function", "options", "missing"),
    [
        pytest.param(ElmoEmbedder.embed_file, TextSettings, set(), id="text"),
        pytest.param(ElmoEmbedder.embed_file, OutputSettings, set(), id="output"),
        # It has AllenNLP's name for the layers, output_format.
        pytest.param(
            ElmoEmbedder.embed_file, SelectionSettings, {"layers"}, id="selection"
        ),
        pytest.param(
            ElmoEmbedder.embed_sentences, SelectionSettings, set(), id="sentences"
        ),
        pytest.param(EmbedBatch, SelectionSettings, set(), id="batch"),
        pytest.param(
            EmbedBatch, ModelSettings, {"softmax_file"}, id="model of a batch"
        ),
    ],
)
def test_keywords_have_the_names_and_defaults_of_the_options(
    function: Callable[..., Any], options: Any, missing: set[str]
) -> None:
    keywords = keywords_of(function, options)
    expected = defaults_of(options)
    for name in missing:
        del expected[name]
    if "tokenizer" in expected:
        expected["tokenizer"] = None  # as in AllenNLP
    assert keywords == expected


def test_kept_columns_are_a_list() -> None:
    assert text_settings(keep_columns=["a", "b"]).keep_columns == ("a", "b")
    assert text_settings(keep_columns="all").keep_columns == ("all",)
    with pytest.raises(InputError, match="keep_columns: expected a list"):
        text_settings(keep_columns="id")


def test_names_of_formats_are_those_of_the_formats() -> None:
    assert tuple(FORMATS) == INPUT_FORMATS
    assert get_args(FileFormat) == OUTPUT_FORMATS
    in_parts = [name for name, each in FORMATS.items() if each.has_parts]
    assert sorted(in_parts) == sorted(DISTRIBUTED_FORMATS)


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_a_suffix_names_each_format_of_outputs(name: str) -> None:
    found = format_of_suffix(f"out.{name}")
    assert found is not None
    assert found.name == name
