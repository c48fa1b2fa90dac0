import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import padded

from elmo_cli.inference.batching import build_trie

CPU = torch.device("cpu")
many_sentences = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=7
)


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
    table = np.pad(padded(sentences), [(0, 0), (0, 1)], constant_values=-1)
    trie = build_trie(table, roots, CPU, backward=backward)
    runs = [sentence[::-1] if backward else sentence for sentence in sentences]
    sizes, tokens, parents, nodes = numbered_paths(runs, roots.tolist())
    assert (trie.sizes, trie.tokens.tolist(), trie.parents.tolist()) == (sizes, tokens, parents)
    in_order = [each[::-1] if backward else each for each in nodes]
    assert trie.nodes.tolist() == [node for each in in_order for node in each]
    # Every sentence ends in the node that is all of it.
    assert len(trie.sizes) == len(trie.n_ended)
    firsts = np.repeat(np.cumsum([0, *trie.sizes[:-1]]), trie.n_ended)
    ends = firsts + trie.ends.numpy()
    assert ends[trie.by_sentence.numpy()].tolist() == [each[-1] for each in nodes]
