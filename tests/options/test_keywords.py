"""Options: the keywords of functions and their defaults, and the names of formats."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, get_args

import pytest

import elmo_cli
from elmo_cli import (
    ElmoEmbedder,
    EmbedBatch,
    InputError,
    TextSettings,
    find_substitutes,
    iter_surprisal,
    measure_change,
    measure_surprisal,
    plot_changes,
    plot_occurrences,
    plot_surprisals,
    predict_words,
    read_occurrences,
    sample_sentences,
    write_occurrences,
    write_word_vectors,
)
from elmo_cli.analysis.search.word_neighbours import find_word_neighbours
from elmo_cli.language_model.surprisal_table import SurprisalTable
from elmo_cli.options.analysis import (
    AveragingSettings,
    ChangeSettings,
    NeighbourSettings,
    PlotSettings,
    TargetSettings,
)
from elmo_cli.options.fields import option_fields
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import OUTPUT_FORMATS, OutputSettings
from elmo_cli.options.output_format import FileFormat, format_of_suffix
from elmo_cli.options.prediction import PredictionSettings
from elmo_cli.options.selection import SelectionSettings
from elmo_cli.options.surprisal import SurprisalSettings
from elmo_cli.options.text import (
    DISTRIBUTED_FORMATS,
    INPUT_FORMATS,
)
from elmo_cli.records.formats import INPUT_FORMATS_BY_NAME


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


@pytest.mark.parametrize(
    ("function", "options", "missing"),
    [
        pytest.param(ElmoEmbedder.embed_file, TextSettings, set(), id="text"),
        pytest.param(ElmoEmbedder.embed_file, OutputSettings, set(), id="output"),
        # By default, the layers have AllenNLP's name, output_format.
        pytest.param(
            ElmoEmbedder.embed_file, SelectionSettings, {"layers"}, id="selection"
        ),
        pytest.param(
            ElmoEmbedder.embed_sentences, SelectionSettings, set(), id="sentences"
        ),
        pytest.param(EmbedBatch, SelectionSettings, set(), id="batch"),
        pytest.param(
            EmbedBatch,
            ModelSettings,
            {"options_file", "weight_file", "vocabulary_file", "softmax_file"},
            id="model of a batch",
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
        keywords.pop(name, None)
    if "tokenizer" in expected:
        expected["tokenizer"] = None  # as in AllenNLP
    assert keywords == expected


def test_columns_are_a_name_or_a_list() -> None:
    settings = TextSettings(keep_columns=["a", "b"], id_column=["item", "condition"])
    assert settings.keep_columns == ("a", "b")
    assert settings.id_columns == ("item", "condition")
    assert settings == TextSettings(
        keep_columns=("a", "b"), id_column=("item", "condition")
    )
    assert TextSettings(keep_columns="all").keep_columns == ("all",)
    with pytest.raises(InputError, match=r"^keep_columns: expected a list, found"):
        TextSettings(keep_columns="id")
    with pytest.raises(InputError, match=r"^id_column: expected a list, found"):
        TextSettings(id_column={"id"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shard": "3/2"}, "shard: expected I/N"),
        ({"language": 3}, "language: expected a code such as 'fr', found 3"),
        ({"quotes": "cvs"}, "quotes: expected csv or none, found 'cvs'"),
    ],
)
def test_a_wrong_value_is_an_error_at_once(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        TextSettings(**values)


def test_names_of_formats_are_those_of_the_formats() -> None:
    assert tuple(INPUT_FORMATS_BY_NAME) == INPUT_FORMATS
    assert get_args(FileFormat) == OUTPUT_FORMATS
    in_parts = [name for name, each in INPUT_FORMATS_BY_NAME.items() if each.has_parts]
    assert sorted(in_parts) == sorted(DISTRIBUTED_FORMATS)


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
def test_a_suffix_names_each_format_of_outputs(name: str) -> None:
    found = format_of_suffix(f"out.{name}")
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("name", ["jsonl", "parquet"])
def test_a_suffix_means_the_same_for_an_input_and_an_output(name: str) -> None:
    for suffix in INPUT_FORMATS_BY_NAME[name].suffixes:
        found = format_of_suffix(f"out{suffix}")
        assert found is not None
        assert found.name == name


# `elmo surprisal` chooses the unit by the input, and `elmo predict` draws no samples.
ANALYSES = [
    pytest.param(measure_surprisal, SurprisalSettings, {"by": "token"}, id="surprisal"),
    pytest.param(iter_surprisal, SurprisalSettings, {"by": "token"}, id="stream"),
    pytest.param(SurprisalTable, SurprisalSettings, {}, id="table of surprisals"),
    pytest.param(predict_words, PredictionSettings, {}, id="prediction"),
    pytest.param(find_substitutes, PredictionSettings, {}, id="substitutes"),
    pytest.param(sample_sentences, PredictionSettings, {"samples": 1}, id="samples"),
    pytest.param(measure_change, ChangeSettings, {}, id="change"),
    pytest.param(plot_changes, ChangeSettings, {}, id="picture of changes"),
    pytest.param(plot_surprisals, SurprisalSettings, {}, id="picture of surprisals"),
    pytest.param(read_occurrences, ChangeSettings, {}, id="files of change"),
    pytest.param(plot_occurrences, PlotSettings, {}, id="picture of occurrences"),
    pytest.param(find_word_neighbours, NeighbourSettings, {}, id="neighbours of words"),
    pytest.param(write_occurrences, TargetSettings, {}, id="occurrences"),
    pytest.param(write_word_vectors, AveragingSettings, {}, id="word vectors"),
]
"""Functions, the options of their command, and defaults that differ on purpose."""


@pytest.mark.parametrize(("function", "options", "others"), ANALYSES)
def test_analyses_have_the_defaults_of_their_command(
    function: Callable[..., Any], options: Any, others: dict[str, Any]
) -> None:
    keywords = keywords_of(function, options)
    defaults = defaults_of(options)
    assert keywords
    assert keywords == {name: defaults[name] for name in keywords} | others


@pytest.mark.parametrize(
    ("functions", "options", "missing"),
    [
        pytest.param(
            [measure_surprisal],
            SurprisalSettings,
            {"group_by", "pair_columns", "regions"},  # of tables
            id="surprisal",
        ),
        pytest.param(
            [predict_words, find_substitutes, sample_sentences],
            PredictionSettings,
            {"each"},  # a list of texts
            id="prediction",
        ),
        pytest.param(
            [measure_change, read_occurrences], ChangeSettings, set(), id="change"
        ),
        pytest.param([plot_occurrences], PlotSettings, set(), id="picture"),
        pytest.param([find_word_neighbours], NeighbourSettings, set(), id="neighbours"),
        pytest.param([write_occurrences], TargetSettings, set(), id="occurrences"),
        pytest.param([write_word_vectors], AveragingSettings, set(), id="word vectors"),
    ],
)
def test_each_option_of_an_analysis_is_a_keyword(
    functions: list[Callable[..., Any]], options: Any, missing: set[str]
) -> None:
    keywords: set[str] = set()
    for function in functions:
        keywords |= keywords_of(function, options).keys()
    assert set(option_fields(options)) - keywords == missing


def public_signatures() -> Iterator[tuple[str, inspect.Signature]]:
    """Yield the names and signatures of public functions, classes and methods."""
    for name in elmo_cli.__all__:
        value = getattr(elmo_cli, name)
        if inspect.isfunction(value):
            yield name, inspect.signature(value)
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isfunction):
                if method == "__init__" or not method.startswith("_"):
                    yield f"{name}.{method}", inspect.signature(function)


def test_how_texts_are_read_is_said_in_one_way() -> None:
    takes_texts = set()
    reads_files = set()
    for function, signature in public_signatures():
        names = signature.parameters.keys()
        if "tokenizer" in names:
            assert "language" in names, function
            takes_texts.add(function)
        if "text_settings" in names:
            reads_files.add(function)
        for name, parameter in signature.parameters.items():
            if "TextSettings" in str(parameter.annotation):
                assert name == "text_settings", function
    assert takes_texts >= {
        "ElmoEmbedder.encode",
        "predict_words",
    }
    assert reads_files >= {"write_occurrences", "write_word_vectors"}
    assert takes_texts & reads_files == {"ElmoEmbedder.embed_file"}
