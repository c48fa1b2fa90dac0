"""`torch.compile` of models that contain ELMo, which is left out of compilation."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from conftest import GOLDEN
from numpy.testing import assert_allclose
from torch import Tensor, nn

from elmo_cli import Elmo, HubElmo, batch_to_ids

MODEL = str(GOLDEN / "relu")
BATCHES = [[["a", "b"]], [["a"], ["b", "c", "d"]], [["the", "cat"]] * 3, [["e"]] * 5]


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


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.filterwarnings("default")
def test_compiled_model_with_elmo_gives_equal_values(requires_grad: bool) -> None:
    tagger = Tagger(Elmo(model=MODEL, dropout=0.0, requires_grad=requires_grad))
    compiled: Any = torch.compile(tagger, backend="aot_eager")
    for batch in BATCHES:
        ids = batch_to_ids(batch)
        scores = compiled(ids)
        assert_allclose(scores.detach(), tagger(ids).detach(), atol=1e-6)
        scores.sum().backward()
    gradients = [parameter.grad for parameter in tagger.elmo.bilm.parameters()]
    assert requires_grad == any(gradient is not None for gradient in gradients)


@pytest.mark.filterwarnings("default")
def test_compiler_sees_nothing_of_the_bilm() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled: Any = torch.compile(Tagger(Elmo(model=MODEL)).eval(), backend=keep)
    for batch in BATCHES:
        compiled(batch_to_ids(batch))
    operations = [node for graph in graphs for node in graph.graph.nodes if "call" in node.op]
    assert {node.target for node in operations} == {torch._C._nn.linear, "tanh"}


@pytest.mark.filterwarnings("default")
def test_compiled_hub_elmo_gives_equal_values() -> None:
    elmo = HubElmo(MODEL)
    compiled: Any = torch.compile(elmo, backend="aot_eager")
    for batch in BATCHES:
        texts = [" ".join(tokens) for tokens in batch]
        assert_allclose(compiled(texts)["elmo"], elmo(texts)["elmo"], atol=1e-6)


def test_elmo_does_not_import_the_compiler() -> None:
    code = "import sys, elmo_cli; elmo_cli.Elmo, elmo_cli.HubElmo; print(*sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "torch" in process.stdout.split()
    assert "torch._dynamo" not in process.stdout.split()
