import copy
import json
import pickle
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import Tensor, nn

from elmo_cli.elmo import Elmo, ElmoOutput, batch_to_ids
from elmo_cli.embedder import ElmoEmbedder
from elmo_cli.errors.exceptions import ElmoError
from elmo_cli.pretrained.load_bilm import load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from tests.support import reference
from tests.support.commands import PROGRAMS, run_python
from tests.support.fake_device import FakeDevice
from tests.support.golden import Golden
from tests.support.processors import (
    needs_int8,
    without_instructions,
    without_integers,
)
from tests.support.strategies import (
    WORDS,
    batches,
    make_model,
    odd_tokens,
    small_architecture,
)

SENTENCES = [["The", "cat", "sat", "."], ["Hi"], ["naïve", "cat"]]
IDS = batch_to_ids(SENTENCES)
VOCABULARY = ["@@PADDING@@", "@@UNKNOWN@@", "cat", "The", "sat", "dog", "."]

pytestmark = pytest.mark.usefixtures("small_weights_are_mapped")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    """Write a small random model."""
    return make_model(small_architecture(), 1, tmp_path_factory.mktemp("model"))


def small_elmo(files: ModelFiles, **arguments: Any) -> Elmo:
    return Elmo(files.options, files.weights, **{"dropout": 0.0, **arguments})


def variant(layer_norm: int, boundaries: int) -> tuple[dict[str, Any], str]:
    """Return arguments, and the name of their group in the golden files."""
    arguments = {
        "do_layer_norm": bool(layer_norm),
        "keep_sentence_boundaries": bool(boundaries),
    }
    name = f"elmo/layer_norm={layer_norm},keep_sentence_boundaries={boundaries}"
    return arguments, name


def first(output: ElmoOutput) -> Any:
    return output["elmo_representations"][0]


def word_inputs(
    sentences: Sequence[Sequence[str]], vocabulary: Sequence[str]
) -> Tensor:
    """Return indices as AllenNLP's vocabulary does: 1 is unknown words, 0 padding."""
    first_index: dict[str, int] = {}
    for index, word in enumerate(vocabulary):
        first_index.setdefault(word, index)
    rows = []
    for sentence in sentences:
        indices = [first_index.get(token, 1) for token in sentence]
        rows.append(torch.tensor(indices))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True).long()


WORD_INPUTS = word_inputs(SENTENCES, VOCABULARY)


def randomise(elmo: Elmo) -> None:
    """Give every parameter of the mixes a value of its own."""
    torch.manual_seed(7)
    for name, parameter in elmo.named_parameters():
        if name.startswith("scalar_mix"):
            nn.init.normal_(parameter)


# Golden figures


@pytest.mark.parametrize("layer_norm", [0, 1])
def test_representations_are_allennlps(
    golden: Golden, layer_norm: int, device: str
) -> None:
    arguments, name = variant(layer_norm, boundaries=layer_norm)
    group = golden.expected[name]
    weights = group.attrs["scalar_mix_parameters"].tolist()
    elmo = small_elmo(golden.files, scalar_mix_parameters=weights, **arguments)
    elmo.to(device)
    output = elmo(batch_to_ids(golden.sentences).to(device))
    assert output["mask"].dtype == torch.int64
    assert output["mask"].tolist() == group["mask"][()].tolist()
    assert not first(output).requires_grad
    # The padding is compared too: it is not zero with layer norm and boundaries.
    actual = first(output).cpu()
    expected = group["representation"][()]
    assert len(actual) == len(expected)
    for row, sentence in enumerate(golden.sentences):
        # Rounding errors grow in the longest sentence, in AllenNLP's figures (5e-5 from
        # float64's) more than in ours (2e-5), and layer norm divides by a small number.
        atol = 1e-4 if len(sentence) == 40 and layer_norm else 1e-5
        assert_allclose(actual[row], expected[row], atol=atol)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_in_double_precision_the_reference_is_met_exactly(
    files: ModelFiles, layer_norm: bool
) -> None:
    elmo = small_elmo(files, do_layer_norm=layer_norm, keep_sentence_boundaries=True)
    elmo.double()
    randomise(elmo)
    output = elmo(IDS)

    mask = output["mask"].numpy()
    arrays = reference.read_arrays(files.weights)
    layers = np.zeros((3, *mask.shape, elmo.get_output_dim()))
    for row, sentence in enumerate(SENTENCES):
        outputs, _ = reference.bilm(sentence, small_architecture(), arrays)
        n_tokens = len(sentence) + 2
        layers[:, row, :n_tokens] = outputs
    state = elmo.state_dict()
    weights = []
    for layer in range(3):
        weight = state[f"scalar_mix_0.scalar_parameters.{layer}"]
        weights.append(weight.item())
    gamma = state["scalar_mix_0.gamma"].item()
    norm_mask = mask if layer_norm else None
    expected = reference.scalar_mix(layers, weights, gamma, norm_mask)
    assert_allclose(first(output).detach().numpy(), expected, atol=1e-12)


def test_batch_to_ids_gives_allennlps_ids(golden: Golden) -> None:
    ids = batch_to_ids(golden.sentences)
    assert ids.dtype == torch.int64
    assert np.array_equal(ids.numpy(), golden.expected["character_ids"][()])


# Finding the model


def test_files_folders_and_modules_are_the_same_model(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = golden.files.options
    weights = golden.files.weights
    folder = golden.folder
    monkeypatch.setenv("ELMO_MODEL", str(folder))
    of_module = Elmo(None, None, 1, dropout=0.0, module=golden.bilm)
    assert of_module.bilm is golden.bilm
    expected = first(of_module(IDS))
    for elmo in (
        Elmo(str(options), str(weights), 1, False, False, 0.0),
        Elmo(options, weights, dropout=0.0),
        Elmo(model=str(folder), num_output_representations=1, dropout=0.0),
        Elmo(None, None, 1, dropout=0.0, model=folder),
        Elmo(dropout=0.0),
    ):
        assert torch.equal(first(elmo(IDS)), expected)


def test_a_word_level_model_takes_the_indices_of_words(tmp_path: Path) -> None:
    content = {"lstm": {"dim": 3, "projection_dim": 2, "n_layers": 1}}
    bilm = load_bilm(make_model(content, 3, tmp_path))
    elmo = Elmo(module=bilm, dropout=0.0)
    ids = bilm.token_encoder.token_ids(["the", "cat"])[None]
    expected = bilm(ids).layers.mean(dim=0)[:, 1:-1]
    assert_allclose(first(elmo(ids)).detach(), expected, atol=1e-6)
    cached = Elmo(module=bilm, dropout=0.0, vocab_to_cache=WORDS)
    word_inputs = torch.tensor([[3, 4]])
    for inputs in (ids, torch.zeros_like(ids)):
        output = cached(inputs, word_inputs)
        assert_allclose(first(output).detach(), expected, atol=1e-6)
    message = r"expected shape \(B, T, 1\), found \(3, 4, 50\)"
    with pytest.raises(ElmoError, match=message):
        elmo(IDS)


# Shapes


@pytest.mark.parametrize(("boundaries", "n_steps"), [(False, 4), (True, 6)])
def test_more_dimensions_before_the_tokens_change_no_value(
    files: ModelFiles, boundaries: bool, n_steps: int
) -> None:
    elmo = small_elmo(files, keep_sentence_boundaries=boundaries)
    other = IDS.flip(0)
    flat = elmo(torch.cat([IDS, other]))
    nested = elmo(torch.stack([IDS, other])[:, None])
    assert first(nested).shape == (2, 1, 3, n_steps, elmo.get_output_dim())
    assert nested["mask"].shape == (2, 1, 3, n_steps)
    assert torch.equal(first(nested).flatten(0, 2), first(flat))
    assert torch.equal(nested["mask"].flatten(0, 2), flat["mask"])


@pytest.mark.parametrize("layer_norm", [0, 1])
@pytest.mark.parametrize("boundaries", [0, 1])
def test_empty_sentences_equal_allennlps(
    golden: Golden, layer_norm: int, boundaries: int
) -> None:
    arguments, name = variant(layer_norm, boundaries)
    elmo = small_elmo(golden.files, **arguments)
    sentences = json.loads(golden.with_empty.attrs["sentences"])
    output = elmo(batch_to_ids(sentences))
    assert_equals_golden(output, golden.with_empty[name])


def assert_equals_golden(output: ElmoOutput, group: h5py.Group) -> None:
    assert output["mask"].tolist() == group["mask"][()].tolist()
    assert_allclose(first(output).detach(), group["representation"][()], atol=1e-5)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_an_empty_batch_gives_empty_representations(
    files: ModelFiles, sentences: list[list[str]], layer_norm: bool
) -> None:
    elmo = small_elmo(files, do_layer_norm=layer_norm, vocab_to_cache=VOCABULARY)
    ids = batch_to_ids(sentences)
    word_inputs = torch.zeros(ids.shape[:2], dtype=torch.int64)
    for output in (elmo(ids), elmo(ids, word_inputs)):
        assert first(output).shape == (len(sentences), 0, elmo.get_output_dim())
        assert output["mask"].shape == (len(sentences), 0)


def test_columns_of_padding_are_kept_and_are_zero(files: ModelFiles) -> None:
    elmo = small_elmo(files)
    n_steps = IDS.shape[1]
    output = elmo(nn.functional.pad(IDS, (0, 0, 0, 3)))
    values = first(output)
    assert values.shape[1] == n_steps + 3
    assert torch.equal(values[:, :n_steps], first(elmo(IDS)))
    is_padding = output["mask"] == 0
    assert not values[is_padding].any()


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_call_waits_twice_for_a_gpu(
    files: ModelFiles, fake_cuda: FakeDevice, is_trained: bool
) -> None:
    elmo = small_elmo(files, vocab_to_cache=None if is_trained else VOCABULARY)
    elmo.to("cuda")
    elmo.bilm.requires_grad_(is_trained)
    ids = IDS.repeat(200, 1, 1).to("cuda")
    word_inputs = WORD_INPUTS.repeat(200, 1).to("cuda")
    # One wait is for the lengths, with all that is checked, and one is for the lengths
    # of the longest tokens.
    waits = ["_to_copy", "_to_copy"]
    fake_cuda.waits.clear()
    elmo(ids)
    assert sorted(fake_cuda.waits) == waits
    if not is_trained:  # for the words that the cache lacks
        waits.append("nonzero")
    fake_cuda.waits.clear()
    elmo(ids, word_inputs)
    assert sorted(fake_cuda.waits) == waits


# State, modes, precisions


@pytest.mark.parametrize("cache", [None, VOCABULARY])
def test_autocast_to_bfloat16_runs_and_is_close(
    files: ModelFiles, cache: list[str] | None
) -> None:
    elmo = small_elmo(files, vocab_to_cache=cache, do_layer_norm=True)
    expected = first(elmo(IDS)).detach()
    with torch.autocast("cpu", torch.bfloat16):
        output = elmo(IDS, WORD_INPUTS)
    assert_allclose(first(output).float().detach(), expected, atol=0.1)


PRECISIONS = ["bfloat16", "float16", pytest.param("int8", marks=needs_int8)]


def layers_of_embedder(files: ModelFiles, precision: Any, device: str) -> list[Tensor]:
    """Return each layer of `SENTENCES` by `ElmoEmbedder`, float32, (B, T, W)."""
    embedder = ElmoEmbedder(
        files.options, files.weights, precision=precision, device=device
    )
    activations, _ = embedder.batch_to_embeddings(SENTENCES)
    return [layer.cpu() for layer in activations.unbind(dim=1)]


def assert_equals_embedder(
    files: ModelFiles, precision: Any, device: str, atol: float = 1e-6
) -> None:
    """Compare values and gradients of a mix with those over an embedder's layers."""
    elmo = small_elmo(files, precision=precision, vocab_to_cache=VOCABULARY)
    randomise(elmo)
    mix = copy.deepcopy(elmo.get_submodule("scalar_mix_0"))
    expected = mix(layers_of_embedder(files, precision, device))
    loss = expected.square().sum()
    expected_gradients = torch.autograd.grad(loss, list(mix.parameters()))
    elmo.to(device)
    parameters = list(elmo.get_submodule("scalar_mix_0").parameters())
    for word_inputs in (None, WORD_INPUTS.to(device)):
        values = first(elmo(IDS.to(device), word_inputs))
        assert values.dtype == torch.float32
        assert_allclose(values.detach().cpu(), expected.detach(), atol=atol)
        gradients = torch.autograd.grad(values.square().sum(), parameters)
        for gradient, other in zip(gradients, expected_gradients, strict=True):
            assert_allclose(gradient.cpu(), other, rtol=10 * atol, atol=atol)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_lower_precision_is_the_embedders(files: ModelFiles, precision: str) -> None:
    assert_equals_embedder(files, precision, "cpu")
    exact = first(small_elmo(files)(IDS)).detach()
    lower = first(small_elmo(files, precision=precision)(IDS)).detach()
    difference = torch.linalg.norm(lower - exact) / torch.linalg.norm(exact)
    assert 1e-5 < difference < 0.03


@pytest.mark.parametrize("integers", [nullcontext, without_integers])
def test_bfloat16_of_any_processor_is_the_embedders_and_leaves_the_bilm(
    files: ModelFiles, integers: Callable[[], AbstractContextManager[None]]
) -> None:
    bilm = load_bilm(files)
    before = copy.deepcopy(bilm.state_dict())
    with without_instructions("avx512_bf16"), integers():
        assert_equals_embedder(files, "bfloat16", "cpu")
        Elmo(module=bilm, precision="bfloat16")(IDS)
    for name, weight in bilm.state_dict().items():
        assert torch.equal(weight, before[name])


@pytest.mark.parametrize(("precision", "atol"), [("bfloat16", 5e-3), ("float16", 5e-4)])
def test_a_lower_precision_on_a_gpu_is_the_embedders(
    files: ModelFiles, precision: str, atol: float, gpu: str
) -> None:
    # How torch rounds sums depends on the size of the batch.
    assert_equals_embedder(files, precision, gpu, atol)


def test_tf32_begins_on_the_gpu(
    files: ModelFiles, fake_cuda: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    elmo = small_elmo(files, precision="tf32")
    with pytest.raises(ElmoError, match="precision='tf32': requires an NVIDIA"):
        elmo(IDS)
    (values,) = elmo.to("cuda")(IDS.to("cuda"))["elmo_representations"]
    layers = layers_of_embedder(files, "tf32", "cuda")
    expected = torch.stack(layers).mean(dim=0)
    assert_allclose(values.detach().cpu(), expected, atol=1e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_lower_precision_ignores_autocast_and_the_type_of_the_weights(
    files: ModelFiles, precision: str
) -> None:
    elmo = small_elmo(files, precision=precision)
    expected = first(elmo(IDS))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(first(elmo(IDS)), expected)
    double = copy.deepcopy(elmo).double()
    values = first(double(IDS))
    assert values.dtype == torch.float64
    assert_allclose(values.detach(), expected.detach(), atol=1e-6)
    half = first(copy.deepcopy(elmo).bfloat16()(IDS))
    assert half.dtype == torch.bfloat16
    assert_allclose(half.detach().float(), expected.detach(), atol=0.05)


def test_a_lower_precision_refuses_a_bilm_that_trains(files: ModelFiles) -> None:
    elmo = small_elmo(files, precision="bfloat16")
    elmo.bilm.requires_grad_(True)
    message = (
        r"^precision='bfloat16': requires a frozen biLM, without gradients or "
        r"dropout\. Use precision='float32'\.$"
    )
    with pytest.raises(ElmoError, match=message):
        elmo(IDS)
    elmo.bilm.requires_grad_(False)
    elmo(IDS)
    elmo.bilm.dropout.p = 0.1
    elmo.train()
    with pytest.raises(ElmoError, match=message):
        elmo(IDS)
    elmo.eval()(IDS)


def test_the_precision_is_shown(files: ModelFiles) -> None:
    elmo = small_elmo(files, precision="bfloat16")
    assert elmo.precision == "bfloat16"
    assert repr(elmo).startswith("Elmo(\n  precision='bfloat16'\n")
    assert "precision='float32'" in repr(small_elmo(files))


# Gradients


def test_a_frozen_bilm_gets_no_gradient_and_the_mixes_do(files: ModelFiles) -> None:
    elmo = small_elmo(files, num_output_representations=2)
    one, two = elmo(IDS)["elmo_representations"]
    assert torch.equal(one, two)
    randomise(elmo)
    one, two = elmo(IDS)["elmo_representations"]
    assert not torch.allclose(one, two)
    one.pow(2).sum().backward()
    with_gradient = []
    for name, parameter in elmo.named_parameters():
        if parameter.grad is not None:
            with_gradient.append(name)
    assert sorted(with_gradient) == [
        "scalar_mix_0.gamma",
        "scalar_mix_0.scalar_parameters.0",
        "scalar_mix_0.scalar_parameters.1",
        "scalar_mix_0.scalar_parameters.2",
    ]
    for parameter in elmo.bilm.parameters():
        assert not parameter.requires_grad


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_bilm_that_trains_gets_gradients_everywhere(
    files: ModelFiles, layer_norm: bool
) -> None:
    elmo = small_elmo(files, requires_grad=True, do_layer_norm=layer_norm)
    first(elmo(IDS)).pow(2).sum().backward()
    for name, parameter in elmo.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_step_changes_the_bilm_and_not_its_file(
    files: ModelFiles, optimizer: type[torch.optim.Optimizer]
) -> None:
    content = files.weights.read_bytes()
    frozen = small_elmo(files)
    elmo = small_elmo(files, requires_grad=True)
    before = first(elmo(IDS)).detach()
    first(elmo(IDS)).pow(2).sum().backward()
    optimizer(elmo.parameters(), lr=0.1).step()  # type: ignore[call-arg]
    elmo.bilm.requires_grad_(False)
    elmo.bilm.zero_grad()
    after = first(elmo(IDS)).detach()  # by a copy of the LSTMs' weights
    exact = copy.deepcopy(elmo).double()
    assert_allclose(after, first(exact(IDS)).detach(), atol=1e-5)
    assert not torch.allclose(after, before, atol=1e-2)
    assert_same(frozen, small_elmo(files))
    assert files.weights.read_bytes() == content


# Memory


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells private memory apart"
)
def test_private_memory_holds_weights_once(files: ModelFiles, tmp_path: Path) -> None:
    architecture = small_architecture(dim=1024, projection_dim=256)  # 38 MB
    large = make_model(architecture, 1, tmp_path)
    small_folder = files.options.parent
    done = run_python(PROGRAMS / "private_bytes.py", small_folder, tmp_path, check=True)
    n_bytes = large.weights.stat().st_size
    assert int(done.stdout) < 1.5 * n_bytes


# Copies


EACH_PRECISION = pytest.mark.parametrize("precision", ["float32", *PRECISIONS])


def changed(files: ModelFiles, precision: str = "float32") -> Elmo:
    """Return a module with a cache, and parameters that no file has."""
    elmo = small_elmo(
        files,
        vocab_to_cache=VOCABULARY,
        num_output_representations=2,
        precision=precision,
    )
    randomise(elmo)
    return elmo


def assert_same(actual: Elmo, expected: Elmo) -> None:
    for word_inputs in (None, WORD_INPUTS):
        outputs = actual(IDS, word_inputs)["elmo_representations"]
        others = expected(IDS, word_inputs)["elmo_representations"]
        for values, other_values in zip(outputs, others, strict=True):
            assert torch.equal(values, other_values)


@EACH_PRECISION
def test_deep_copies_and_pickles_are_equal(files: ModelFiles, precision: str) -> None:
    elmo = changed(files, precision)
    for copied in (copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))):
        assert copied.precision == precision
        assert_same(copied, elmo)


@EACH_PRECISION
def test_replicas_of_a_module_are_equal(
    files: ModelFiles, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`DataParallel` needs two GPUs. Here its replicas are both on the CPU."""

    def copy_to(
        tensors: list[Tensor], devices: list[int], detach: bool = False
    ) -> list[list[Tensor]]:
        return [[tensor.clone() for tensor in tensors] for _ in devices]

    module = sys.modules["torch.nn.parallel.replicate"]
    monkeypatch.setattr(module, "_broadcast_coalesced_reshape", copy_to)
    elmo = changed(files, precision)
    for replica in nn.parallel.replicate(elmo, [0, 1]):
        assert_same(replica, elmo)


@EACH_PRECISION
def test_a_state_dict_brings_all_weights_and_the_cache_follows(
    files: ModelFiles, precision: str, tmp_path: Path
) -> None:
    elmo = changed(files, precision)
    other = changed(make_model(small_architecture(), 2, tmp_path), precision)
    assert other.state_dict().keys() == changed(files).state_dict().keys()
    other(IDS)
    # As a part of a larger model, where `load_state_dict` of the Elmo itself is not
    # called.
    nn.Sequential(other).load_state_dict(nn.Sequential(elmo).state_dict())
    assert_same(other, elmo)


# Cached words


@given(
    sentences=batches(),
    words=st.lists(odd_tokens, max_size=8),
    absent=st.sampled_from([-100, -1, 0, 1, 100]),
    boundaries=st.booleans(),
)
def test_the_cache_changes_no_value(
    files: ModelFiles,
    sentences: list[list[str]],
    words: list[str],
    absent: int,
    boundaries: bool,
) -> None:
    vocabulary = ["@@PADDING@@", "@@UNKNOWN@@", *words, "cat"]
    elmo = small_elmo(
        files, vocab_to_cache=vocabulary, keep_sentence_boundaries=boundaries
    )
    ids = batch_to_ids(sentences)
    words_of_ids = word_inputs(sentences, vocabulary)
    words_of_ids[(words_of_ids == 1) & ids.any(dim=2)] = absent
    if absent == 100:
        # Padding stays 0: an index outside the list would count as a word.
        words_of_ids[~ids.any(dim=2)] = 0
    cached = elmo(ids, words_of_ids)
    expected = elmo(ids)
    assert_allclose(first(cached).detach(), first(expected).detach(), atol=1e-5)
    assert torch.equal(cached["mask"], expected["mask"])


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 50),
        (4, 3, 50),
        (4, 3, 1, 50),
    ],
)
def test_words_without_characters_equal_allennlps(
    golden: Golden, shape: tuple[int, ...]
) -> None:
    attributes = golden.with_empty.attrs
    vocabulary = json.loads(attributes["vocabulary"])
    elmo = small_elmo(golden.files, vocab_to_cache=vocabulary)
    words = torch.tensor(json.loads(attributes["word_inputs"]))
    for dtype in (torch.int64, torch.float32):
        output = elmo(torch.zeros(shape, dtype=dtype), words)
        assert_equals_golden(output, golden.with_empty["words"])


def test_tokens_of_a_batch_may_lack_characters(files: ModelFiles) -> None:
    elmo = small_elmo(files, vocab_to_cache=VOCABULARY)
    ids = batch_to_ids([["Hi", "cat"], ["The"]])
    words = torch.tensor([[1, 2], [3, 0]])
    expected = elmo(ids)
    ids[0, 1] = 0
    ids[1, 0] = 0
    output = elmo(ids, words)
    assert output["mask"].tolist() == expected["mask"].tolist()
    assert_allclose(first(output).detach(), first(expected).detach(), atol=1e-6)
    nested = elmo(torch.zeros(1, 1, 1, 50).long(), words[None])
    assert nested["mask"].tolist() == [[[1, 1], [1, 0]]]


def test_words_in_the_cache_are_not_encoded_again(files: ModelFiles) -> None:
    elmo = small_elmo(files, vocab_to_cache=VOCABULARY)
    encoded: list[int] = []

    def count_tokens(_module: object, inputs: tuple[Tensor, ...]) -> None:
        (ids,) = inputs
        encoded.append(len(ids))

    elmo.bilm.token_encoder.register_forward_pre_hook(count_tokens)
    elmo(IDS, WORD_INPUTS)  # `Hi` and `naïve` are not held, nor encoded more than once
    assert encoded == [2]
    elmo(batch_to_ids([["The", "dog"]]), torch.tensor([[3, 5]]))
    assert encoded == [2]


def test_the_cache_follows_the_module_to_a_gpu(files: ModelFiles, gpu: str) -> None:
    elmo = changed(files)
    expected = first(elmo(IDS, WORD_INPUTS)).detach()
    elmo.to(gpu)
    output = elmo(IDS.to(gpu), WORD_INPUTS.to(gpu))
    actual = first(output).detach().cpu()
    assert_allclose(actual, expected, atol=1e-5)


def test_gradients_on_a_gpu_are_those_of_the_cpu(files: ModelFiles, gpu: str) -> None:
    def compute_gradients(device: str) -> list[Tensor]:
        elmo = small_elmo(files, requires_grad=True, do_layer_norm=True)
        elmo.to(device)
        loss = first(elmo(IDS.to(device))).pow(2).sum()
        gradients = torch.autograd.grad(loss, list(elmo.parameters()))
        return [values.cpu() for values in gradients]

    here = compute_gradients("cpu")
    there = compute_gradients(gpu)
    for expected, actual in zip(here, there, strict=True):
        assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
