"""LSTM language models of PyTorch: their conversion, and models that only read forward.

The golden figures are those of the versions of torch that wrote the models.
"""

import io
import pickle
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from torch import nn

from elmo_cli import (
    Elmo,
    ElmoEmbedder,
    HubElmo,
    LanguageModel,
    find_substitutes,
    measure_perplexity,
    measure_surprisal,
    predict_words,
)
from elmo_cli.errors.exceptions import InputError, ModelError, WeightsError
from elmo_cli.language_model.convert_torch import ConvertedModel, convert_torch_model
from elmo_cli.model.options_json import parse_architecture
from elmo_cli.pretrained.convert import convert_weights
from tests.support.accept import CheckExample
from tests.support.golden import GOLDEN
from tests.support.transcripts import Example, each_example

TORCH_LSTM = GOLDEN / "torch-lstm"
SENTENCES = [
    line.split()
    for line in (TORCH_LSTM / "sentences.txt").read_text("utf-8").splitlines()
]
WORDS = (TORCH_LSTM / "vocab.txt").read_text("utf-8").split()
MODELS = {
    "tied": ("tied", "corpus.pt", ConvertedModel(61, n_layers=2, dim=12)),
    "tied-as-0.3": ("tied", "dictionary.pkl", ConvertedModel(61, n_layers=2, dim=12)),
    "tied-as-0.4": ("tied", "vocab.txt", ConvertedModel(61, n_layers=2, dim=12)),
    "narrow": ("narrow", "vocab.txt", ConvertedModel(61, n_layers=1, dim=11)),
    "wide": ("wide", "vocab.txt", ConvertedModel(61, n_layers=3, dim=9)),
}
"""Figures, vocabulary and size of each golden model."""
STATES: Any = {"zero": "fixed", "carry": "carried"}
"""Figures for each initial state."""


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the golden files, and the model `forward`."""
    folder = tmp_path_factory.mktemp("torch") / "lstm"
    shutil.copytree(TORCH_LSTM, folder)
    convert_torch_model(folder / "tied.pt", folder / "forward", folder / "vocab.txt")
    return folder


@pytest.fixture(scope="module")
def forward(converted: Path) -> LanguageModel:
    return LanguageModel(converted / "forward")


def bits_of(model: LanguageModel) -> NDArray[np.float64]:
    """Return the surprisal of each token and of each end, as in the golden figures."""
    scores = model.score(SENTENCES, batch_size=1)
    log_p = np.concatenate([score.forward for score in scores])
    bits: NDArray[np.float64] = -log_p / np.log(2)
    return bits


@pytest.mark.parametrize("name", MODELS)
def test_a_converted_model_gives_the_bits_of_its_torch(
    tmp_path: Path, name: str
) -> None:
    figures, vocabulary, size = MODELS[name]
    source = TORCH_LSTM / f"{name}.pt"
    assert convert_torch_model(source, tmp_path, TORCH_LSTM / vocabulary) == size
    assert (tmp_path / "vocab.txt").read_text("utf-8").split() == [
        "<S>",
        "</S>",
        "<UNK>",
        *(word for word in WORDS if word not in ("<eos>", "<unk>")),
    ]
    with np.load(TORCH_LSTM / f"{figures}.npz") as expected:
        for state, key in STATES.items():
            bits = bits_of(LanguageModel(tmp_path, state=state))
            assert len(bits) > 1000
            assert_allclose(bits, expected[key], rtol=0, atol=1e-5)


def test_a_batch_of_carried_sentences_equals_one_by_one(forward: LanguageModel) -> None:
    texts = [SENTENCES[0], [], SENTENCES[1], SENTENCES[2]]
    carried = LanguageModel(forward.files, state="carry")
    one_by_one = carried.score([*texts, *texts], batch_size=1)
    fresh = LanguageModel(forward.files, state="carry")
    slots = fresh.score([*texts, *texts], batch_size=4)
    assert_allclose(slots[0].forward, one_by_one[0].forward, atol=1e-5)
    # Slot 0 continues after its own first sentence.
    both = LanguageModel(forward.files, state="carry").score(
        [texts[0], texts[0]], batch_size=1
    )
    assert_allclose(slots[4].forward, both[1].forward, atol=1e-5)


def test_perplexity_equals_the_golden_bits(forward: LanguageModel) -> None:
    with np.load(TORCH_LSTM / "tied.npz") as expected:
        mean = expected["fixed"].mean()
    perplexity = measure_perplexity(forward, SENTENCES)
    assert perplexity.all_words.forward == pytest.approx(2**mean, rel=1e-6)
    assert perplexity.all_words.backward is None
    assert perplexity.known_words.average is None


def test_next_words_are_those_of_torch(forward: LanguageModel) -> None:
    prediction = predict_words(forward, [["The", "had"]], top=70, with_unknown=True)[0]
    probabilities = dict(prediction.candidates)
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-6)
    assert "<S>" not in probabilities
    for word in ("not", "</S>", "<UNK>"):
        [score] = forward.score([["The", "had", word]])
        bits = score.forward[2]
        assert probabilities[word] == pytest.approx(np.exp(bits), rel=1e-6)


def test_ranks_in_the_vocabulary_are_no_frequencies(forward: LanguageModel) -> None:
    [word, _] = measure_surprisal(forward, "The had")
    assert word.log_frequency is None
    [word, _] = measure_surprisal(forward, "The had", frequencies={"The": 1, "x": 3})
    assert word.log_frequency == -2


def test_what_a_model_that_reads_forward_cannot_do(
    converted: Path, forward: LanguageModel
) -> None:
    folder = converted / "forward"
    files = forward.files
    for make in (
        lambda: ElmoEmbedder(folder),
        lambda: ElmoEmbedder(model=files),
        lambda: ElmoEmbedder.from_pretrained(folder),
        lambda: Elmo(folder / "options.json", folder / "weights.hdf5", 1),
        lambda: HubElmo(folder),
    ):
        with pytest.raises(ModelError, match=r"ELMo needs both directions\. Use"):
            make()
    words = f"^{folder}: the model only reads forward, so it cannot predict a word from"
    for direction in ("backward", "both"):
        with pytest.raises(ModelError, match=words):
            measure_surprisal(forward, "The had", direction=direction)
    for call in (
        lambda: find_substitutes(forward, "The had"),
        lambda: predict_words(forward, "The had", direction="backward"),
        lambda: predict_words(forward, "The ___ had"),
    ):
        with pytest.raises(ModelError, match=words):
            call()


@each_example(__file__, "forward_only.txt")
def test_a_command_with_a_forward_model(
    example: Example,
    check_example: CheckExample,
    converted: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(converted)
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    check_example(example)


def test_zeros_take_no_space(converted: Path, tmp_path: Path) -> None:
    weights = converted / "forward/weights.hdf5"
    name = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
    with h5py.File(weights) as file:
        assert not file[name][()].any()
        assert file[name].id.get_storage_size() == 0
        assert file[name.replace("RNN_1", "RNN_0")].id.get_storage_size() > 0
    convert_weights(weights, tmp_path / "weights.hdf5")
    with h5py.File(tmp_path / "weights.hdf5") as file:
        assert file[name].shape == (24, 48)


def saved(content: object, folder: Path, **options: Any) -> Path:
    """Write a file of `torch.save`."""
    path = folder / "model.pt"
    torch.save(content, path, **options)
    return path


def parameters(
    n_words: int = 5,
    embedding_dim: int = 3,
    dim: int = 2,
    lstm: Any = nn.LSTM,
    **options: Any,
) -> dict[str, torch.Tensor]:
    """Return the state dict of a random model, with names of its own."""
    layers = {
        "embed": nn.Embedding(n_words, embedding_dim),
        "lstm": lstm(embedding_dim, dim, **options),
        "out": nn.Linear(dim, n_words),
    }
    return dict(nn.ModuleDict(layers).state_dict())


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Write a vocabulary of five words."""
    path = tmp_path / "vocab.txt"
    path.write_text("<eos>\n<unk>\na\nb\nc\n")
    return path


@pytest.mark.parametrize("is_zip", [True, False])
def test_names_and_surroundings_of_the_modules_do_not_matter(
    tmp_path: Path, words: Path, is_zip: bool
) -> None:
    state = parameters()
    inside = {f"module.{name}": values.half() for name, values in state.items()}
    checkpoint = {
        "epoch": 3,
        "model": OrderedDict(inside),
        "optimizer": {"state": {0: {"momentum": torch.ones(5, 3)}}},
    }
    source = saved(checkpoint, tmp_path, _use_new_zipfile_serialization=is_zip)
    convert_torch_model(source, tmp_path / "a", words)
    rounded = {name: values.half() for name, values in state.items()}
    convert_torch_model(saved(rounded, tmp_path), tmp_path / "b", words)
    scores = [LanguageModel(tmp_path / name).score(["a b"]) for name in "ab"]
    assert_array_equal(scores[0][0].forward, scores[1][0].forward)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"lstm": nn.GRU}, r"lstm.weight_ih_l0: expected \(8, 3\), found \(6, 3\)"),
        (
            {"bidirectional": True},
            r"lstm.weight_ih_l0_reverse: expected no tensor, found \(8, 3\)",
        ),
        ({"bias": False}, r"lstm.bias_ih_l0: expected \(8,\), found no tensor"),
        (
            {"proj_size": 1},
            r"lstm.weight_hh_l0: expected \(8, 2\), found \(8, 1\)",
        ),
    ],
)
def test_another_form_is_an_error_that_names_the_tensors(
    tmp_path: Path, words: Path, change: dict[str, Any], problem: str
) -> None:
    source = saved(parameters(**change), tmp_path)
    with pytest.raises(WeightsError, match=problem):
        convert_torch_model(source, tmp_path / "out", words)
    assert not (tmp_path / "out").exists()


def test_other_tensors_are_an_error_that_names_them(
    tmp_path: Path, words: Path
) -> None:
    expected = "expected an nn.Embedding, an nn.LSTM and an nn.Linear, found "
    more = {"more.weight": torch.ones(2)}
    two = {f"second.{name}": values for name, values in parameters().items()}
    no_bias = parameters()
    del no_bias["out.bias"]
    cases: dict[str, Any] = {
        "no tensors": {},
        "the tensors embed.weight, lstm.weight_ih_l0, .* more.weight": {
            **parameters(),
            **more,
        },
        "the tensors .* and 4 more": {**parameters(), **two},
        "the tensors embed.weight, .*, out.weight$": no_bias,
    }
    for problem, content in cases.items():
        source = saved(content, tmp_path)
        with pytest.raises(WeightsError, match=f"{expected}{problem}"):
            convert_torch_model(source, tmp_path / "out", words)


def test_values_that_are_not_finite_are_an_error(tmp_path: Path, words: Path) -> None:
    state = parameters()
    state["out.bias"][0] = torch.nan
    with pytest.raises(WeightsError, match=r"not finite .* in \['out.bias'\]"):
        convert_torch_model(saved(state, tmp_path), tmp_path / "out", words)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("<eos>\n<unk>\na\nb\n", "does not fit the model: 4 words for 5 rows"),
        ("<eos>\n\na\nb\n<unk>\n", "word 2 cannot be ''"),
        ("<eos>\n<UNK>\na\nb\nc\n", "word 2 cannot be '<UNK>'"),
        ("x\ny\na\nb\nc\n", "the vocabulary lacks <eos> and <unk>"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_an_error(
    tmp_path: Path, words: Path, lines: str, problem: str
) -> None:
    words.write_text(lines)
    with pytest.raises(InputError, match=problem):
        convert_torch_model(saved(parameters(), tmp_path), tmp_path / "out", words)


class Harm:
    """Object whose pickle would create a file."""

    def __reduce__(self) -> Any:
        return exec, ("open('harm', 'w').close()",)


@pytest.mark.parametrize("is_zip", [True, False])
def test_no_code_in_a_pickle_runs(folder: Path, words: Path, is_zip: bool) -> None:
    content = {**parameters(), "harm": Harm(), "list": [Harm(), print]}
    source = saved(content, folder, _use_new_zipfile_serialization=is_zip)
    pickled = folder / "words.pkl"
    pickled.write_bytes(pickle.dumps([Harm(), Harm()]))
    convert_torch_model(source, folder / "out", words)
    with pytest.raises(InputError, match="no list idx2word"):
        convert_torch_model(source, folder / "out", pickled, overwrite=True)
    assert not Path("harm").exists()


def test_a_pickle_cannot_change_what_it_may_call(tmp_path: Path, words: Path) -> None:
    # GLOBAL function, a state with slots, BUILD: it would set an attribute.
    state = pickle.dumps((None, {"__defaults__": (1,)}), protocol=2)[2:-1]
    path = tmp_path / "changed.pkl"
    buffer = io.BytesIO()
    torch.save({}, buffer, _use_new_zipfile_serialization=False)
    function = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n"
    whole = buffer.getvalue()
    empty = b"\x80\x02}q\x00."
    assert whole.count(empty) == 1
    path.write_bytes(whole.replace(empty, function + state + b"b."))
    before = torch._utils._rebuild_tensor_v2.__defaults__
    with pytest.raises(WeightsError, match="not a valid PyTorch file"):
        convert_torch_model(path, tmp_path / "out", words)
    assert torch._utils._rebuild_tensor_v2.__defaults__ == before


def test_a_program_of_torch_script_is_not_loaded(tmp_path: Path, words: Path) -> None:
    path = tmp_path / "script.pt"
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.script(nn.Linear(1, 1)), path)
    with pytest.raises(WeightsError, match=r"script.pt: a program of TorchScript"):
        convert_torch_model(path, tmp_path / "out", words)


def test_the_options_say_whether_the_model_only_reads_forward() -> None:
    lstm = {"dim": 1, "projection_dim": 1}
    forward = parse_architecture({"lstm": lstm, "forward_only": True})
    assert forward.directions == ("forward",)
    both = parse_architecture({"lstm": lstm, "forward_only": False})
    assert both.directions == ("forward", "backward")
    with pytest.raises(ModelError, match='expected true or false, found "yes"'):
        parse_architecture({"lstm": lstm, "forward_only": "yes"})
