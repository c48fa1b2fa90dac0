"""Windows, batches and tries of sentences."""

from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import padded

from elmo_cli.inference.batching import build_trie, group_by_length, split_by_size

bounds = st.integers(1, 12)


@given(
    stream=st.lists(st.text("x", max_size=5), max_size=20), max_tokens=bounds, max_sentences=bounds
)
def test_windows_are_the_stream_in_order_up_to_a_maximum_size(
    stream: list[str], max_tokens: int, max_sentences: int
) -> None:
    n_read = 0

    def read() -> Iterator[str]:
        nonlocal n_read
        for n_read, sentence in enumerate(stream, start=1):  # noqa: B007
            yield sentence

    def is_full(window: list[str]) -> bool:
        return len("".join(window)) >= max_tokens or len(window) >= max_sentences

    windows = list[list[str]]()
    for window in split_by_size(read(), max_tokens, max_sentences):
        windows.append(window)
        assert n_read == sum(map(len, windows))  # one window at a time
        assert not is_full(window[:-1])
    assert [*chain.from_iterable(windows)] == stream
    assert all(windows)
    assert all(map(is_full, windows[:-1]))


@given(lengths=st.lists(st.integers(0, 7), max_size=8), max_tokens=bounds, max_sentences=bounds)
def test_batches_are_full_and_begin_with_the_longest_sentence(
    lengths: list[int], max_tokens: int, max_sentences: int
) -> None:
    def fits(batch: list[int]) -> bool:
        n_tokens = sum(lengths[index] for index in batch)
        return len(batch) <= max_sentences and (len(batch) == 1 or n_tokens <= max_tokens)

    batches = list(group_by_length(lengths, max_tokens, max_sentences))
    with_tokens = [index for index, length in enumerate(lengths) if length > 0]
    assert [*chain.from_iterable(batches)] == sorted(with_tokens, key=lambda index: -lengths[index])
    assert all(batch and fits(batch) for batch in batches)
    assert not any(fits([*batch, following[0]]) for batch, following in pairwise(batches))


@given(
    sentences=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=7),
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
    direction = -1 if backward else 1
    runs = [
        [(root, *tokens[::direction][:n]) for n in range(1, len(tokens) + 1)]
        for root, tokens in zip(roots.tolist(), sentences, strict=True)
    ]
    steps = [sorted({run[n] for run in runs if n < len(run)}) for n in range(max(map(len, runs)))]
    paths = [*chain.from_iterable(steps)]
    assert (trie.sizes, trie.tokens.tolist()) == ([*map(len, steps)], [path[-1] for path in paths])
    parents = [path[0] for path in steps[0]]
    parents += [above.index(path[:-1]) for above, step in pairwise(steps) for path in step]
    assert trie.parents.tolist() == parents
    nodes = [[paths.index(path) for path in run] for run in runs]
    assert trie.nodes.tolist() == [node for run in nodes for node in run[::direction]]
    # Every sentence ends in the node that is all of it.
    firsts = np.repeat(np.cumsum([0, *trie.sizes[:-1]]), trie.n_ended)
    ends = (firsts + trie.ends.numpy())[trie.by_sentence.numpy()]
    assert ends.tolist() == [run[-1] for run in nodes]
