"""Windows and batches of sentences, and batches that do not fit into memory."""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import ElmoEmbedder, engine
from elmo_cli.arrays import FloatArray
from elmo_cli.embedder import embedder_on
from elmo_cli.errors.exceptions import ComputationError
from elmo_cli.errors.wording import first_line
from elmo_cli.inference.batching import (
    compute_in_batches,
    group_by_length,
    split_by_size,
)
from elmo_cli.inference.encoder import SentenceEncoder
from elmo_cli.inference.memory import is_out_of_memory
from elmo_cli.pretrained.load_bilm import load_bilm
from tests.support.commands import TINY
from tests.support.fake_device import FakeDevice
from tests.support.runs import limit_memory

bounds = st.integers(1, 12)


@given(
    stream=st.lists(st.text("x", max_size=5)), max_tokens=bounds, max_sentences=bounds
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

    windows: list[list[str]] = []
    for window in split_by_size(read(), max_tokens, max_sentences):
        windows.append(window)
        assert n_read == sum(map(len, windows))  # one window at a time
        assert window != []
        assert not is_full(window[:-1])
    assert list(chain.from_iterable(windows)) == stream
    for window in windows[:-1]:
        assert is_full(window)


@given(
    lengths=st.lists(st.integers(0, 7), max_size=8),
    max_tokens=bounds,
    max_sentences=bounds,
)
def test_batches_are_full_and_begin_with_the_longest_sentence(
    lengths: list[int], max_tokens: int, max_sentences: int
) -> None:
    def fits(batch: list[int]) -> bool:
        if len(batch) > max_sentences:
            return False
        n_tokens = sum(lengths[index] for index in batch)
        return len(batch) == 1 or n_tokens <= max_tokens

    batches = list(group_by_length(lengths, max_tokens, max_sentences))
    with_tokens = [index for index, length in enumerate(lengths) if length > 0]
    longest_first = sorted(with_tokens, key=lambda index: -lengths[index])
    assert list(chain.from_iterable(batches)) == longest_first
    for batch in batches:
        assert batch != []
        assert fits(batch)
    for batch, following in pairwise(batches):
        assert not fits([*batch, following[0]])


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20),
    room=st.integers(1, 20),
)
def test_compute_in_batches_returns_an_error_if_out_of_memory(
    sizes: list[int], room: int
) -> None:
    def compute(batch: Any) -> list[int]:
        if sum(sizes[index] for index in batch) > room:
            raise MemoryError("9 GiB")
        return [10 * sizes[index] for index in batch]

    results, fitted = compute_in_batches(compute, sizes, 100, "cpu", carried=False)
    assert fitted <= 100
    assert len(results) == len(sizes)
    for index, size in enumerate(sizes):
        if size <= room:
            assert results[index] == 10 * size
        else:
            assert str(results[index]) == "out of memory: 9 GiB"


def test_compute_in_batches_raises_other_errors() -> None:
    compute = Mock(
        side_effect=RuntimeError("CUDA error: unspecified launch failure\nmore")
    )
    with pytest.raises(RuntimeError, match="launch failure") as caught:
        compute_in_batches(compute, [1, 1], 100, "cpu", carried=False)
    compute.assert_called_once_with([0, 1])
    assert first_line(caught.value) == "CUDA error: unspecified launch failure"


def test_a_thread_that_cannot_start_is_too_little_memory() -> None:
    assert is_out_of_memory(RuntimeError("can't start new thread"))


def test_is_out_of_memory_recognizes_torch_and_python() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    full = RuntimeError(
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(h)`"
    )
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(full)
    failed = RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED")
    assert not is_out_of_memory(failed)
    assert not is_out_of_memory(ValueError("out of memory"))
    assert first_line(MemoryError()) == "MemoryError"


def test_a_sentence_too_long_for_a_gpu_is_computed_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    short = [["a"], ["c", "d"]]
    sentences = [short[0], ["b"] * 9, short[1], ["e"] * 7]
    embedder = ElmoEmbedder(model=TINY)
    expected = embedder.embed_batch(sentences)
    run = embedder.engine.encoder.run
    batches: list[list[int]] = []
    load = Mock(wraps=load_bilm)

    def little_gpu(sentences: list[list[str]], slots: object) -> torch.Tensor:
        batches.append([len(sentence) for sentence in sentences])
        if sum(batches[-1]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.")
        return run(sentences, slots)  # type: ignore[arg-type]

    monkeypatch.setattr(embedder.engine.encoder, "run", little_gpu)
    monkeypatch.setattr("elmo_cli.engine.load_bilm", load)
    on_gpu = replace(embedder.engine, device=torch.device("cuda"))
    embedder = embedder_on(on_gpu)
    assert_close(embedder.embed_batch(short), [expected[0], expected[2]])
    assert load.call_count == 0  # no copy that is not needed
    assert caplog.messages == []
    for _ in range(2):
        assert_close(list(embedder.embed_sentences(sentences)), expected)
    assert load.call_count == 1
    assert len(caplog.messages) == 1
    tried = {sum(lengths) for lengths in batches}
    assert {1, 2, 9} <= tried  # the GPU was tried first


def test_later_windows_keep_a_batch_size_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedder = ElmoEmbedder(model=TINY, batch_tokens=64)
    sentences = [["a", "b", str(number)] for number in range(200)]
    expected = list(embedder.embed_sentences(sentences))
    limit_memory(monkeypatch, 20)
    limited = SentenceEncoder.run_from
    n_tokens: list[int] = []

    def count_tokens(self: Any, batch: list[list[str]], *more: Any) -> Any:
        n_tokens.append(sum(map(len, batch)))
        return limited(self, batch, *more)

    with patch.object(SentenceEncoder, "run_from", count_tokens):
        assert_close(list(embedder.embed_sentences(sentences)), expected)
    assert n_tokens[:3] == [63, 30, 15]  # two halvings
    assert max(n_tokens[2:]) == 15
    assert embedder.batch_tokens == 64  # Windows, and so checkpoints, stay as they are.
    limit_memory(monkeypatch, 3)
    assert_close(list(embedder.embed_sentences(sentences)), expected)
    assert embedder.engine.batch_limit.n_tokens == 64 // 16


def test_a_full_gpu_computes_less_at_once(fake_cuda: FakeDevice) -> None:
    sentences = [["the", "cat"] * n for n in range(1, 7)]
    expected = ElmoEmbedder(model=TINY, state="warm").embed_batch(sentences)
    embedder = ElmoEmbedder(model=TINY, state="warm", device="cuda")
    fake_cuda.max_bytes = 5_000
    assert_close(embedder.embed_batch(sentences), expected, 1e-5)
    assert embedder.engine.batch_limit.n_tokens < embedder.batch_tokens
    fake_cuda.max_bytes = 100
    assert_close(embedder.embed_batch(sentences), expected, 1e-5)  # on the CPU


def test_a_sentence_too_long_for_the_cpu_is_an_error() -> None:
    message = "can't allocate memory: 9 GiB"
    on_gpu = Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory."))
    on_cpu = Mock(side_effect=RuntimeError(f"DefaultCPUAllocator: {message}"))
    results, fitted = compute_in_batches(
        on_gpu, [3], 100, "cuda", carried=False, compute_on_cpu=on_cpu
    )
    assert fitted == 100  # One sentence says nothing about batches.
    assert type(results[0]) is ComputationError
    assert str(results[0]) == f"out of memory: {message}"


def assert_close(
    arrays: list[FloatArray], expected: list[FloatArray], atol: float = 1e-6
) -> None:
    for values, others in zip(arrays, expected, strict=True):
        assert abs(values - others).max() < atol


def test_embed_file_frees_a_window_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays: list[weakref.ref[Any]] = []
    n_alive: list[int] = []
    compute_window = engine.Engine.compute_window

    def count_alive(*args: Any) -> Any:
        alive = [array for array in arrays if array() is not None]
        n_alive.append(len(alive))
        results = compute_window(*args)
        for values in results:
            arrays.append(weakref.ref(values))
        return results

    monkeypatch.setattr(engine.Engine, "compute_window", count_alive)
    (tmp_path / "text.txt").write_text("a b c\nd e f\ng\n" * 9)
    embedder = ElmoEmbedder(model=TINY, batch_tokens=4)
    embedder.embed_file(tmp_path / "text.txt", tmp_path / "out.hdf5")
    assert len(n_alive) > 3
    assert set(n_alive) == {0}
