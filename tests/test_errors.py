"""Messages and kinds of the errors that a user can cause in Python."""

import io
import pickle
from errno import ENOENT
from pathlib import Path
from typing import Any

import pytest
from commands import TINY

import elmo_cli
from elmo_cli import ElmoEmbedder
from elmo_cli.analysis.word_vectors import write_token_vectors
from elmo_cli.errors import ElmoError, install_command
from elmo_cli.pretrained.manage import convert_weights
from elmo_cli.training.corpus import find_text_files


def test_install_command_names_the_extra() -> None:
    command = 'pip install "elmo-cli[plot]", or in a checkout pip install ".[plot]"'
    assert install_command("plot") == command


@pytest.fixture
def names(folder: Path, tiny: ElmoEmbedder) -> dict[str, Any]:
    """Return the names that calls use. The current folder has a text and an empty folder."""
    Path("text.txt").write_text("a b\n", encoding="utf-8")
    Path("empty").mkdir()
    functions = (convert_weights, write_token_vectors, find_text_files)
    return {
        **{name: getattr(elmo_cli, name) for name in elmo_cli.__all__},
        **{function.__name__: function for function in functions},
        **{"TINY": TINY, "tiny": tiny, "StringIO": io.StringIO, "BytesIO": io.BytesIO},
        **{"options": TINY / "options.json", "weights": TINY / "weights.hdf5"},
    }


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
        "tiny.embed_file('missing', 'out.hdf5')",
        "tiny.embed_file('missing.csv', 'out.hdf5')",
        "tiny.embed_file('missing.parquet', 'out.hdf5')",
        "tiny.embed_file('text.txt', 'missing/out.hdf5')",
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


OR_MODEL = "Give either --options-file and --weight-file, or --model, or none."


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
            "Elmo(options, weights, module=tiny.elmo_bilm)",
            "Give either options_file and weight_file, or module, or model.",
        ),
        (
            "Elmo(model=TINY, requires_grad=True, vocab_to_cache=['a'])",
            "vocab_to_cache: cannot be used with requires_grad, because training would not change "
            "the cached vectors. Remove one of them.",
        ),
        (
            "tiny.embed_batch(['The cat'])",
            "batch[0]: expected a list of tokens, found the string 'The cat'. Tokenize it first, "
            "for example with elmo_cli.tokenize().",
        ),
        ("tiny.encode(['a'], pooling='sum')", "--pooling 'sum': unknown. Use mean"),
        ("tiny.encode(['a'], layers='middle')", "--layers 'middle': expected all"),
        ("tiny.encode(['a'], tokenizer='words')", "--tokenizer 'words': unknown. Use whitespace"),
        ("tiny.encode(['a'], device='tpu')", "--device 'tpu': unknown"),
        ("list(tiny.embed_sentences([['a']], 0))", "batch_size 0: expected 1 or more"),
        ("tiny.embed_file(StringIO('a'), 'x', 'all', 0)", "batch_size 0: expected 1 or more"),
        ("tiny.embed_file(StringIO('a'), 'x', dtype='float64')", "dtype 'float64': expected float"),
        (
            "tiny.embed_file(BytesIO(b'a'), 'x')",
            "the input: expected a path or an open text file, found a binary file.",
        ),
        (
            "tiny.embed_file(['s.txt'], 'x')",
            "the input: expected a path or an open text file, found a value of type list.",
        ),
        (
            "tiny.embed_file(iter(['a b']), 'x')",
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
