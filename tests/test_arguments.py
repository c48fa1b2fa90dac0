"""Arguments of public functions: wrong types, models by position, names in messages."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from strategies import make_language_model, small_architecture

import elmo_cli
from elmo_cli import (
    Elmo,
    ElmoEmbedder,
    HubElmo,
    LanguageModel,
    average_vectors,
    batch_to_ids,
    find_occurrence,
    measure_change,
    measure_perplexity,
    measure_surprisal,
    neighbours,
    open_activations,
    open_occurrences,
    plot_changes,
    plot_occurrences,
    predict_words,
    read_occurrences,
    read_targets,
    sample_sentences,
    similarities,
    substitute_words,
    tokenize,
    word_neighbours,
    write_occurrences,
)
from elmo_cli.errors import ElmoError, InputError, ModelError, OutputError, option_names

Values = dict[str, Any]


@pytest.fixture(autouse=True)
def messages_name_arguments() -> Iterator[None]:
    """Show messages as Python users see them."""
    with option_names(shown=False):
        yield


class Models(NamedTuple):
    """A small model in each class, and a file of its activations."""

    folder: Path
    embedder: ElmoEmbedder
    language_model: LanguageModel
    elmo: Elmo
    hub: HubElmo

    @property
    def text(self) -> Path:
        return self.folder / "in.txt"

    @property
    def vectors(self) -> Path:
        return self.folder / "out.hdf5"

    def new(self, suffix: str) -> Path:
        """Return a file that is never written."""
        return self.folder / f"new{suffix}"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), 1, folder)
    embedder = ElmoEmbedder(folder)
    (folder / "in.txt").write_text("a cat\nthe cat\nsome cat\n", encoding="utf-8")
    embedder.embed_file(folder / "in.txt", folder / "out.hdf5")
    return Models(folder, embedder, LanguageModel(folder), Elmo(folder), HubElmo(folder))


def table() -> Any:
    return pytest.importorskip("pandas").DataFrame({"a": ["the cat"]})


def not_a_string() -> Values:
    return {"None": None, "list": ["a"], "series": table()["a"], "bytes": b"a", "number": 3}


def not_a_sentence() -> Values:
    return {"string": "the cat", **no_sentence_or_text(), "None": None}


def no_sentence_or_text() -> Values:
    wrong = {"None": None, "number": 3, "table": table(), "dict": {"a": "b"}}
    return {**wrong, "numbers": np.zeros(2), "lists": [["a"]], "with None": ["a", None]}


def no_words() -> Values:
    return {name: x for name, x in not_a_sentence().items() if x is not None}


def no_batch_or_text() -> Values:
    wrong = {"None": None, "number": 3, "table": table(), "set": {("a",)}, "dict": {"a": ["b"]}}
    return {**wrong, "numbers": np.zeros((2, 2)), "None in it": [["a"], None]}


def no_batch() -> Values:
    return {"string": "the cat", **no_batch_or_text()}


def no_sentences() -> Values:
    return {**no_batch(), "strings": ["the cat", "sat"], "series": table()["a"]}


def no_texts() -> Values:
    return {**no_batch(), "with a number": ["the cat", 3]}


def no_mapping() -> Values:
    return {"string": "cat", "list": ["cat"], "array": np.zeros(2), "series": table()["a"]}


def no_columns() -> Values:
    return {"string": "id", "None": None, "number": 3}


def no_ids() -> Values:
    return {"lists": [["a"]], "None": None}


def no_function() -> Values:
    return {"number": 3, "string": "print"}


def no_pairs() -> Values:
    return {"None": None, "number": 3, "numbers": [(1, 2)], "strings": [("a", "b")], "flat": [1]}


WORDS = {"cat": "cat"}
CALLS: dict[str, tuple[Callable[[], Values], Callable[[Models, Any], Any]]] = {
    "text: tokenize": (not_a_string, lambda m, x: tokenize(x)),
    "word: plot_occurrences": (
        not_a_string,
        lambda m, x: plot_occurrences(open_activations(m.vectors), x, m.new(".svg")),
    ),
    "the input: read_targets": (not_a_string, lambda m, x: read_targets(x)),
    "the input: write_occurrences": (
        not_a_string,
        lambda m, x: write_occurrences(m.embedder, x, m.new(".jsonl"), WORDS),
    ),
    "the input: embed_file": (
        not_a_string,
        lambda m, x: m.embedder.embed_file(x, m.new(".hdf5")),
    ),
    "output_file_path: embed_file": (not_a_string, lambda m, x: m.embedder.embed_file(m.text, x)),
    "on_progress: embed_file": (
        no_function,
        lambda m, x: m.embedder.embed_file(m.text, m.new(".hdf5"), on_progress=x),
    ),
    "word: find_occurrence": (not_a_string, lambda m, x: find_occurrence("a cat", x)),
    "pairs: similarities": (no_pairs, lambda m, x: similarities(m.embedder, x)),
    "queries: word_neighbours": (
        no_pairs,
        lambda m, x: word_neighbours(m.embedder, open_activations(m.vectors), x),
    ),
    "embedder: similarities": (no_mapping, lambda m, x: similarities(x, [])),
    "embedder: average_vectors": (no_mapping, lambda m, x: average_vectors(x, [["a"]])),
    "model: perplexity": (no_mapping, lambda m, x: measure_perplexity(x, ["a"])),
    "model: surprisal": (no_mapping, lambda m, x: measure_surprisal(x, ["a"])),
    "model: predict_words": (no_mapping, lambda m, x: predict_words(x, ["a"])),
    "path: open_activations": (not_a_string, lambda m, x: open_activations(x)),
    "path: open_occurrences": (not_a_string, lambda m, x: open_occurrences(x)),
    "path: read_occurrences": (not_a_string, lambda m, x: read_occurrences(x, m.vectors)),
    "sentence: embed_sentence": (not_a_sentence, lambda m, x: m.embedder.embed_sentence(x)),
    "text: sample": (no_sentence_or_text, lambda m, x: sample_sentences(m.language_model, x)),
    "words: average_vectors": (no_words, lambda m, x: average_vectors(m.embedder, [["the"]], x)),
    "vocab_to_cache: Elmo": (no_words, lambda m, x: Elmo(m.folder, vocab_to_cache=x)),
    "batch: embed_batch": (no_sentences, lambda m, x: m.embedder.embed_batch(x)),
    "batch: embeddings": (no_sentences, lambda m, x: m.embedder.batch_to_embeddings(x)),
    "sentences: embed": (no_sentences, lambda m, x: m.embedder.embed_sentences(x)),
    "keep_columns: embed_file": (
        no_columns,
        lambda m, x: m.embedder.embed_file(m.text, m.new(".jsonl"), keep_columns=x),
    ),
    "texts: encode": (no_batch_or_text, lambda m, x: m.embedder.encode(x)),
    "texts: transform": (no_batch, lambda m, x: elmo_cli.ElmoVectorizer(m.folder).transform(x)),
    "batch: batch_to_ids": (no_sentences, lambda m, x: batch_to_ids(x)),
    "batch: sentence_ids": (no_sentences, lambda m, x: m.elmo.bilm.sentence_ids(x)),
    "inputs: HubElmo": (no_batch, lambda m, x: m.hub(x)),
    "inputs: Elmo": (no_ids, lambda m, x: m.elmo(x)),
    "sentences: score": (no_texts, lambda m, x: m.language_model.score(x)),
    "texts: read": (no_sentences, lambda m, x: m.language_model.read(x, backward=False)),
    "sentences: perplexity": (no_texts, lambda m, x: measure_perplexity(m.language_model, x)),
    "sentences: surprisal": (no_texts, lambda m, x: measure_surprisal(m.language_model, x)),
    "texts: predict_words": (no_texts, lambda m, x: predict_words(m.language_model, x)),
    "sentences: substitute": (no_texts, lambda m, x: substitute_words(m.language_model, x)),
    "sentences: average_vectors": (no_sentences, lambda m, x: average_vectors(m.embedder, x)),
    "files: neighbours": (no_mapping, lambda m, x: neighbours(x, np.zeros((1, 6)))),
    "files: plot_occurrences": (
        no_mapping,
        lambda m, x: plot_occurrences(x, "cat", m.new(".svg")),
    ),
    "words: write_occurrences": (
        no_mapping,
        lambda m, x: write_occurrences(m.embedder, m.text, m.new(".jsonl"), x),
    ),
    "words: read_occurrences": (
        no_mapping,
        lambda m, x: read_occurrences(m.vectors, m.vectors, x),
    ),
    "new: measure_change": (no_mapping, lambda m, x: measure_change({}, x)),
    "changes: plot_changes": (no_mapping, lambda m, x: plot_changes(x, m.new(".svg"))),
}
"""Names of an argument in messages and of a call: wrong values, and a call with one of them."""


def finish(result: object) -> None:
    """Read a stream, whose errors come while it is read."""
    if isinstance(result, Iterator):
        list(result)


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_named(name: str, models: Models) -> None:
    values, call = CALLS[name]
    argument = name.partition(":")[0]
    for kind, value in values().items():
        with pytest.raises(InputError) as caught:
            finish(call(models, value))
        message = str(caught.value)
        assert message.startswith((f"{argument}:", f"{argument}[", f"{argument} ")), kind
        assert "expected" in message
        assert "\n" not in message


def test_words_to_cache_may_be_an_array(models: Models) -> None:
    elmo = Elmo(models.folder, vocab_to_cache=np.array(["the", "cat"]))  # type: ignore[arg-type]
    assert elmo.token_table is not None
    assert elmo.token_table.words == ["the", "cat"]
    assert Elmo(models.folder, vocab_to_cache=[]).token_table is None


def test_language_models_take_raw_texts(models: Models) -> None:
    model, text, tokens = (
        models.language_model,
        "The cat, it sat.",
        ["The", "cat", ",", "it", "sat", "."],
    )
    assert model.tokenize(text) == tokens
    calls: list[Callable[[Any], Any]] = [
        lambda x: next(iter(model.score([x]))).forward.tolist(),
        lambda x: next(iter(measure_surprisal(model, [x]))).surprisal.tolist(),
        lambda x: measure_perplexity(model, [x]),
        lambda x: predict_words(model, [x]),
        lambda x: [*substitute_words(model, [x])],
        lambda x: sample_sentences(model, x, seed=3),
    ]
    for call in calls:
        assert call(text) == call(tokens)
    (gap,) = predict_words(model, ["The _____ sat."])
    assert (gap.place, gap.tokens) == ("gap", ["The", "___", "sat", "."])


def test_every_class_says_what_it_has_loaded(models: Models) -> None:
    name = str(models.folder / "out.hdf5")
    with open_occurrences(name) as files:
        assert repr(files) == f"VectorFiles({name!r})"
    dataset = elmo_cli.ActivationsDataset(name)
    assert repr(dataset) == f"ActivationsDataset({dataset.activations!r})"
    assert name in repr(dataset)
    for model in models[1:]:
        assert repr(model).startswith(type(model).__name__)


# Layers


@pytest.mark.parametrize(
    ("layers", "name"), [([0, 2], "0,2"), (2, "2"), (-1, "2"), ((-1, 0), "2,0"), ("-2, -1", "1,2")]
)
def test_layers_are_named_by_numbers(layers: Any, name: str, models: Models) -> None:
    sentence = [["the", "cat"]]
    (chosen,) = models.embedder.embed_sentences(sentence, layers=layers)
    assert np.array_equal(chosen, next(models.embedder.embed_sentences(sentence, layers=name)))
    encoded = models.embedder.encode(sentence, layers=layers)
    assert np.array_equal(encoded, models.embedder.encode(sentence, layers=name))
    with open_occurrences(models.folder / "out.hdf5") as files:
        vectors = next(files.read(layers)).vectors
        assert np.array_equal(vectors, next(files.read(name)).vectors)
    models.embedder.embed_file(
        models.folder / "in.txt", models.folder / f"{name}.hdf5", layers, overwrite=True
    )
    with open_activations(models.folder / f"{name}.hdf5") as file:
        assert file.attributes["layers"] == name


@pytest.mark.parametrize("layers", [-4, [0, 3], [], [[0]], "0,-9"])
def test_missing_layers_are_an_error(layers: Any, models: Models) -> None:
    with pytest.raises(InputError, match=r"^layers '.*': expected all, .* from 0 to 2"):
        list(models.embedder.embed_sentences([["the"]], layers=layers))


# Models


@pytest.mark.parametrize("kind", [ElmoEmbedder, LanguageModel, Elmo, HubElmo])
def test_one_argument_is_a_model(kind: Any, models: Models, monkeypatch: Any) -> None:
    for name in (models.folder, str(models.folder), "mini"):
        model = kind(name)
        if isinstance(model, (ElmoEmbedder, LanguageModel)):
            assert model.files.name == str(name)
            assert repr(model).startswith(f"{kind.__name__}(model={str(name)!r}, state='zero', ")
    with pytest.raises(ModelError, match=r"^orignal: no such model\. Did you mean 'original'\?"):
        kind("orignal")
    with pytest.raises(InputError, match=r"^model: expected a name or a path, found 3\.$"):
        kind(3)
    with pytest.raises(InputError, match=r"^name: expected a name or a path, found None\.$"):
        ElmoEmbedder.from_pretrained(None)  # type: ignore[arg-type]


def test_two_arguments_are_the_files_of_a_model(models: Models) -> None:
    options, weights = models.folder / "options.json", models.folder / "weights.hdf5"
    expected = models.embedder.embed_sentence(["cat"])
    assert np.array_equal(ElmoEmbedder(options, weights).embed_sentence(["cat"]), expected)
    assert np.array_equal(
        ElmoEmbedder(str(options), str(weights)).embed_sentence(["cat"]), expected
    )
    with pytest.raises(ModelError, match=r"found another file\. Give the folder"):
        ElmoEmbedder(options)


# Messages


def test_messages_name_arguments_and_on_the_command_line_options(models: Models) -> None:
    text, output = models.folder / "in.txt", models.folder / "out.hdf5"
    calls: dict[str, Callable[[], Any]] = {
        "Use overwrite=True to start over.": lambda: write_occurrences(
            models.embedder, text, output, {"cat": "cat"}
        ),
        "format npy requires pooling:": lambda: models.embedder.embed_file(
            text, models.folder / "out.npy"
        ),
        "or name a format with file_format.": lambda: models.embedder.embed_file(
            text, models.folder / "out.csv"
        ),
        "keep_columns has no effect with text": lambda: models.embedder.embed_file(
            text, models.folder / "out.jsonl", keep_columns=["id"]
        ),
    }
    for part, call in calls.items():
        with pytest.raises(ElmoError) as caught:
            call()
        assert part in str(caught.value)
        assert "--" not in str(caught.value)
        with option_names():
            assert "--" in str(caught.value)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "Use --layout packed, Parquet or JSON lines.",
            "Use layout='packed', Parquet or JSON lines.",
        ),
        ("Use --paragraphs to join them", "Use paragraphs=True to join them"),
        ("Choose one with --text-column.", "Choose one with text_column."),
        ("`elmo embed --pooling mean` writes it", "`elmo embed --pooling mean` writes it"),
        ("a word -- or --- two", "a word -- or --- two"),
        ("Use --tokenizer spacy:ja.", "Use tokenizer='spacy:ja'."),
    ],
)
def test_options_in_messages_become_arguments(message: str, shown: str) -> None:
    error = OutputError(message)
    assert str(error) == shown
    with option_names():
        assert str(error) == message
