"""A file of activations as a data set of torch, for a `DataLoader` with workers."""

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from elmo_cli.outputs.reader import open_activations


class ActivationsDataset(Dataset[Tensor]):
    """The records of a file, each read when it is asked for.

    Map-style: it has a length and can be shuffled. It can be pickled, and each worker opens
    the file for itself. Records have as many rows as tokens, so a batch of more than one takes
    a `collate_fn`, such as `list`.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file; see `open_activations`."""
        self.activations = open_activations(path)

    def __len__(self) -> int:
        return len(self.activations)

    def __getitem__(self, number: int) -> Tensor:
        """The activations of a record: float, as they are in the file."""
        return torch.from_numpy(self.activations[number])
