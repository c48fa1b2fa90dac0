"""ELMo under settings of torch: models that are compiled, and another default device.

The device `meta` takes the place of a GPU: its tensors have shapes and no values, so
that every tensor that is created on it by mistake raises an error.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from elmo_cli import Elmo, ElmoEmbedder, HubElmo, batch_to_ids
from elmo_cli.errors.exceptions import ModelError
from tests.support.commands import TINY, elmo
from tests.support.processors import needs_int8

# torch.compile

BATCHES = [
    [["a", "b"]],
    [["a"], ["b", "c", "d"]],
    [["the", "cat"]] * 3,
    [["e"]] * 5,
]
compiles = pytest.mark.filterwarnings("default")


class Tagger(nn.Module):
    """A layer on top of ELMo."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.elmo = Elmo(model=TINY, **settings)
        self.output = nn.Linear(self.elmo.get_output_dim(), 2)

    def forward(self, ids: Tensor) -> Any:
        (representation,) = self.elmo(ids)["elmo_representations"]
        return self.output(representation).tanh()


@pytest.fixture
def compiler() -> Iterator[Any]:
    torch.compiler.reset()
    yield torch.compile
    torch.compiler.reset()


@compiles
def test_compiled_model_with_elmo_gives_equal_values(compiler: Any) -> None:
    tagger = Tagger(dropout=0.0, requires_grad=True)
    compiled = compiler(tagger, backend="aot_eager")
    for batch in BATCHES:
        ids = batch_to_ids(batch)
        scores = compiled(ids)
        assert_allclose(scores.detach(), tagger(ids).detach(), atol=1e-6)
        scores.sum().backward()
    for parameter in tagger.elmo.bilm.parameters():
        assert parameter.grad is not None


@compiles
def test_compiler_sees_nothing_of_a_frozen_bilm(compiler: Any) -> None:
    operations: list[torch.fx.Node] = []

    def keep(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        operations.extend(node for node in graph.graph.nodes if "call" in node.op)
        return graph.forward

    tagger = Tagger().eval()
    compiled = compiler(tagger, backend=keep)
    for batch in BATCHES:
        ids = batch_to_ids(batch)
        assert_allclose(compiled(ids).detach(), tagger(ids).detach(), atol=1e-6)
    assert {node.target for node in operations} == {torch._C._nn.linear, "tanh"}


@compiles
def test_compiled_hub_elmo_gives_equal_values(compiler: Any) -> None:
    elmo = HubElmo(TINY)
    compiled = compiler(elmo, backend="eager")
    for batch in BATCHES:
        texts = [" ".join(tokens) for tokens in batch]
        assert_allclose(compiled(texts)["elmo"], elmo(texts)["elmo"], atol=1e-6)


# Default device

TOKENS = [["a", "b", "a"], ["c"], []]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"state": "carry"},
        {"state": "warm"},
        {"precision": "bfloat16"},
        pytest.param({"precision": "int8"}, marks=needs_int8),
    ],
)
def test_embedder_ignores_the_default_device(settings: dict[str, Any]) -> None:
    expected = ElmoEmbedder(model=TINY, **settings).embed_batch(TOKENS)
    with torch.device("meta"):
        embedder = ElmoEmbedder(model=TINY, **settings)
        activations = embedder.embed_batch(TOKENS)
        tensor, mask = embedder.batch_to_embeddings(TOKENS)
        embedder.encode(["a b", "c"], mix=[0.1, 0.2, 0.3], pooling="max")
    assert tensor.device.type == "cpu"
    assert mask.device.type == "cpu"
    for values, others in zip(activations, expected, strict=True):
        assert_array_equal(values, others)


def test_modules_are_on_the_device_of_their_bilm() -> None:
    with torch.device("meta"):
        ids = batch_to_ids(TOKENS)
        calls: list[tuple[nn.Module, Any]] = [
            (Elmo(model=TINY, vocab_to_cache=["a", "b"]), ids),
            (Elmo(model=TINY, requires_grad=True), ids),
            (HubElmo(TINY, trainable=True), ["a b", "c"]),
        ]
        tensors = []
        for module, inputs in calls:
            tensors += tree_leaves(module(inputs))
            tensors += module.parameters()
    assert {tensor.device.type for tensor in tensors} == {"cpu"}


@pytest.mark.parametrize(
    "command",
    [
        "embed text.txt out.hdf5",
        "embed text.txt out.npz --layers average --pooling mean",
        "distribute text.txt parts --engine none",
        "cosine bank 'the bank .' 'a bank'",
        "word-vectors text.txt words.vec --min-count 1",
        "neighbours cat 'the cat sat .' vectors.hdf5",
        "perplexity text.txt",
        "surprisal text.txt",
        "predict 'the ___ .'",
        "predict 'the cat' --samples 2",
    ],
)
def test_commands_ignore_the_default_device(command: str, folder: Path) -> None:
    Path("text.txt").write_text("the cat sat .\nthe bank .\n\n")
    if "vectors.hdf5" in command:
        elmo("embed", "text.txt", "vectors.hdf5")
    with torch.device("meta"):
        result = elmo(*shlex.split(command))
    assert result.exit_code == 0, result.output


# What torch cannot convert

CANNOT_EXPORT = "torch.export and torch.jit cannot record ELMo, "


@compiles
def test_an_export_says_what_works_instead() -> None:
    tagger = Tagger().eval()
    ids = batch_to_ids(BATCHES[1])
    with pytest.raises(ModelError, match=CANNOT_EXPORT):
        torch.export.export(tagger, (ids,), strict=False)
    with pytest.raises(ModelError, match=CANNOT_EXPORT):
        torch.jit.trace(tagger, ids)  # type: ignore[no-untyped-call]
    (representation,) = tagger.elmo(ids)["elmo_representations"]
    exported = torch.export.export(tagger.output, (representation,), strict=False)
    scores = exported.module()(representation)
    assert torch.equal(scores, tagger.output(representation))


@pytest.mark.filterwarnings("ignore")  # torch deprecates its quantization
def test_quantization_says_what_works_instead() -> None:
    tagger = Tagger().eval()
    ids = batch_to_ids(BATCHES[1])
    quantize = torch.ao.quantization.quantize_dynamic
    message = r"^torch's quantization cannot be used for ELMo\. Name the modules "
    with pytest.raises(ModelError, match=message):
        quantize(tagger)(ids)
    with pytest.raises(ModelError, match=message):
        quantize(HubElmo(TINY))(["a b"])
    scores = quantize(tagger, {"output"})(ids)
    assert_allclose(scores.detach(), tagger(ids).detach(), atol=0.05)
