"""Messages of the errors that a user can cause."""

import pickle
from collections.abc import Callable
from errno import ENOENT
from pathlib import Path

import pytest
from commands import TINY

from elmo_cli import Elmo, ElmoEmbedder, HubElmo, LanguageModel, open_activations
from elmo_cli.analysis.word_vectors import write_token_vectors
from elmo_cli.errors import ElmoError, install_command
from elmo_cli.pretrained.manage import convert_weights
from elmo_cli.training.corpus import find_text_files


def test_install_command_names_the_extra() -> None:
    command = 'pip install "elmo-cli[plot]", or in a checkout pip install ".[plot]"'
    assert install_command("plot") == command


def calls_with_missing_files(folder: Path) -> dict[str, Callable[[], object]]:
    """Return calls that need a file that is missing, by the kind of their error."""
    missing, text = folder / "missing", folder / "text.txt"
    text.write_text("a b\n", encoding="utf-8")
    empty = folder / "empty"
    empty.mkdir()
    options, weights = TINY / "options.json", TINY / "weights.hdf5"
    tiny = ElmoEmbedder(options, weights)
    return {
        "options": lambda: ElmoEmbedder(missing, weights),
        "weights": lambda: Elmo(options, missing.with_suffix(".hdf5")),
        "safetensors": lambda: Elmo(options, missing.with_suffix(".safetensors")),
        "model": lambda: ElmoEmbedder(model=missing),
        "name": lambda: HubElmo("missing"),
        "zip file": lambda: ElmoEmbedder.from_pretrained(missing.with_suffix(".zip")),
        "empty folder": lambda: ElmoEmbedder(model=empty),
        "softmax": lambda: LanguageModel(model=TINY),
        "vocabulary": lambda: LanguageModel(vocabulary_file=missing),
        "input": lambda: tiny.embed_file(missing, folder / "out.hdf5"),
        "table": lambda: tiny.embed_file(missing.with_suffix(".csv"), folder / "out.hdf5"),
        "Parquet": lambda: tiny.embed_file(missing.with_suffix(".parquet"), folder / "out.hdf5"),
        "output folder": lambda: tiny.embed_file(text, missing / "out.hdf5"),
        "activations": lambda: open_activations(missing),
        "word list": lambda: write_token_vectors(missing, folder / "out.txt"),
        "source of weights": lambda: convert_weights(missing, folder / "new.hdf5"),
        "training text": lambda: find_text_files([missing]),
    }


def test_a_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    for name, call in calls_with_missing_files(tmp_path).items():
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert isinstance(caught.value, ElmoError), name
        assert caught.value.errno == ENOENT
        assert "missing" in str(caught.value) or name in ("empty folder", "softmax"), name
        assert "\n" not in str(caught.value)
        copied = pickle.loads(pickle.dumps(caught.value))
        assert (type(copied), str(copied)) == (type(caught.value), str(caught.value))


def test_errors_of_options_are_value_errors() -> None:
    tiny = ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5")
    calls: list[Callable[[], object]] = [
        lambda: ElmoEmbedder(model=TINY, state="cold"),  # type: ignore[arg-type]
        lambda: ElmoEmbedder(model=TINY, precision="float8"),  # type: ignore[arg-type]
        lambda: ElmoEmbedder(model=TINY, batch_tokens=0),
        lambda: ElmoEmbedder(TINY / "options.json"),
        lambda: Elmo(model=TINY, num_output_representations=0),
        lambda: tiny.encode(["a"], pooling="middle"),
        lambda: tiny.encode(["a"], layers="middle"),
        lambda: list(tiny.embed_sentences([["a"]], 0)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"expected|unknown") as caught:
            call()
        assert isinstance(caught.value, ElmoError)
        assert not isinstance(caught.value, FileNotFoundError)
