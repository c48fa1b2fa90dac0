"""Tries of sentences: each distinct beginning is one node."""

from itertools import chain, pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.inference.trie import build_trie
from tests.support.strategies import padded


@given(
    sentences=st.lists(
        st.lists(st.integers(0, 2), min_size=1, max_size=6),
        min_size=1,
        max_size=7,
    ),
    backward=st.booleans(),
    n_roots=st.integers(1, 3),
)
def test_nodes_of_a_trie_are_in_the_order_of_their_paths(
    sentences: list[list[int]], backward: bool, n_roots: int
) -> None:
    roots = np.arange(len(sentences)) % n_roots
    table = np.pad(padded(sentences), [(0, 0), (0, 1)], constant_values=-1)
    trie = build_trie(table, roots, torch.device("cpu"), backward=backward)
    # A path is a root and the tokens after it. Each step has its paths once.
    runs = []
    for root, tokens in zip(roots.tolist(), sentences, strict=True):
        in_reading_order = tokens[::-1] if backward else tokens
        ends = range(1, len(tokens) + 1)
        runs.append([(root, *in_reading_order[:end]) for end in ends])
    steps = []
    for number in range(max(map(len, runs))):
        reached = {run[number] for run in runs if number < len(run)}
        steps.append(sorted(reached))
    paths = list(chain.from_iterable(steps))
    assert trie.sizes == [len(step) for step in steps]
    assert trie.tokens.tolist() == [path[-1] for path in paths]

    parents = [path[0] for path in steps[0]]
    for above, step in pairwise(steps):
        parents += [above.index(path[:-1]) for path in step]
    assert trie.parents.tolist() == parents

    nodes: list[int] = []
    last_nodes: list[int] = []
    for run in runs:
        visited = [paths.index(path) for path in run]
        nodes += reversed(visited) if backward else visited
        last_nodes.append(visited[-1])
    assert trie.nodes.tolist() == nodes
    # Every sentence ends in the node that is all of it.
    first_nodes = np.cumsum([0, *trie.sizes[:-1]])
    ended = np.repeat(first_nodes, trie.n_ended) + trie.ends.numpy()
    by_sentence = trie.by_sentence.numpy()
    assert ended[by_sentence].tolist() == last_nodes
