"""`torch.compile` of models that contain ELMo, which is left out of compilation."""

from typing import Any

import pytest
import torch
from conftest import GOLDEN
from numpy.testing import assert_allclose
from torch import Tensor, nn

from elmo_cli import Elmo, HubElmo, batch_to_ids

MODEL = str(GOLDEN / "relu")
BATCHES = [[["a", "b"]], [["a"], ["b", "c", "d"]], [["the", "cat"]] * 3, [["e"]] * 5]

pytestmark = pytest.mark.filterwarnings("default")


class Tagger(nn.Module):
    """A layer on top of ELMo."""

    def __init__(self, elmo: Elmo) -> None:
        super().__init__()
        self.elmo = elmo
        self.output = nn.Linear(elmo.get_output_dim(), 2)

    def forward(self, ids: Tensor) -> Any:
        return self.output(self.elmo(ids)["elmo_representations"][0]).tanh()


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Any:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_compiled_model_with_elmo_gives_equal_values() -> None:
    tagger = Tagger(Elmo(model=MODEL, dropout=0.0, requires_grad=True))
    compiled: Any = torch.compile(tagger, backend="aot_eager")
    for batch in BATCHES:
        ids = batch_to_ids(batch)
        scores = compiled(ids)
        assert_allclose(scores.detach(), tagger(ids).detach(), atol=1e-6)
        scores.sum().backward()
    assert all(parameter.grad is not None for parameter in tagger.elmo.bilm.parameters())


def test_compiler_sees_nothing_of_a_frozen_bilm() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    tagger = Tagger(Elmo(model=MODEL)).eval()
    compiled: Any = torch.compile(tagger, backend=keep)
    for batch in BATCHES:
        ids = batch_to_ids(batch)
        assert_allclose(compiled(ids).detach(), tagger(ids).detach(), atol=1e-6)
    operations = [node for graph in graphs for node in graph.graph.nodes if "call" in node.op]
    assert {node.target for node in operations} == {torch._C._nn.linear, "tanh"}


def test_compiled_hub_elmo_gives_equal_values() -> None:
    elmo = HubElmo(MODEL)
    compiled: Any = torch.compile(elmo, backend="eager")
    for batch in BATCHES:
        texts = [" ".join(tokens) for tokens in batch]
        assert_allclose(compiled(texts)["elmo"], elmo(texts)["elmo"], atol=1e-6)
