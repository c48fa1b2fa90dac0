"""Batches that memory does not suffice for."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import ElmoEmbedder
from elmo_cli.errors import ComputationError, first_line
from elmo_cli.memory import by_halves, is_out_of_memory


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20), room=st.integers(1, 20))
def test_all_that_fits_is_computed_and_what_does_not_is_named(sizes: list[int], room: int) -> None:
    def compute(batch: object) -> list[int]:
        assert isinstance(batch, list)
        if sum(sizes[index] for index in batch) > room:
            raise MemoryError("9 GiB")
        return [10 * sizes[index] for index in batch]

    found = dict(by_halves(compute, list(range(len(sizes)))))
    assert sorted(found) == list(range(len(sizes)))
    for index, size in enumerate(sizes):
        if size <= room:
            assert found[index] == 10 * size
        else:
            assert str(found[index]) == "out of memory: 9 GiB"


def test_other_errors_are_not_tried_again() -> None:
    def compute(batch: object) -> list[int]:
        calls.append(batch)
        raise RuntimeError("CUDA error: unspecified launch failure\nmore")

    calls: list[object] = []
    with pytest.raises(RuntimeError, match="launch failure") as caught:
        list(by_halves(compute, [0, 1]))
    assert calls == [[0, 1]]
    assert first_line(caught.value) == "CUDA error: unspecified launch failure"


def test_memory_that_torch_cannot_have_is_known_as_such() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(MemoryError())
    assert first_line(MemoryError()) == "MemoryError"
    assert not is_out_of_memory(ValueError("out of memory"))


def test_a_sentence_that_is_too_long_for_memory_is_an_error_and_no_other_is_lost(
    golden_embedder: ElmoEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [["a"], ["b"] * 9, ["c", "d"]]
    expected = golden_embedder.embed_batch(sentences)
    run = golden_embedder._states.run

    def little_memory(sentences: list[list[str]], slots: object) -> torch.Tensor:
        if sum(map(len, sentences)) > 2:
            raise MemoryError
        return run(sentences, slots)  # type: ignore[arg-type]

    monkeypatch.setattr(golden_embedder._states, "run", little_memory)
    found = golden_embedder.embed_batch([sentences[0], sentences[2]])
    assert abs(found[0] - expected[0]).max() < 1e-6
    assert abs(found[1] - expected[2]).max() < 1e-6
    with pytest.raises(ComputationError, match=r"^out of memory"):
        golden_embedder.embed_batch(sentences)


@pytest.fixture
def golden_embedder() -> ElmoEmbedder:
    from conftest import GOLDEN

    return ElmoEmbedder(model=GOLDEN / "relu")
