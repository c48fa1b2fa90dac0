import pickle
from pathlib import Path

import torch
from layouts import write
from test_reader import layouts, lines
from torch.utils.data import DataLoader

from elmo_cli import ActivationsDataset


@layouts
def test_workers_read_a_file(layout: str, tmp_path: Path) -> None:
    corpus = lines("a", "b", "c", "d", "e")
    write(corpus, tmp_path / "out", layout)
    dataset = ActivationsDataset(tmp_path / "out")
    assert len(dataset) == 5
    loader = DataLoader(
        dataset, batch_size=2, collate_fn=list, num_workers=2, multiprocessing_context="fork"
    )
    found = [values for batch in loader for values in batch]
    for values, expected in zip(found, corpus.values, strict=True):
        assert torch.equal(values, torch.from_numpy(expected))
    copied = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(copied[-1], found[-1])
    for each in (dataset, copied):
        each.activations.close()
