"""A model remembers the tokenizer of its training text."""

import json
import logging
import shlex
from pathlib import Path

import numpy as np
import pytest
from commands import elmo
from training_runs import train

from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.text.tokenizers import make_tokenizer

RAW = 'Mr. a said, "b".\n'
LINE = "Tokenizer: moses:en, as in the model's training\n"
WARNING = "Warning: the model was trained with --tokenizer moses:en, not whitespace.\n"


@pytest.fixture(autouse=True)
def texts(training_folder: None) -> None:
    Path("text.txt").write_text("".join(RAW.replace("a", a) for a in "abcdefgh"))
    Path("raw.txt").write_text(RAW)
    Path("raw.conllu").write_text("1\tMr.\t_\n2\tsaid,\t_\n")
    train("model", tokenizer=make_tokenizer("moses"), steps=2, validation_file="raw.txt")


def test_model_folder_names_its_tokenizer() -> None:
    training = json.loads(Path("model/options.json").read_text())["training"]
    assert training == {"state": "zero", "tokenizer": "moses:en", "normalization": "moses"}
    assert ElmoEmbedder(model="model").files.tokenizer == "moses:en"
    assert ElmoEmbedder().files.tokenizer is None


def test_model_of_an_older_version_keeps_typographic_marks() -> None:
    content = json.loads(Path("model/options.json").read_text())
    del content["training"]["normalization"]
    Path("model/options.json").write_text(json.dumps(content))
    result = elmo("surprisal", "-", "--model", "model", stdin="isn’t\n")
    assert "Tokenizer: moses:en:verbatim, as in the model's training" in result.stderr
    assert [line.split("\t")[2] for line in result.stdout.splitlines()[1:]] == ["isn", "’", "t"]


@pytest.mark.parametrize(
    "command",
    [
        "perplexity raw.txt --json",
        "surprisal raw.txt",
        "embed raw.txt out.npz --overwrite",
        "predict 'Mr. a said, b'",
        "cosine said 'said , a' 'Mr. a said, b'",
    ],
)
def test_commands_use_the_tokenizer_of_the_model(command: str) -> None:
    default, moses, whitespace = (
        elmo(*shlex.split(f"{command} --model model {arguments}"))
        for arguments in ("", "--tokenizer moses", "--tokenizer whitespace")
    )
    assert (default.exit_code, default.stdout) == (0, moses.stdout)
    assert LINE in default.stderr
    assert WARNING in whitespace.stderr
    assert "Tokenizer" not in moses.stderr + whitespace.stderr
    assert "Warning" not in default.stderr + moses.stderr
    if command.startswith("perplexity"):
        assert default.stdout != whitespace.stdout
        record = json.loads(Path("model/training.json").read_text())["perplexity"]
        assert json.loads(default.stdout)["all_words"]["average"] == record["average"]
    if command.startswith("embed"):
        assert " 8 tokens" in default.stderr
        result = elmo("embed", "raw.conllu", "out.npz", "--model", "model", "--overwrite")
        assert " 2 tokens" in result.stderr
        assert LINE not in result.stderr


def test_python_methods_use_the_tokenizer_of_the_model(caplog: pytest.LogCaptureFixture) -> None:
    embedder = ElmoEmbedder(model="model")
    assert np.shape(embedder.encode("Mr. a said, b", pooling=None)) == (5, 6)
    assert embedder.embed_file("raw.txt", "out.hdf5").n_tokens == 8
    assert embedder.embed_file("raw.conllu", "out2.hdf5").n_tokens == 2
    vectors = embedder.encode("Mr. a said, b", pooling=None, tokenizer="whitespace")
    assert np.shape(vectors) == (4, 6)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["Warning: the model was trained with tokenizer moses:en, not whitespace"]


def test_fine_tuning_keeps_the_tokenizer_of_the_model(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    common = ("train", "text.txt", "--init-from", "model", "--steps", "1", "--output")
    assert LINE in elmo(*common, "tuned").stderr
    assert json.loads(Path("tuned/options.json").read_text())["training"]["tokenizer"] == "moses:en"
    assert WARNING in elmo(*common, "other", "--tokenizer", "whitespace").stderr
    assert "tokenizer" not in json.loads(Path("other/options.json").read_text())["training"]
