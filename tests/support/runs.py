"""Runs of `embed_file` with a tiny model, and how tests stop and compare them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from elmo_cli import ElmoEmbedder
from elmo_cli.compiled.kernels import has_kernel
from elmo_cli.inference.encoder import SentenceEncoder
from elmo_cli.options.model import Precision
from elmo_cli.runs.file_sink import Summary
from tests.support.commands import TINY


def embed(
    source: str | Path,
    output: str | Path,
    state: Any = "zero",
    *,
    checkpoint_tokens: int = 24,
    precision: Precision = "float32",
    **options: Any,
) -> Summary:
    """Embed with small windows and checkpoints, so that much can be interrupted."""
    embedder = ElmoEmbedder(
        TINY / "options.json",
        TINY / "weights.hdf5",
        state=state,
        batch_tokens=8,
        precision=precision,
    )
    with patch(
        "elmo_cli.runs.embed_file.checkpoint_tokens", return_value=checkpoint_tokens
    ):
        return embedder.embed_file(source, output, batch_size=3, **options)


def stop_after(n_windows: int) -> Callable[[], bool]:
    """Return a `should_stop` that returns True from the n-th window on."""
    calls = iter(range(1, 1_000_000))
    return lambda: next(calls) >= n_windows


def limit_memory(monkeypatch: pytest.MonkeyPatch, n_tokens: int) -> None:
    """Let memory suffice for no more tokens in a batch."""
    original = SentenceEncoder.run_from

    def run(self: SentenceEncoder, sentences: Any, *arguments: Any) -> Any:
        if sum(map(len, sentences)) > n_tokens:
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"
            )
        return original(self, sentences, *arguments)

    monkeypatch.setattr(SentenceEncoder, "run_from", run)


def content(path: str | Path) -> tuple[dict[str, str], Any, dict[str, NDArray[Any]]]:
    """Return attributes, index and datasets of an output in AllenNLP's layout."""
    with h5py.File(path) as file:
        items: dict[str, Any] = {}
        file.visititems(items.__setitem__)  # Names with slashes are in groups.
        data = {
            name: item[()]
            for name, item in items.items()
            if isinstance(item, h5py.Dataset)
        }
        index = data.pop("sentence_to_index", None)
        return dict(file.attrs), None if index is None else json.loads(index[0]), data


def assert_same_file(path: str | Path, expected: str | Path) -> None:
    """Assert equal bytes if kernels ran or nothing resumed, else equal contents."""
    if has_kernel("step_float32") or not h5py.is_hdf5(expected):
        assert Path(path).read_bytes() == Path(expected).read_bytes()
    else:
        assert_equal(path, expected)


def assert_same_values(values: Any, expected: Any) -> None:
    """Assert equal bits if there are kernels, else close values."""
    if has_kernel("step_float32"):
        np.testing.assert_array_equal(values, expected)
    else:
        rtol = 1e-3 if values.dtype == np.float16 else 0.0
        np.testing.assert_allclose(values, expected, rtol=rtol, atol=2e-6)


def assert_equal(path: str | Path, expected: str | Path) -> None:
    """Assert equal names, attributes and indices, and with kernels equal bits."""
    attributes, index, data = content(path)
    expected_attributes, expected_index, expected_data = content(expected)
    assert attributes == expected_attributes
    assert index == expected_index
    assert data.keys() == expected_data.keys()
    for key, values in data.items():
        assert_same_values(values, expected_data[key])
    with h5py.File(path) as one, h5py.File(expected) as other:
        assert all(dict(one[name].attrs) == dict(other[name].attrs) for name in other)
