"""Records without text, whose pooled vectors are zeros."""

from pathlib import Path
from typing import Any

import pytest
from commands import TINY, elmo
from runs import embed, stop_after

from elmo_cli.errors import StoppedError

TEXT = "The cat sat\n\n\nthe bank\n   \nof a river\n" * 2


@pytest.mark.parametrize(
    ("name", "settings", "warnings"),
    [
        ("out.hdf5", {}, []),
        ("out.hdf5", {"pooling": "mean"}, ["6 lines without text, whose vectors are zeros"]),
        ("out.parquet", {}, ["6 lines without text"]),
        ("out.jsonl", {"rows": "tokens"}, ["6 lines without text"]),
        ("out.npy", {"pooling": "max"}, ["6 lines without text, whose vectors are zeros"]),
    ],
)
def test_records_without_text_are_counted(
    name: str,
    settings: dict[str, Any],
    warnings: list[str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "text").write_text(TEXT)
    embed(tmp_path / "text", tmp_path / name, **settings)
    found = [message for message in caplog.messages if "without text" in message]
    assert found == [f"Warning: {warning}" for warning in warnings]


def test_a_resumed_run_counts_all_records_without_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text").write_text(TEXT)
    settings: dict[str, Any] = {"pooling": "mean", "checkpoint_tokens": 1}
    with pytest.raises(StoppedError):
        embed(tmp_path / "text", tmp_path / "out", should_stop=stop_after(4), **settings)
    assert embed(tmp_path / "text", tmp_path / "out", **settings).resumed_from > 0
    assert "Warning: 6 lines without text, whose vectors are zeros" in caplog.messages


def test_null_texts_of_a_table_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text('{"text": null}\n{"text": "a bank"}\n{"text": ""}\n')
    command = ("t.jsonl", "out.parquet", "--pooling", "mean", "--model", TINY)
    result = elmo("embed", *command)
    assert "Warning: 2 records without text, whose vectors are zeros" in result.stderr
    result = elmo("distribute", "t.jsonl", "f", "--engine", "none", "--model", TINY)
    assert "Warning: 2 records without text\n" in result.stderr
