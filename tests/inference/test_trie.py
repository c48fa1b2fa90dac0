import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import padded

from elmo_cli.inference.batching import Trie, build_trie

CPU = torch.device("cpu")
many_sentences = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=7
)


def path(trie: Trie, step: int, index: int) -> tuple[int, list[int]]:
    """Return the root, and the tokens on the path from it to a node."""
    tokens: list[int] = []
    for earlier in range(step, -1, -1):
        tokens.insert(0, int(trie.tokens[sum(trie.sizes[:earlier]) + index]))
        index = int(trie.parents[sum(trie.sizes[:earlier]) + index])
    return index, tokens


def numbered_paths(
    sentences: list[list[int]], roots: list[int]
) -> tuple[list[int], list[int], list[int], list[list[int]]]:
    """Number the nodes step by step, in the order of their roots and tokens, as a slow trie does.

    Return the number of nodes per step, their tokens, their parents and the nodes of each sentence.
    """
    sizes, tokens, parents = list[int](), list[int](), list[int]()
    nodes: list[list[int]] = [[] for _ in sentences]
    above: dict[tuple[int, ...], int] = {(root,): root for root in roots}
    for step in range(max(map(len, sentences))):
        running = [i for i, sentence in enumerate(sentences) if len(sentence) > step]
        paths = {i: (roots[i], *sentences[i][: step + 1]) for i in running}
        index = {each: number for number, each in enumerate(sorted(set(paths.values())))}
        tokens += [each[-1] for each in index]
        parents += [above[each[:-1]] for each in index]
        for i in running:
            nodes[i].append(sum(sizes) + index[paths[i]])
        sizes.append(len(index))
        above = index
    return sizes, tokens, parents, nodes


@given(sentences=many_sentences, backward=st.booleans(), n_roots=st.integers(1, 3))
def test_nodes_are_in_the_order_of_their_paths(
    sentences: list[list[int]], backward: bool, n_roots: int
) -> None:
    roots = np.arange(len(sentences)) % n_roots
    trie = build_trie(padded(sentences), roots, CPU, backward=backward)
    runs = [sentence[::-1] if backward else sentence for sentence in sentences]
    sizes, tokens, parents, nodes = numbered_paths(runs, roots.tolist())
    assert (trie.sizes, trie.tokens.tolist(), trie.parents.tolist()) == (sizes, tokens, parents)
    in_order = [each[::-1] if backward else each for each in nodes]
    assert trie.nodes.tolist() == [node for each in in_order for node in each]


@given(sentences=many_sentences, backward=st.booleans(), n_roots=st.integers(1, 3))
def test_trie_has_one_node_per_distinct_beginning(
    sentences: list[list[int]], backward: bool, n_roots: int
) -> None:
    roots = np.arange(len(sentences)) % n_roots
    tokens = np.pad(padded(sentences), [(0, 0), (0, 1)], constant_values=-1)
    trie = build_trie(tokens, roots, CPU, backward=backward)
    runs = [sentence[::-1] if backward else sentence for sentence in sentences]
    beginnings = {
        (int(root), tuple(run[:length]))
        for root, run in zip(roots, runs, strict=True)
        for length in range(1, len(run) + 1)
    }
    paths = [
        (root, tuple(tokens))
        for step, size in enumerate(trie.sizes)
        for root, tokens in (path(trie, step, index) for index in range(size))
    ]
    assert len(paths) == len(set(paths))
    assert set(paths) == beginnings
    # The node of each token of the text has the beginning up to it.
    expected = [
        (int(root), tuple(run[: len(run) - i if backward else i + 1]))
        for root, run in zip(roots, runs, strict=True)
        for i in range(len(run))
    ]
    assert [paths[node] for node in trie.nodes] == expected
    # Every sentence ends in the node that is all of it.
    assert len(trie.sizes) == len(trie.n_ended)
    steps = np.repeat(np.arange(len(trie.n_ended)), trie.n_ended)
    ends = list(zip(steps.tolist(), trie.ends.tolist(), strict=True))
    for index, root, run in zip(trie.by_sentence, roots, runs, strict=True):
        assert path(trie, *ends[int(index)]) == (int(root), run)
