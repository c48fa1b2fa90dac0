"""Arguments of public functions: forms that are accepted, and how objects are shown."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import elmo_cli
from elmo_cli import Elmo, ElmoEmbedder, HubElmo, LanguageModel, open_activations
from elmo_cli.errors.optional_imports import install_command
from tests.support.small_models import SmallModels

# Arguments


def test_sentences_and_words_to_cache_may_be_arrays(models: SmallModels) -> None:
    words: Any = np.array(["the", "cat"])
    elmo = Elmo(models.folder, vocab_to_cache=words)
    assert elmo.token_table is not None
    assert elmo.token_table.words == ["the", "cat"]
    assert Elmo(models.folder, vocab_to_cache=[]).token_table is None
    (activations,) = models.embedder.embed_batch(words[None])
    assert np.array_equal(activations, models.embedder.embed_sentence(["the", "cat"]))


def test_language_models_take_raw_texts(models: SmallModels) -> None:
    model = models.model
    text = "The cat, it sat."
    tokens = ["The", "cat", ",", "it", "sat", "."]
    assert model.tokenize(text) == tokens
    calls: list[Any] = [
        lambda x: model.score([x])[0].forward.tolist(),
        lambda x: elmo_cli.measure_surprisal(model, [x]),
        lambda x: elmo_cli.measure_perplexity(model, [x]),
        lambda x: elmo_cli.predict_words(model, [x]),
        lambda x: elmo_cli.find_substitutes(model, [x]),
        lambda x: elmo_cli.sample_sentences(model, x, seed=3),
    ]
    for call in calls:
        assert call(text) == call(tokens)
    (gap,) = elmo_cli.predict_words(model, ["The _____ sat."])
    assert gap.place == "gap"
    assert gap.tokens == ["The", "___", "sat", "."]


def test_repr_names_the_model_or_file(models: SmallModels) -> None:
    name = str(models.vectors)
    with elmo_cli.open_occurrences(name) as files:
        assert repr(files) == f"VectorFiles({name!r})"
    dataset = elmo_cli.ActivationsDataset(name)
    assert repr(dataset) == f"ActivationsDataset({dataset.activations!r})"
    assert name in repr(dataset)
    for model in (models.embedder, models.model, models.elmo, models.hub):
        assert repr(model).startswith(type(model).__name__)
    embedder = ElmoEmbedder(model="mini", state="warm", precision="bfloat16")
    expected = (
        "ElmoEmbedder(model='mini', state='warm', precision='bfloat16', device='cpu')"
    )
    assert repr(embedder) == expected


@pytest.mark.parametrize(
    ("layers", "name"),
    [([0, 2], "0,2"), (2, "2"), (-1, "2"), ((-1, 0), "2,0"), ("-2, -1", "1,2")],
)
def test_layers_are_named_by_numbers(
    layers: Any, name: str, models: SmallModels, tmp_path: Path
) -> None:
    sentence = [["the", "cat"]]
    (chosen,) = models.embedder.embed_sentences(sentence, layers=layers)
    assert np.array_equal(
        chosen, next(models.embedder.embed_sentences(sentence, layers=name))
    )
    encoded = models.embedder.encode(sentence, layers=layers)
    assert np.array_equal(encoded, models.embedder.encode(sentence, layers=name))
    with elmo_cli.open_occurrences(models.vectors) as files:
        vectors = next(files.read(layers)).vectors
        assert np.array_equal(vectors, next(files.read(name)).vectors)
    models.embedder.embed_file(models.text, tmp_path / "new.hdf5", layers)
    with open_activations(tmp_path / "new.hdf5") as file:
        assert file.attributes["layers"] == name


# Models


@pytest.mark.parametrize("kind", [ElmoEmbedder, LanguageModel, Elmo, HubElmo])
def test_one_argument_is_a_model(kind: Any, models: SmallModels) -> None:
    for name in (models.folder, str(models.folder), "mini"):
        model = kind(name)
        if isinstance(model, (ElmoEmbedder, LanguageModel)):
            assert model.files.name == str(name)
            assert repr(model).startswith(
                f"{kind.__name__}(model={str(name)!r}, state='zero', "
            )


@pytest.mark.parametrize("kind", [ElmoEmbedder, LanguageModel])
def test_the_first_argument_that_an_editor_shows_is_a_model(kind: Any) -> None:
    assert next(iter(inspect.signature(kind).parameters)) == "model"


def test_a_name_that_is_not_public_has_what_python_needs_for_a_suggestion() -> None:
    with pytest.raises(AttributeError) as caught:
        elmo_cli.ElmoEmbeder  # type: ignore[attr-defined] # noqa: B018
    assert caught.value.name == "ElmoEmbeder"
    assert caught.value.obj is elmo_cli
    assert "ElmoEmbedder" in dir(elmo_cli)


def test_two_arguments_are_the_files_of_a_model(models: SmallModels) -> None:
    options = models.options
    weights = models.weights
    expected = models.embedder.embed_sentence(["cat"])
    for embedder in (
        ElmoEmbedder(str(options), str(weights)),
        ElmoEmbedder(options_file=options, weight_file=weights, cuda_device=-1),
    ):
        assert np.array_equal(embedder.embed_sentence(["cat"]), expected)
        assert embedder.cuda_device == -1


def test_install_command_names_the_extra() -> None:
    command = 'pip install "elmo-cli[plot]", or in a checkout pip install ".[plot]"'
    assert install_command("plot") == command
