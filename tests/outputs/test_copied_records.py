"""Merging and converting go on where they were stopped, and only over the same records."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import TINY, assert_fails, elmo
from conftest import GOLDEN
from numpy.testing import assert_array_equal

from elmo_cli import open_activations
from elmo_cli.errors import OutputError, StoppedError
from elmo_cli.outputs.checkpoint_log import decode_log
from elmo_cli.outputs.convert_activations import convert_activations
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.text.lines import Record, line_record

TEXT = "The cat sat\n\na bank\nthe river bank\na bank\nbirds sang\nx y\n"
OFTEN = "elmo_cli.outputs.copied_records.CHECKPOINT_SECONDS"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a text and activations in both layouts."""
    monkeypatch.chdir(tmp_path)
    Path("text").write_text(TEXT)
    for layout in ("allennlp", "packed"):
        write_lines(layout, TEXT.splitlines(), layout=layout)
    return tmp_path


def write_lines(path: str, lines: Iterable[str], layer: str = "top", **settings: Any) -> None:
    """Write pooled activations of lines."""
    attributes = {"layers": layer, "format": "text", "pooling": "mean"}
    with ActivationsWriter(path, attributes, **settings) as writer:
        for number, line in enumerate(lines):
            writer.write(line_record(line), np.full(5, number / 3, np.float32))


def assert_same(found: Path, expected: Path) -> None:
    """The same bytes, or in HDF5 the same records and attributes."""
    if expected.suffix not in (".hdf5", ".npz"):
        assert found.read_bytes() == expected.read_bytes()
        return
    if expected.suffix == ".npz":
        with np.load(found) as one, np.load(expected) as other:
            assert list(one) == list(other)
            assert all((one[name] == other[name]).all() for name in other)
        return
    with open_activations(found) as one, open_activations(expected) as other:
        assert one.attributes == other.attributes
        assert len(one) == len(other)
        for (record, values), (known, theirs) in zip(one.records(), other.records(), strict=True):
            assert record == known
            assert_array_equal(values, theirs)


class _Killed(BaseException):
    """What a kill is to the code that it ends."""


@pytest.mark.parametrize(("source", "is_killed"), [("packed", False), ("allennlp", True)])
@pytest.mark.parametrize(
    ("suffix", "settings"),
    [
        ("hdf5", {"layout": "allennlp"}),
        ("hdf5", {"layout": "packed", "dtype": "float16"}),
        ("hdf5", {"layout": "packed", "compression": "gzip"}),
        *((suffix, {}) for suffix in ("jsonl", "tsv", "npz", "npy", "safetensors", "parquet")),
    ],
)
def test_a_conversion_goes_on_where_it_was_stopped(
    suffix: str,
    settings: dict[str, Any],
    source: str,
    is_killed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OFTEN, 0)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # no power is cut here
    made, whole = Path(f"made.{suffix}"), Path(f"whole.{suffix}")
    convert_activations(source, whole, **settings)
    written: list[str] = []
    write = ActivationsWriter.write
    stops = [2, 4]  # after so many records that are written

    def note(writer: ActivationsWriter, record: Record, values: Any) -> None:
        written.append(record.text)
        write(writer, record, values)
        if is_killed and len(written) in stops:
            raise _Killed

    monkeypatch.setattr(ActivationsWriter, "write", note)
    for n_written in stops:

        def should_stop(n_written: int = n_written) -> bool:
            return len(written) == n_written

        with pytest.raises((StoppedError, _Killed)) as stopped:
            convert_activations(source, made, **settings, should_stop=should_stop)
        kept = (
            f"Stopped after record {n_written}, which is kept with all before it in {made}.partia"
        )
        assert is_killed or str(stopped.value).startswith(kept)
        assert not made.exists()
    assert convert_activations(source, made, **settings).n_records == 7
    assert_same(made, whole)
    assert len(written) == 7 + (len(stops) if is_killed else 0)  # each before its checkpoint
    assert not list(Path().glob("*.partial*"))


def test_a_conversion_killed_in_its_last_step_does_only_that_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    convert_activations("packed", "whole.npy")
    with monkeypatch.context() as patched:

        def die(*arguments: Any) -> None:
            raise _Killed

        patched.setattr("elmo_cli.outputs.writer.export", die)
        with pytest.raises(_Killed):
            convert_activations("packed", "made.npy")
    assert not Path("made.npy").exists()
    monkeypatch.setattr(ActivationsWriter, "write", None)
    assert convert_activations("packed", "made.npy").n_records == 7
    assert_same(Path("made.npy"), Path("whole.npy"))
    assert not list(Path().glob("*.partial*"))


def stop_at_once(source: str, target: str) -> None:
    with pytest.raises(StoppedError):
        convert_activations(source, target, should_stop=lambda: True)


def test_a_source_that_has_changed_is_refused_by_name(tmp_path: Path) -> None:
    theirs = GOLDEN / "relu" / "allennlp-all.hdf5"  # without a word of its making
    shutil.copy(theirs, "source")
    stop_at_once("source", "made.jsonl")
    os.utime("source")
    message = (
        "made.jsonl.partial is of an unfinished run over something else than source, or that has "
        "changed since; --overwrite starts anew"
    )
    assert_fails(elmo("convert", "source", "made.jsonl"), message)
    assert decode_log(Path("made.jsonl.partial.log")) is not None  # the refusal lost nothing
    assert elmo("convert", "source", "made.jsonl", "--overwrite").exit_code == 0
    convert_activations(theirs, "whole.jsonl")
    assert_same(Path("made.jsonl"), Path("whole.jsonl"))


def test_a_source_of_another_run_and_other_settings_are_refused_by_name() -> None:
    stop_at_once("packed", "made.hdf5")
    with pytest.raises(
        OutputError, match=r"^made.hdf5.partial .* differs in dtype \(float32 there"
    ):
        convert_activations("packed", "made.hdf5", "float16")
    write_lines("packed", TEXT.splitlines(), "1", layout="packed", overwrite=True)
    with pytest.raises(OutputError, match=r"^made.hdf5.partial .* in layers \(top there, 1 here\)"):
        convert_activations("packed", "made.hdf5")
    convert_activations("packed", "made.hdf5", overwrite=True)
    assert_same(Path("made.hdf5"), Path("packed").rename("packed.hdf5"))


def test_overwrite_goes_on_with_what_is_of_the_same_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("made.hdf5").write_text("old")
    with pytest.raises(StoppedError):
        convert_activations("packed", "made.hdf5", overwrite=True, should_stop=lambda: True)
    assert Path("made.hdf5").read_text() == "old"
    written = []
    write = ActivationsWriter.write

    def note(writer: ActivationsWriter, record: Record, values: Any) -> None:
        written.append(record)
        write(writer, record, values)

    monkeypatch.setattr(ActivationsWriter, "write", note)
    convert_activations("packed", "made.hdf5", overwrite=True)
    assert len(written) == 6
    assert_same(Path("made.hdf5"), Path("packed").rename("packed.hdf5"))


def test_what_a_conversion_has_begun_is_of_no_run_over_a_text() -> None:
    stop_at_once("packed", "made.jsonl")
    options = ("--model", TINY, "--pooling", "mean", "--layers", "top")
    result = elmo("embed", "text", "made.jsonl", *options)
    assert result.exit_code == 1
    assert "Error: made.jsonl.partial is of an unfinished run that differs in " in result.stderr


@pytest.mark.parametrize("command", ["merge", "convert"])
def test_ctrl_c_stops_at_a_record_and_says_how_to_go_on(
    command: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (1, 2):
        elmo("embed", "text", f"s{number}", "--shard", f"{number}/2", "--model", TINY)
    sources = ("allennlp", "made.hdf5") if command == "convert" else ("made.hdf5", "s1", "s2")
    write, skip = ActivationsWriter.write, ActivationsWriter.skip

    def write_and_signal(writer: ActivationsWriter, record: Record, values: Any) -> None:
        write(writer, record, values)
        if writer.n_records == 3:
            os.kill(os.getpid(), signal.SIGINT)

    def skip_and_signal(writer: ActivationsWriter, record: Record) -> None:
        skip(writer, record)
        os.kill(os.getpid(), signal.SIGTERM)

    messages = (
        "Stopping after this record; once more stops at once.\n"
        "Stopped after record 3, which is kept with all before it in made.hdf5.partial; the same "
        "command goes on from there\n"
    )
    with monkeypatch.context() as patched:
        patched.setattr(ActivationsWriter, "write", write_and_signal)
        result = elmo(command, *sources)
        assert (result.exit_code, result.stdout, result.stderr) == (130, "", messages)
    with monkeypatch.context() as patched:  # among the records that are there already
        patched.setattr(ActivationsWriter, "skip", skip_and_signal)
        result = elmo(command, *sources)
        assert (result.exit_code, result.stderr) == (130, messages)
    assert not Path("made.hdf5").exists()
    result = elmo(command, *sources)
    assert result.exit_code == 0
    assert "7 records" in result.stderr
    assert caplog.messages[-2:] == ["Going on after record 3"] * 2


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_kills_at_random_moments_lose_nothing_of_a_conversion(layout: str) -> None:
    write_lines("source", (f"line {number % 300}" for number in range(1000)))
    often = (
        "import elmo_cli.outputs.copied_records as copied; copied.CHECKPOINT_SECONDS = 0.02; "
        "from elmo_cli.cli import main; main()"
    )
    command = [sys.executable, "-c", often, "convert", "source", "made.hdf5", "--layout", layout]
    kept = [0]
    for _ in range(2):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            time.sleep(0.01)
            found = decode_log(Path("made.hdf5.partial.log"))
            if found is not None and found[1]["n_records"] > kept[-1]:
                time.sleep(random.random() / 20)
                process.kill()
                process.wait()
        found = decode_log(Path("made.hdf5.partial.log"))
        if found is None:
            break  # it came to its end
        assert found[1]["n_records"] >= kept[-1]
        kept.append(found[1]["n_records"])
    assert len(kept) > 1
    convert_activations("source", "made.hdf5", layout=layout, overwrite=True)
    convert_activations("source", "whole.hdf5", layout=layout)
    assert_same(Path("made.hdf5"), Path("whole.hdf5"))
