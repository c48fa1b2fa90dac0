"""Models as arguments of worker processes, which compute what this process computes."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from strategies import make_language_model, small_architecture
from torch.utils.data import DataLoader, Dataset

from elmo_cli import Elmo, ElmoEmbedder, ElmoVectorizer, HubElmo, LanguageModel, batch_to_ids
from elmo_cli.compiled.kernels import CompiledLinear
from elmo_cli.inference.precision import has_int8

SENTENCES = [["the", "cat", "sat"], ["the", "東京", "cat"]]


def work(model: Any) -> Any:
    """Return what a public class or the component for spaCy computes."""
    if isinstance(model, ElmoEmbedder):
        return np.stack(model.embed_batch(SENTENCES))
    if isinstance(model, LanguageModel):
        return np.stack([score.forward for score in model.score(SENTENCES)])
    if isinstance(model, Elmo):
        return model(batch_to_ids(SENTENCES))["elmo_representations"][0].detach().numpy()
    if isinstance(model, HubElmo):
        return model(SENTENCES)["elmo"].detach().numpy()
    if isinstance(model, ElmoVectorizer):
        return model.transform(SENTENCES)
    return np.stack(model.embedder.embed_batch(SENTENCES))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Load a small model into each of the public classes. A forkserver takes 250 tensors."""
    from elmo_cli.integrations.spacy_component import ElmoComponent

    path = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), 1, path)
    changed = ElmoEmbedder(model=path, state="warm")
    with torch.no_grad():
        next(changed.elmo_bilm.forward_layers.parameters()).mul_(2)
    return [
        ElmoEmbedder(model=path, precision="int8" if has_int8() else "bfloat16"),
        changed,
        LanguageModel(model=path),
        Elmo(model=path, dropout=0.0, vocab_to_cache=["the", "cat"]).eval(),
        HubElmo(path),
        ElmoVectorizer(path),
        ElmoComponent("average", model=path),
    ]


def put_results(models: list[Any], queue: Any) -> None:
    layer = models[2].engine.encoder._bilm._stacks[0][0].hidden_gates
    is_compiled = isinstance(layer, CompiledLinear)
    is_shared = not is_compiled or layer.weight.is_shared()
    queue.put((is_shared, [work(model) for model in models]))


class Results(Dataset[Any]):
    """Data set that computes its values in the workers of a loader."""

    def __init__(self, models: list[Any]) -> None:
        self.models = models

    def __len__(self) -> int:
        return len(self.models)

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(work(self.models[index]))


def by_loader(models: list[Any]) -> Any:
    results = Results(models)
    return DataLoader(results, batch_size=None, num_workers=1, multiprocessing_context="spawn")


def by_executor(models: list[Any]) -> Any:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        return list(executor.map(work, models))


def by_joblib(models: list[Any]) -> Any:
    joblib = pytest.importorskip("joblib")
    with joblib.parallel_config("loky", n_jobs=2):
        return joblib.Parallel()(joblib.delayed(work)(model) for model in models)


def assert_equal_results(actual: Any, models: list[Any]) -> None:
    for result, model in zip(actual, models, strict=True):
        assert_allclose(result, work(model), atol=1e-6)


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    "start", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.long)]
)
def test_processes_share_the_weights_of_models(start: str, models: list[Any]) -> None:
    context: Any = multiprocessing.get_context(start)
    queue = context.Queue()
    process = context.Process(target=put_results, args=(models, queue))
    process.start()
    is_shared, results = queue.get(timeout=120)
    process.join()
    assert_equal_results(results, models)
    assert is_shared or start == "fork"


@pytest.mark.long
@pytest.mark.parametrize("compute", [by_loader, by_executor, by_joblib])
def test_pools_of_processes_take_models(
    compute: Callable[[list[Any]], Any], models: list[Any]
) -> None:
    assert_equal_results(compute(models), models)
