"""Models on the CPU while torch's default device is another one.

The device `meta` takes the place of a GPU: its tensors have shapes and no values, so that every
tensor that is created on it by mistake raises an error.
"""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import TINY, elmo
from conftest import needs_int8
from numpy.testing import assert_array_equal

from elmo_cli import Elmo, ElmoEmbedder, HubElmo, batch_to_ids

TOKENS = [["a", "b", "a"], ["c"], []]


@contextmanager
def default_device(name: str) -> Iterator[None]:
    """Open a context in which torch creates tensors on a device."""
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"state": "carry"},
        {"state": "warm"},
        {"precision": "bfloat16"},
        pytest.param({"precision": "int8"}, marks=needs_int8),
    ],
)
def test_embedder_ignores_the_default_device(settings: dict[str, Any]) -> None:
    expected = list(ElmoEmbedder(model=TINY, **settings).embed_sentences(TOKENS))
    with default_device("meta"):
        embedder = ElmoEmbedder(model=TINY, **settings)
        activations = list(embedder.embed_sentences(TOKENS))
        tensor, mask = embedder.batch_to_embeddings(TOKENS)
        embedder.encode(["a b", "c"], mix=[0.1, 0.2, 0.3], pooling="max")
    assert (tensor.device.type, mask.device.type) == ("cpu", "cpu")
    for values, others in zip(activations, expected, strict=True):
        assert_array_equal(values, others)


def test_modules_are_on_the_device_of_their_bilm() -> None:
    with default_device("meta"):
        ids = batch_to_ids(TOKENS)
        modules = [
            Elmo(model=TINY, vocab_to_cache=["a", "b"]),
            Elmo(model=TINY, requires_grad=True),
            HubElmo(TINY, trainable=True),
        ]
        outputs = [modules[0](ids), modules[1](ids)]
        values = [output["elmo_representations"][0] for output in outputs]
        values.append(modules[2](["a b", "c"])["elmo"])
    assert all(value.device.type == "cpu" for value in values)
    for module in modules:
        assert {parameter.device.type for parameter in module.parameters()} == {"cpu"}


COMMANDS = [
    "embed text.txt out.hdf5",
    "embed text.txt out.npz --layers average --pooling mean",
    "distribute text.txt parts --engine none",
    "cosine bank 'the bank .' 'a bank'",
    "word-vectors words.vec --corpus text.txt --min-count 1",
    "neighbours cat 'the cat sat .' vectors.hdf5",
    "perplexity text.txt",
    "surprisal text.txt",
    "predict 'the ___ .'",
    "predict the --sample 2",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_ignore_the_default_device(command: str, folder: Path) -> None:
    Path("text.txt").write_text("the cat sat .\nthe bank .\n\n")
    if "vectors.hdf5" in command:
        elmo("embed", "text.txt", "vectors.hdf5")
    with default_device("meta"):
        result = elmo(*shlex.split(command))
    assert result.exit_code == 0, result.output
