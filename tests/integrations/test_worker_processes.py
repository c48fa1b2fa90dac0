"""Models and data sets in worker processes: they compute and read what is read here."""

import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.utils.data import DataLoader

from elmo_cli import (
    Elmo,
    ElmoEmbedder,
    ElmoVectorizer,
    HubElmo,
    LanguageModel,
    batch_to_ids,
)
from elmo_cli.compiled.linear import CompiledLinear, product_kernel
from elmo_cli.integrations.activations_dataset import ActivationsDataset
from tests.support.layouts import layouts, lines, write
from tests.support.strategies import make_language_model, small_architecture

SENTENCES = [["the", "cat", "sat"], ["the", "東京", "cat"]]


def work(model: Any) -> Any:
    """Return what a public class or the component for spaCy computes."""
    if isinstance(model, LanguageModel):
        scores = [score.forward for score in model.score(SENTENCES)]
        return np.stack(scores)
    if isinstance(model, Elmo):
        (values,) = model(batch_to_ids(SENTENCES))["elmo_representations"]
        return values.detach().numpy()
    if isinstance(model, HubElmo):
        return model(SENTENCES)["elmo"].detach().numpy()
    if isinstance(model, ElmoVectorizer):
        return model.transform(SENTENCES)
    embedder = getattr(model, "embedder", model)
    return np.stack(embedder.embed_batch(SENTENCES))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Load a small model into each public class. A forkserver takes 250 tensors."""
    from elmo_cli.integrations.spacy_component import ElmoComponent

    path = tmp_path_factory.mktemp("model")
    has_int8 = product_kernel(torch.int8) is not None
    make_language_model(small_architecture(), 1, path)
    changed = ElmoEmbedder(model=path, state="warm")
    with torch.no_grad():
        next(changed.elmo_bilm.forward_layers.parameters()).mul_(2)
    return [
        ElmoEmbedder(model=path, precision="int8" if has_int8 else "bfloat16"),
        changed,
        LanguageModel(model=path),
        Elmo(model=path, dropout=0.0, vocab_to_cache=["the", "cat"]).eval(),
        HubElmo(path),
        ElmoVectorizer(path),
        ElmoComponent("average", model=path),
    ]


def put_results(models: list[Any], queue: Any) -> None:
    layer = models[2].engine.encoder._bilm._stacks["forward"][0].hidden_gates
    is_compiled = isinstance(layer, CompiledLinear)
    is_shared = not is_compiled or layer.weight.is_shared()
    queue.put((is_shared, [work(model) for model in models]))


def by_loader(models: Any) -> Any:
    return DataLoader(
        models,
        batch_size=None,
        collate_fn=work,
        num_workers=1,
        multiprocessing_context="spawn",
    )


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


# Data sets


@layouts
def test_workers_read_a_file_each_for_itself(layout: str, tmp_path: Path) -> None:
    corpus = lines("a", "b", "c", "d", "e")
    write(corpus, tmp_path / "out", layout)
    dataset = ActivationsDataset(tmp_path / "out")
    assert len(dataset) == 5
    # The file is open here before it is open there.
    assert torch.equal(dataset[1], torch.from_numpy(corpus.values[1]))
    order = [4, 0, 3, 1, 2]
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=2,
        sampler=order,
        num_workers=2,
        multiprocessing_context="fork",
        collate_fn=list,
    )
    expected = [corpus.values[number] for number in order]
    for _epoch in range(2):  # with new workers
        tensors = list(chain.from_iterable(loader))
        assert_array_equal(tensors, expected)
    dataset.activations.close()


@layouts
def test_a_pickle_holds_the_path_and_nothing_that_is_open(
    layout: str, tmp_path: Path
) -> None:
    write(lines("a", "b"), tmp_path / "out", layout)
    dataset = ActivationsDataset(tmp_path / "out")
    content = pickle.dumps(dataset)
    assert len(content) < 1000
    copied = pickle.loads(content)
    assert copied.activations is not dataset.activations
    assert torch.equal(copied[-1], dataset[1])
    for each in (dataset, copied):
        each.activations.close()
