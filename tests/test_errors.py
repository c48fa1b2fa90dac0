"""Arguments of public functions, and the messages and kinds of the errors of wrong ones."""

import os
import pickle
from collections.abc import Iterator
from errno import ENOENT
from io import BytesIO, StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import elmo_cli
from elmo_cli import Elmo, ElmoEmbedder, HubElmo, LanguageModel, open_activations
from elmo_cli.analysis.token_vectors import write_token_vectors
from elmo_cli.errors.exceptions import ElmoError, InputError, OutputError, option_names
from elmo_cli.errors.optional_imports import install_command
from elmo_cli.pretrained.convert import convert_weights
from elmo_cli.training.text_files import find_text_files
from tests.support.commands import TINY
from tests.support.strategies import make_language_model, small_architecture
from tests.support.transcripts import read_rows


@pytest.fixture(autouse=True)
def messages_name_arguments() -> Iterator[None]:
    """Show messages as Python users see them."""
    with option_names(shown=False):
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a small model in each class, a text, and the file of its activations."""
    folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), 1, folder)
    text, vectors, embedder = (
        folder / "in.txt",
        folder / "out.hdf5",
        ElmoEmbedder(folder),
    )
    text.write_text("a cat\nthe cat\nsome cat\n", encoding="utf-8")
    embedder.embed_file(text, vectors)
    files = {"options": folder / "options.json", "weights": folder / "weights.hdf5"}
    objects = {
        "model": LanguageModel(folder),
        "elmo": Elmo(folder),
        "hub": HubElmo(folder),
    }
    objects["cached"] = Elmo(folder, vocab_to_cache=["", "?", "the", "cat"])
    return SimpleNamespace(
        folder=folder, text=text, vectors=vectors, embedder=embedder, **files, **objects
    )


class Table(list[str]):
    """Stand-in for a table of pandas."""

    columns = ("text",)


def fail(message: str) -> None:
    raise OutputError(message)


@pytest.fixture
def names(models: Any, folder: Path) -> dict[str, Any]:
    """Return the names that calls use. The current folder has an empty folder."""
    Path("empty").mkdir()
    public = {
        name: getattr(elmo_cli, name) for name in (*elmo_cli.__all__, "ElmoVectorizer")
    }
    others = {
        **{
            "TINY": TINY,
            "Table": Table,
            "StringIO": StringIO,
            "BytesIO": BytesIO,
            "fail": fail,
        },
        "embed_file": models.embedder.embed_file,
        "convert_weights": convert_weights,
        "write_token_vectors": write_token_vectors,
        "find_text_files": find_text_files,
        "IDS": elmo_cli.batch_to_ids([["a", "cat"], ["the"]]),
        "WORDS": torch.tensor([[1, 3], [2, 0]]),
    }
    return {**public, **vars(models), **others}


@pytest.mark.parametrize("row", read_rows(__file__, "calls.txt"))
def test_an_error_has_a_kind_and_one_line(row: str, names: dict[str, Any]) -> None:
    call, _, said = row.partition(" => ")
    kind, _, message = said.partition(" ")
    with pytest.raises(ElmoError) as caught:
        eval(call, names)
    error = caught.value
    shown = (
        str(error).replace(f"{TINY}", "TINY").replace(f"{names['folder']}", "FOLDER")
    )
    assert shown == message
    assert isinstance(error, eval(kind, names))
    assert getattr(error, "errno", None) == (
        ENOENT if kind == "FileNotFoundError" else None
    )
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied)) == (type(error), str(error))
    assert os.listdir() == ["empty"]


COLUMN = pytest.importorskip("pandas").Series(["the cat"], name="a")
TABLE = COLUMN.to_frame()
NOT_A_STRING = [None, ["a"], COLUMN, b"a", 3]
NO_SENTENCE_OR_TEXT = [None, 3, TABLE, {"a": "b"}, np.zeros(2), [["a"]], ["a", None]]
NO_WORDS = ["the cat", *NO_SENTENCE_OR_TEXT[1:]]
NO_BATCH_OR_TEXT = [
    None,
    3,
    TABLE,
    {"a"},
    {"a": ["b"]},
    np.zeros((2, 2)),
    [["a"], None],
]
NO_BATCH = ["the cat", *NO_BATCH_OR_TEXT]
NO_SENTENCES = [*NO_BATCH, ["the cat", "sat"], COLUMN]
NO_TEXTS = [*NO_BATCH, ["the cat", 3]]
NO_PAIRS = [None, 3, [(1, 2)], [("a", "b")], [1]]
NO_MAPPING = ["cat", ["cat"], np.zeros(2), COLUMN]


@pytest.mark.parametrize("row", read_rows(__file__, "arguments.txt"))
def test_wrong_arguments_are_named(row: str, names: dict[str, Any]) -> None:
    argument, values, call = row.split(" | ")
    for value in eval(values):
        with pytest.raises(InputError) as caught:
            eval(call, {**names, "x": value})
        message = str(caught.value)
        assert message.startswith((f"{argument}:", f"{argument}[", f"{argument} ")), (
            value
        )
        assert "expected" in message
        assert "\n" not in message


# Arguments


def test_sentences_and_words_to_cache_may_be_arrays(models: Any) -> None:
    words: Any = np.array(["the", "cat"])
    elmo = Elmo(models.folder, vocab_to_cache=words)
    assert elmo.token_table is not None
    assert elmo.token_table.words == ["the", "cat"]
    assert Elmo(models.folder, vocab_to_cache=[]).token_table is None
    (activations,) = models.embedder.embed_batch(words[None])
    assert np.array_equal(activations, models.embedder.embed_sentence(["the", "cat"]))


def test_language_models_take_raw_texts(models: Any) -> None:
    model, text = models.model, "The cat, it sat."
    tokens = ["The", "cat", ",", "it", "sat", "."]
    assert model.tokenize(text) == tokens
    calls: list[Any] = [
        lambda x: next(iter(model.score([x]))).forward.tolist(),
        lambda x: next(iter(elmo_cli.measure_surprisal(model, [x]))).surprisal.tolist(),
        lambda x: elmo_cli.measure_perplexity(model, [x]),
        lambda x: elmo_cli.predict_words(model, [x]),
        lambda x: [*elmo_cli.substitute_words(model, [x])],
        lambda x: elmo_cli.sample_sentences(model, x, seed=3),
    ]
    for call in calls:
        assert call(text) == call(tokens)
    (gap,) = elmo_cli.predict_words(model, ["The _____ sat."])
    assert (gap.place, gap.tokens) == ("gap", ["The", "___", "sat", "."])


def test_repr_names_the_model_or_file(models: Any) -> None:
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
    layers: Any, name: str, models: Any, tmp_path: Path
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
def test_one_argument_is_a_model(kind: Any, models: Any) -> None:
    for name in (models.folder, str(models.folder), "mini"):
        model = kind(name)
        if isinstance(model, (ElmoEmbedder, LanguageModel)):
            assert model.files.name == str(name)
            assert repr(model).startswith(
                f"{kind.__name__}(model={str(name)!r}, state='zero', "
            )


def test_two_arguments_are_the_files_of_a_model(models: Any) -> None:
    options, weights = models.options, models.weights
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
