"""Read a file that `elmo embed` wrote, and print the shape of every line's activations.

python examples/read_activations.py vectors.hdf5
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray


def read_activations(path: str) -> Iterator[NDArray[np.floating[Any]]]:
    """Yield the activations of each line, in order: (L, T, W), or (T, W)."""
    with h5py.File(path) as file:
        n_lines = len(file.keys() - {"sentence_to_index"})
        for line in range(n_lines):
            yield file[str(line)][:]


def read_sentences(path: str) -> dict[str, str]:
    """Return the sentence of each dataset. A repeated sentence has one entry."""
    with h5py.File(path) as file:
        if "sentence_to_index" not in file:
            return {}
        index: dict[str, str] = json.loads(file["sentence_to_index"][0])
    return {name: sentence for sentence, name in index.items()}


def main(path: str) -> None:
    """Print a line for each line of the text."""
    sentences = read_sentences(path)
    for line, activations in enumerate(read_activations(path)):
        print(line, activations.shape, sentences.get(str(line), ""), sep="\t")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/read_activations.py vectors.hdf5")
    main(sys.argv[1])
