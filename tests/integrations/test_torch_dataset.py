import pickle
from pathlib import Path

import torch
from layouts import layouts, lines, write
from torch.utils.data import DataLoader

from elmo_cli import ActivationsDataset


@layouts
def test_workers_read_a_file_each_for_itself(layout: str, tmp_path: Path) -> None:
    corpus = lines("a", "b", "c", "d", "e")
    write(corpus, tmp_path / "out", layout)
    dataset = ActivationsDataset(tmp_path / "out")
    assert len(dataset) == 5
    assert torch.equal(dataset[1], torch.from_numpy(corpus.values[1]))  # open here before there
    loader = DataLoader(
        dataset,
        batch_size=2,
        sampler=[4, 0, 3, 1, 2],
        collate_fn=list,
        num_workers=2,
        multiprocessing_context="fork",
    )
    for _epoch in range(2):  # with new workers
        tensors = [values for batch in loader for values in batch]
        for values, number in zip(tensors, [4, 0, 3, 1, 2], strict=True):
            assert torch.equal(values, torch.from_numpy(corpus.values[number]))
    dataset.activations.close()


@layouts
def test_a_pickle_holds_the_path_and_nothing_that_is_open(layout: str, tmp_path: Path) -> None:
    write(lines("a", "b"), tmp_path / "out", layout)
    dataset = ActivationsDataset(tmp_path / "out")
    content = pickle.dumps(dataset)
    assert len(content) < 1000
    copied = pickle.loads(content)
    assert copied.activations is not dataset.activations
    assert torch.equal(copied[-1], dataset[1])
    for each in (dataset, copied):
        each.activations.close()
