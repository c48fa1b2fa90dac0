"""Arguments of public functions, and the messages and kinds of the errors of wrong ones."""

import pickle
from collections.abc import Iterator
from errno import ENOENT
from io import BytesIO, StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import TINY
from strategies import make_language_model, small_architecture

import elmo_cli
from elmo_cli import Elmo, ElmoEmbedder, HubElmo, LanguageModel, open_activations
from elmo_cli.analysis.word_vectors import write_token_vectors
from elmo_cli.errors import (
    ElmoError,
    InputError,
    ModelError,
    OutputError,
    install_command,
    option_names,
)
from elmo_cli.pretrained.manage import convert_weights
from elmo_cli.training.corpus import find_text_files


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
    text, vectors, embedder = folder / "in.txt", folder / "out.hdf5", ElmoEmbedder(folder)
    text.write_text("a cat\nthe cat\nsome cat\n", encoding="utf-8")
    embedder.embed_file(text, vectors)
    files = {"options": folder / "options.json", "weights": folder / "weights.hdf5"}
    objects = {"model": LanguageModel(folder), "elmo": Elmo(folder), "hub": HubElmo(folder)}
    return SimpleNamespace(
        folder=folder, text=text, vectors=vectors, embedder=embedder, **files, **objects
    )


@pytest.fixture
def names(models: Any, folder: Path) -> dict[str, Any]:
    """Return the names that calls use. The current folder has an empty folder."""
    Path("empty").mkdir()
    embed_file = models.embedder.embed_file
    functions = (convert_weights, write_token_vectors, find_text_files, embed_file)
    others = {"TINY": TINY, "StringIO": StringIO, "BytesIO": BytesIO}
    public = {name: getattr(elmo_cli, name) for name in (*elmo_cli.__all__, "ElmoVectorizer")}
    return {**public, **vars(models), **others, **{each.__name__: each for each in functions}}


COLUMN = pytest.importorskip("pandas").Series(["the cat"], name="a")
TABLE = COLUMN.to_frame()
NOT_A_STRING = [None, ["a"], COLUMN, b"a", 3]
NO_SENTENCE_OR_TEXT = [None, 3, TABLE, {"a": "b"}, np.zeros(2), [["a"]], ["a", None]]
NO_WORDS = ["the cat", *NO_SENTENCE_OR_TEXT[1:]]
NO_BATCH_OR_TEXT = [None, 3, TABLE, {"a"}, {"a": ["b"]}, np.zeros((2, 2)), [["a"], None]]
NO_BATCH = ["the cat", *NO_BATCH_OR_TEXT]
NO_SENTENCES = [*NO_BATCH, ["the cat", "sat"], COLUMN]
NO_TEXTS = [*NO_BATCH, ["the cat", 3]]
NO_PAIRS = [None, 3, [(1, 2)], [("a", "b")], [1]]
NO_MAPPING = ["cat", ["cat"], np.zeros(2), COLUMN]
CALLS = [
    ("text", NOT_A_STRING, "tokenize(x)"),
    ("word", NOT_A_STRING, "plot_occurrences(open_activations(vectors), x, 'new.svg')"),
    ("the input", NOT_A_STRING, "read_targets(x)"),
    ("the input", NOT_A_STRING, "write_occurrences(embedder, x, 'new.jsonl', {'cat': 'cat'})"),
    ("the input", NOT_A_STRING, "embed_file(x, 'new.hdf5')"),
    ("output_file_path", NOT_A_STRING, "embed_file(text, x)"),
    ("on_progress", [3, "print"], "embed_file(text, 'new.hdf5', on_progress=x)"),
    ("word", NOT_A_STRING, "find_occurrence('a cat', x)"),
    ("pairs", NO_PAIRS, "list(similarities(embedder, x))"),
    ("queries", NO_PAIRS, "word_neighbours(embedder, open_activations(vectors), x)"),
    ("embedder", NO_MAPPING, "list(similarities(x, []))"),
    ("embedder", NO_MAPPING, "average_vectors(x, [['a']])"),
    ("model", NO_MAPPING, "measure_perplexity(x, ['a'])"),
    ("model", NO_MAPPING, "list(measure_surprisal(x, ['a']))"),
    ("model", NO_MAPPING, "predict_words(x, ['a'])"),
    ("name", [None, 3], "ElmoEmbedder.from_pretrained(x)"),
    ("path", NOT_A_STRING, "open_activations(x)"),
    ("path", NOT_A_STRING, "open_occurrences(x)"),
    ("path", NOT_A_STRING, "read_occurrences(x, vectors)"),
    ("sentence", [*NO_WORDS, None], "embedder.embed_sentence(x)"),
    ("text", NO_SENTENCE_OR_TEXT, "sample_sentences(model, x)"),
    ("words", NO_WORDS, "average_vectors(embedder, [['the']], x)"),
    ("vocab_to_cache", NO_WORDS, "Elmo(folder, vocab_to_cache=x)"),
    ("batch", NO_SENTENCES, "embedder.embed_batch(x)"),
    ("batch", NO_SENTENCES, "embedder.batch_to_embeddings(x)"),
    ("sentences", NO_SENTENCES, "list(embedder.embed_sentences(x))"),
    ("keep_columns", ["id", None, 3], "embed_file(text, 'new.jsonl', keep_columns=x)"),
    ("texts", NO_BATCH_OR_TEXT, "embedder.encode(x)"),
    ("texts", NO_BATCH, "ElmoVectorizer(folder).transform(x)"),
    ("batch", NO_SENTENCES, "batch_to_ids(x)"),
    ("batch", NO_SENTENCES, "elmo.bilm.sentence_ids(x)"),
    ("inputs", NO_BATCH, "hub(x)"),
    ("inputs", [[["a"]], None], "elmo(x)"),
    ("sentences", NO_TEXTS, "list(model.score(x))"),
    ("texts", NO_SENTENCES, "model.read(x, backward=False)"),
    ("sentences", NO_TEXTS, "measure_perplexity(model, x)"),
    ("sentences", NO_TEXTS, "list(measure_surprisal(model, x))"),
    ("texts", NO_TEXTS, "predict_words(model, x)"),
    ("sentences", NO_TEXTS, "list(substitute_words(model, x))"),
    ("sentences", NO_SENTENCES, "average_vectors(embedder, x)"),
    ("files", NO_MAPPING, "neighbours(x, [[0, 0, 0, 0, 0, 0]])"),
    ("files", NO_MAPPING, "plot_occurrences(x, 'cat', 'new.svg')"),
    ("words", NO_MAPPING, "write_occurrences(embedder, text, 'new.jsonl', x)"),
    ("words", NO_MAPPING, "read_occurrences(vectors, vectors, x)"),
    ("new", NO_MAPPING, "measure_change({}, x)"),
    ("changes", NO_MAPPING, "plot_changes(x, 'new.svg')"),
]
"""Names of an argument in messages, wrong values, and a call with one of them."""


@pytest.mark.parametrize(("argument", "values", "call"), CALLS)
def test_wrong_arguments_are_named(
    argument: str, values: list[Any], call: str, names: dict[str, Any]
) -> None:
    for value in values:
        with pytest.raises(InputError) as caught:
            eval(call, {**names, "x": value})
        message = str(caught.value)
        assert message.startswith((f"{argument}:", f"{argument}[", f"{argument} ")), value
        assert "expected" in message
        assert "\n" not in message


@pytest.mark.parametrize(
    "call",
    [
        "ElmoEmbedder('missing', weights)",
        "Elmo(options, 'missing.hdf5')",
        "Elmo(options, 'missing.safetensors')",
        "ElmoEmbedder(model='./missing')",
        "HubElmo('missing')",
        "ElmoEmbedder.from_pretrained('missing.zip')",
        "ElmoEmbedder(model='./empty')",
        "LanguageModel(model=TINY)",  # It has no softmax.
        "LanguageModel(vocabulary_file='missing')",
        "embed_file('missing', 'out.hdf5')",
        "embed_file('missing.csv', 'out.hdf5')",
        "embed_file('missing.parquet', 'out.hdf5')",
        "embed_file(text, 'missing/out.hdf5')",
        "open_activations('missing')",
        "write_token_vectors('missing', 'out.txt')",
        "convert_weights('missing', 'new.hdf5')",
        "find_text_files(['missing'])",
    ],
)
def test_a_missing_file_is_a_file_not_found_error(call: str, names: dict[str, Any]) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        eval(call, names)
    assert isinstance(caught.value, ElmoError)
    assert caught.value.errno == ENOENT
    assert "missing" in str(caught.value) or "missing" not in call
    assert "\n" not in str(caught.value)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (type(copied), str(copied)) == (type(caught.value), str(caught.value))


OR_MODEL = "Give either options_file and weight_file, or model, or none."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ElmoEmbedder(model=TINY, state='cold')", "state 'cold': expected zero, warm or carry"),
        ("ElmoEmbedder(model=TINY, state='')", "state '': expected zero, warm or carry."),
        ("ElmoEmbedder(model=TINY, precision='float8')", "precision 'float8': expected float32"),
        ("ElmoEmbedder(model=TINY, batch_tokens=0)", "batch_tokens 0: expected 1 or more"),
        ("ElmoEmbedder(weight_file=weights)", OR_MODEL),
        ("ElmoEmbedder(model=TINY, weight_file=weights)", OR_MODEL),
        ("ElmoEmbedder(options, weights, model=TINY)", OR_MODEL),
        ("Elmo(model=TINY, num_output_representations=0)", "num_output_representations 0: expect"),
        ("Elmo(options, weights, model=TINY)", OR_MODEL),
        (
            "Elmo(options, weights, module=embedder.elmo_bilm)",
            "Give either options_file and weight_file, or module, or model.",
        ),
        (
            "Elmo(model=TINY, requires_grad=True, vocab_to_cache=['a'])",
            "vocab_to_cache: cannot be used with requires_grad, because training would not change "
            "the cached vectors. Remove one of them.",
        ),
        (
            "embedder.embed_batch(['The cat'])",
            "batch[0]: expected a list of tokens, found the string 'The cat'. Tokenize it first, "
            "for example with elmo_cli.tokenize().",
        ),
        ("embedder.encode(['a'], pooling='sum')", "pooling 'sum': unknown. Use mean"),
        ("embedder.encode(['a'], layers='middle')", "layers 'middle': expected all"),
        (
            "embedder.encode(['a'], tokenizer='words')",
            "tokenizer 'words': unknown. Use whitespace",
        ),
        ("embedder.encode(['a'], device='tpu')", "device 'tpu': unknown"),
        ("list(embedder.embed_sentences([['a']], 0))", "batch_size 0: expected 1 or more"),
        ("embed_file(StringIO('a'), 'x', 'all', 0)", "batch_size 0: expected 1 or more"),
        (
            "embed_file(StringIO('a'), 'x', dtype='float64')",
            "dtype 'float64': expected float",
        ),
        (
            "embed_file(BytesIO(b'a'), 'x')",
            "the input: expected a path or an open text file, found a binary file.",
        ),
        (
            "embed_file(iter(['a b']), 'x')",
            "the input: expected a path or an open text file, found a value of type list_iterator.",
        ),
        ("convert_weights(weights, 'x', '')", "dtype '': expected float32 or float16."),
        ("convert_weights(weights, 'x', 'float64')", "dtype 'float64': expected float32 or float"),
    ],
)
def test_errors_of_options_are_value_errors(call: str, message: str, names: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below)
        eval(call, names)
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, ElmoError)
    assert not isinstance(caught.value, FileNotFoundError)
    assert not Path("x").exists()


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
    expected = "ElmoEmbedder(model='mini', state='warm', precision='bfloat16', device='cpu')"
    assert repr(embedder) == expected


# Layers


@pytest.mark.parametrize(
    ("layers", "name"), [([0, 2], "0,2"), (2, "2"), (-1, "2"), ((-1, 0), "2,0"), ("-2, -1", "1,2")]
)
def test_layers_are_named_by_numbers(layers: Any, name: str, models: Any, tmp_path: Path) -> None:
    sentence = [["the", "cat"]]
    (chosen,) = models.embedder.embed_sentences(sentence, layers=layers)
    assert np.array_equal(chosen, next(models.embedder.embed_sentences(sentence, layers=name)))
    encoded = models.embedder.encode(sentence, layers=layers)
    assert np.array_equal(encoded, models.embedder.encode(sentence, layers=name))
    with elmo_cli.open_occurrences(models.vectors) as files:
        vectors = next(files.read(layers)).vectors
        assert np.array_equal(vectors, next(files.read(name)).vectors)
    models.embedder.embed_file(models.text, tmp_path / "new.hdf5", layers)
    with open_activations(tmp_path / "new.hdf5") as file:
        assert file.attributes["layers"] == name


@pytest.mark.parametrize("layers", [-4, [0, 3], [], [[0]], "0,-9"])
def test_missing_layers_are_an_error(layers: Any, models: Any) -> None:
    with pytest.raises(InputError, match=r"^layers '.*': expected all, .* from 0 to 2"):
        list(models.embedder.embed_sentences([["the"]], layers=layers))


# Models


@pytest.mark.parametrize("kind", [ElmoEmbedder, LanguageModel, Elmo, HubElmo])
def test_one_argument_is_a_model(kind: Any, models: Any) -> None:
    for name in (models.folder, str(models.folder), "mini"):
        model = kind(name)
        if isinstance(model, (ElmoEmbedder, LanguageModel)):
            assert model.files.name == str(name)
            assert repr(model).startswith(f"{kind.__name__}(model={str(name)!r}, state='zero', ")
    with pytest.raises(ModelError, match=r"^orignal: no such model\. Did you mean 'original'\?"):
        kind("orignal")
    with pytest.raises(InputError, match=r"^model: expected a name or a path, found 3\.$"):
        kind(3)


def test_two_arguments_are_the_files_of_a_model(models: Any) -> None:
    options, weights = models.options, models.weights
    expected = models.embedder.embed_sentence(["cat"])
    for embedder in (
        ElmoEmbedder(str(options), str(weights)),
        ElmoEmbedder(options_file=options, weight_file=weights, cuda_device=-1),
    ):
        assert np.array_equal(embedder.embed_sentence(["cat"]), expected)
        assert embedder.cuda_device == -1
    with pytest.raises(ModelError, match=r"found another file\. Give the folder"):
        ElmoEmbedder(options)


# Messages


def test_messages_name_arguments_and_on_the_command_line_options(names: dict[str, Any]) -> None:
    for call, part in {
        "write_occurrences(embedder, text, vectors, {'cat': 'cat'})": "Use overwrite=True to start",
        "embed_file(text, 'x.npy')": "format npy requires pooling:",
        "embed_file(text, 'x.csv')": "or name a format with file_format.",
        "embed_file(text, 'x.jsonl', keep_columns=['id'])": "keep_columns has no effect",
    }.items():
        with pytest.raises(ElmoError) as caught:
            eval(call, names)
        assert part in str(caught.value)
        assert "--" not in str(caught.value)
        with option_names():
            assert "--" in str(caught.value)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Use --layout packed or Parquet.", "Use layout='packed' or Parquet."),
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


def test_install_command_names_the_extra() -> None:
    command = 'pip install "elmo-cli[plot]", or in a checkout pip install ".[plot]"'
    assert install_command("plot") == command
