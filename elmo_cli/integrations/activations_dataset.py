"""Activations of a file as a `Dataset` of torch, for its `DataLoader`."""

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from elmo_cli.outputs.reader import open_activations


class ActivationsDataset(Dataset[Tensor]):
    """Records of a file of activations, each read on access.

    Map-style: it has a length and can be shuffled. It can be pickled, and each worker
    opens the file itself. Records differ in their number of tokens, so a batch of
    more than one requires a `collate_fn`, such as `list`.
    """

    def __init__(self, path: str | Path) -> None:
        """Open a file of `elmo embed`, or a folder of `elmo distribute`.

        Raises:
            InputError: The file is missing or contains no activations.
        """
        self.activations = open_activations(path)

    def __repr__(self) -> str:
        return f"ActivationsDataset({self.activations!r})"

    def __len__(self) -> int:
        return len(self.activations)

    def __getitem__(self, index: int) -> Tensor:
        """Return the activations of a record, in the data type of the file.

        Raises:
            IndexError: The index is out of range.
        """
        return torch.from_numpy(self.activations[index])
