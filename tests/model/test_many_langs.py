"""Models of ELMoForManyLangs: values, characters, words, and damaged files."""

import io
import json
import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from numpy.testing import assert_allclose

from elmo_cli import Elmo, ElmoEmbedder, ElmoError
from elmo_cli.model.architecture import CharacterArchitecture, LstmArchitecture
from elmo_cli.model.lexicon_encoder import LexiconEncoder
from elmo_cli.model.lexicons import Lexicon, Lexicons
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.model.options_json import read_architecture
from elmo_cli.model.parameter_counts import parameters_by_part
from elmo_cli.pretrained.find_model import find_files_by_name
from elmo_cli.pretrained.load_bilm import load_bilm
from tests.support.commands import elmo
from tests.support.golden import GOLDEN

MANY_LANGS = GOLDEN / "many-langs"
SENTENCES: list[list[str]] = json.loads(
    (MANY_LANGS / "sentences.json").read_text("utf-8")
)
TOLERANCE = 1e-5

folders = [MANY_LANGS / kind for kind in ("both", "characters", "words")]
each_model = pytest.mark.parametrize("model", folders, ids=lambda folder: folder.name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a model that a test may damage."""
    shutil.copytree(MANY_LANGS / "both", tmp_path / "model")
    return tmp_path / "model"


@each_model
def test_readable_and_fast_models_equal_the_package(model: Path) -> None:
    bilm = load_bilm(find_files_by_name(model))
    layers, *_ = bilm(bilm.sentence_ids(SENTENCES))
    n_parameters = 0
    for name in ("encoder.pkl", "token_embedder.pkl"):
        tensors = torch.load(model / name, weights_only=True)
        n_parameters += sum(values.numel() for values in tensors.values())
    info = json.loads(elmo("info", model, "--json").stdout)
    assert info["parameters"] == n_parameters
    activations = ElmoEmbedder(model=model, state="zero").embed_batch(SENTENCES)
    with h5py.File(model / "expected.hdf5") as file:
        for i, values in enumerate(activations):
            expected = file[f"stateless/{i}"][()]
            assert_allclose(values, expected, atol=TOLERANCE)
            end = 1 + len(SENTENCES[i])
            assert_allclose(layers[:, i, 1:end], expected, atol=TOLERANCE)


@each_model
def test_carried_state_equals_the_package(model: Path) -> None:
    carrying = ElmoEmbedder(model=model, state="carry")
    with h5py.File(model / "expected.hdf5") as file:
        for index, batch in enumerate(json.loads(file.attrs["batches"])):
            activations = carrying.embed_batch([SENTENCES[i] for i in batch])
            for slot, values in enumerate(activations):
                expected = file[f"stateful/{index}/{slot}"][()]
                assert_allclose(values, expected, atol=TOLERANCE)


@each_model
def test_the_module_takes_ids_of_many_langs(model: Path) -> None:
    module = Elmo(model=model, dropout=0.0, vocab_to_cache=["cat", "the", "<S>"])
    inputs = module.bilm.sentence_ids([["the", "cat"], ["dog"]])
    embedder = ElmoEmbedder(model=model, state="zero")
    expected = embedder.embed_sentence(["the", "cat"]).mean(axis=0)
    for cached in (None, torch.tensor([[1, 0], [0, 0]])):
        output = module(inputs, cached)
        (representation,) = output["elmo_representations"]
        assert_allclose(representation[0].detach(), expected, atol=TOLERANCE)
        assert output["mask"].tolist() == [[1, 1], [1, 0]]


def test_the_ids_of_a_token() -> None:
    symbols = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", "a", "b"]
    characters = Lexicon({symbol: row for row, symbol in enumerate(symbols)})
    words = Lexicon({"<oov>": 0, "ab": 1, "aba": 2, "<bos>": 3})
    lstm = LstmArchitecture(2, 2, 1)
    char_cnn = CharacterArchitecture(2, ((1, 3),), 1, "relu", 5)
    architecture = ManyLangsArchitecture(lstm, char_cnn, 4, 5)
    encoder = LexiconEncoder(architecture, Lexicons(characters, words))
    # The word, <eow>, the characters, <bow>, <pad>: all raised by one.
    assert encoder.token_ids(["ab", "abab", "x", "<bos>", "<eos>"]).tolist() == [
        [2, 6, 7, 8, 5, 4],
        [3, 6, 7, 8, 7, 5],
        [1, 6, 3, 5, 4, 4],
        [4, 6, 1, 5, 4, 4],
        [1, 6, 2, 5, 4, 4],
    ]
    encoder = LexiconEncoder(architecture, Lexicons(None, words))
    assert encoder.token_ids(["ab"]).tolist() == [[2]]
    encoder = LexiconEncoder(architecture, Lexicons(characters, None))
    assert encoder.token_ids(["ab"]).tolist() == [[1, 6, 7, 8, 5, 4]]


def test_the_published_architecture_need_not_be_in_the_folder(folder: Path) -> None:
    path = "/home/somebody/cnn_50_100_512_4096_sample.json"
    (folder / "config.json").write_text(json.dumps({"config_path": path}))
    architecture = read_architecture(folder / "config.json")
    assert isinstance(architecture, ManyLangsArchitecture)
    # The values of the package's file, which the 44 published models share.
    filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    assert architecture.char_cnn == CharacterArchitecture(
        embedding_dim=50,
        filters=filters,
        n_highway=2,
        activation="relu",
    )
    assert architecture.lstm == LstmArchitecture(
        dim=4096,
        projection_dim=512,
        n_layers=2,
        cell_clip=3,
        proj_clip=3,
        use_skip_connections=True,
    )
    assert architecture.word_dim == 100
    assert architecture.max_characters_per_token == 50
    assert architecture.n_layers == 3
    assert architecture.width == 1024
    parts = parameters_by_part(architecture, n_words=150_000, n_characters=3_000)
    assert parts["projection"] == (2048 + 100 + 1) * 512
    assert parts["word embedding"] == 15_000_000


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        (
            "config.json",
            None,
            r"model: no model: it has .*no options.json\. encoder.pkl is",
        ),
        (
            "encoder.pkl",
            None,
            r"model: no model: it has .*no weights.hdf5\. token_embedder",
        ),
        ("token_embedder.pkl", None, "token_embedder.pkl: no such file"),
        ("char.dic", None, r"char.dic: no such file"),
        ("word.dic", None, r"word.dic: no such file"),
        (
            "tiny.json",
            None,
            "config.json: config_path is 'tiny.json', which is missing in the fol",
        ),
        ("char.dic", b"a\t0\n", r"char.dic: expected the symbol <oov>, found none"),
        (
            "word.dic",
            b"<oov>\t0\nb c\n",
            r"word.dic: expected a symbol, a tab .*'b c'$",
        ),
        ("char.dic", b"<oov>\t0\na\t-1\n", r"char.dic: expected .*found 'a\\t-1'$"),
        ("char.dic", b"<oov>\t0\na\t-3\n", r"char.dic: expected .*found 'a\\t-3'$"),
        (
            "word.dic",
            b"<oov>\t0\na\t" + b"9" * 5000,
            r"word.dic: expected a symbol, a tab .*'a\\t9+\.\.\.'$",
        ),
        ("char.dic", b"<oov>\t0\na\t123456789\n", r"expected \(123456790, \d+\)"),
        ("encoder.pkl", b"junk", r"encoder.pkl: not a valid PyTorch file of tensors"),
        ("tiny.json", b"{}", r"tiny.json: encoder: expected an object, found no value"),
        (
            "tiny.json",
            b'{"encoder": {"dim": "16"}}',
            r"encoder.dim: expected .*, found \"16\"",
        ),
        ("projection.bias", [1.0], r"expected \(6,\), found no tensor"),
        ("projection.bias", torch.zeros(7), r"expected \(6,\), found \(7,\)"),
        (
            "projection.bias",
            torch.zeros(6).long(),
            "expected floats, found torch.int64",
        ),
        (
            "projection.bias",
            torch.full((6,), torch.nan),
            r"values that .*infinity\) in \['proj",
        ),
    ],
)
def test_a_missing_or_invalid_file_is_reported(
    folder: Path, name: str, content: object, fault: str
) -> None:
    (folder / "expected.hdf5").unlink()
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    elif content is None:
        (folder / name).unlink()
    else:
        path = folder / "token_embedder.pkl"
        torch.save(torch.load(path, weights_only=True) | {name: content}, path)
        fault = rf"token_embedder.pkl[^\n]*{fault}"
    with pytest.raises(ElmoError, match=rf"{fault}[^\n]*$"):
        load_bilm(find_files_by_name(folder))


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("a pickle has run",)


def test_a_pickle_cannot_run_anything(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = io.BytesIO()
    torch.save({"projection.bias": Harmful()}, archive)
    contents = [archive.getvalue()]
    for protocol in (0, 2, 4):
        contents.append(pickle.dumps({"projection.bias": Harmful()}, protocol))
    message = r"encoder.pkl: not a valid PyTorch file"
    for content in contents:
        (folder / "encoder.pkl").write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # The error is the only line.
            with pytest.raises(ElmoError, match=message):
                load_bilm(find_files_by_name(folder))
    assert capsys.readouterr() == ("", "")
