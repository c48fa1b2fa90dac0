"""Runs to every format, with many checkpoints, that take a moment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from elmo_cli import ElmoEmbedder, write_occurrences
from elmo_cli.outputs.saved_output import ResumePoint
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.runs.file_sink import Summary
from tests.support.commands import TINY

LINES = "The cat sat\n\na bank\n"
OUTPUTS: dict[str, dict[str, Any]] = {
    "allennlp.hdf5": {},
    "packed.hdf5": {"layout": "packed"},
    "rows.jsonl": {},
    "arrays.npz": {},
    "pooled.npy": {"pooling": "mean"},
    "rows.parquet": {},
    "tokens.parquet": {"rows": "tokens"},
    **{f"occurrences.{suffix}": {} for suffix in ("hdf5", "parquet")},
}


@cache
def embedder() -> ElmoEmbedder:
    return ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5", batch_tokens=8)


def run(text: Path, output: Path, *, overwrite: bool = False) -> Summary:
    """Embed, or write a word's occurrences, with many checkpoints."""
    with patch("elmo_cli.runs.embed_file.checkpoint_tokens", return_value=3):
        if output.name.startswith("occurrences"):
            words = {"bank": "bank"}
            return write_occurrences(
                embedder(), text, output, words, overwrite=overwrite
            ).summary
        settings = OUTPUTS.get(output.name, {"pooling": "mean"})
        return embedder().embed_file(text, output, overwrite=overwrite, **settings)


@contextmanager
def noted_checkpoints(note: Callable[[int], object]) -> Iterator[None]:
    """Call a function after each checkpoint in a block, with its number of records."""
    checkpoint = ActivationsWriter.checkpoint

    def write(writer: ActivationsWriter, point: ResumePoint) -> None:
        checkpoint(writer, point)
        if writer.settings.can_resume:
            note(point.progress.n_records)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(ActivationsWriter, "checkpoint", write)
        yield
