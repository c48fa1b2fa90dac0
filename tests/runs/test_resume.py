"""Runs that end early go on as if nothing had happened; bad records are skipped."""

import json
import logging
import random
import re
import signal
import time
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from elmo_cli import open_activations
from elmo_cli.errors.exceptions import (
    ComputationError,
    InputError,
    OutputError,
    StoppedError,
)
from elmo_cli.inference.encoder import SentenceEncoder
from elmo_cli.runs.file_sink import Summary
from tests.support.commands import TINY, elmo
from tests.support.failing_disk import kills, restore
from tests.support.runs import (
    assert_equal,
    assert_same_file,
    embed,
    limit_memory,
    stop_after,
)
from tests.support.trials import trials

WORDS = ["a", "bank", "lent", "money", "by", "the", "river", "while", "birds", "sang"]


@pytest.fixture
def text(folder: Path) -> Path:
    """Write forty lines, some blank, some equal, into the current folder."""
    choose = random.Random(1)
    lines = [" ".join(choose.choices(WORDS, k=choose.randint(0, 9))) for _ in range(38)]
    path = folder / "input.txt"
    path.write_text("\n".join([*lines, lines[0], lines[1]]) + "\n", encoding="utf-8")
    return path


def assert_whole(text: Path, output: str, *state: str, **settings: Any) -> None:
    """Assert that an output is the one of a run that did not end early."""
    embed(text, "whole.hdf5", *state, **settings)
    assert_same_file(output, "whole.hdf5")


RUNS: dict[str, dict[str, Any]] = {
    "zero": {},
    "carry": {"state": "carry"},
    "carry, packed": {"state": "carry", "layout": "packed"},
    "warm": {"state": "warm", "layout": "packed", "compression": "zstd"},
    "gzip": {"compression": "gzip", "output_format": "top"},
    "names": {"use_sentence_keys": True},
    "no names": {"forget_sentences": True, "dtype": "float16"},
    "pooled": {"pooling": "mean", "layout": "packed"},
    "tokens": {"tokenizer": "moses"},
    "shard": {"shard": "2/3"},
    "skipped": {"skip_errors": True},
    "FASTA": {"input_format": "fasta", "layout": "packed", "compression": "gzip"},
    "keys": {"input_format": "fasta"},
}


@pytest.mark.parametrize("name", RUNS)
def test_a_stopped_run_resumes_and_writes_an_equal_file(text: Path, name: str) -> None:
    lines = text.read_bytes().splitlines()
    if name == "names":
        lines = [b"%d / %s" % (index, line) for index, line in enumerate(lines)]
    if name == "skipped":
        lines[1] = b"caf\xe9"
        lines[20] = b"caf\xe9"
    if name in ("FASTA", "keys"):
        lines = [
            b">id%d of many\n%s" % (index, line[:9]) for index, line in enumerate(lines)
        ]
    text.write_bytes(b"\n".join(lines))
    for n_windows in (1, 3, 1):
        with pytest.raises(StoppedError) as caught:
            embed(text, "out.hdf5", should_stop=stop_after(n_windows), **RUNS[name])
        assert re.fullmatch(
            r"Stopped after (line|sequence) \d+(, before the first .* tokens)?\. "
            r"The same command "
            r"(starts over|resumes after (line|sequence) \d+)\.",
            str(caught.value),
        )
        assert not Path("out.hdf5").exists()
    assert embed(text, "out.hdf5", **RUNS[name]).resumed_from > 0
    assert_whole(text, "out.hdf5", **RUNS[name])
    assert not list(Path().glob("out.hdf5.*"))


def test_a_run_killed_before_any_system_call_resumes(text: Path) -> None:
    text.write_bytes(b"".join(text.read_bytes().splitlines(keepends=True)[:14]))
    settings: dict[str, Any] = {"state": "carry", "layout": "packed"}
    Path("whole").mkdir()
    with kills(Path("whole")) as states:
        embed(text, "whole/out.hdf5", **settings)
    resumed = []
    for index, state in enumerate(states):
        restore(state, Path(f"{index}"))
        resumed.append(embed(text, f"{index}/out.hdf5", **settings))
        assert_same_file(f"{index}/out.hdf5", "whole/out.hdf5")
    assert len({summary.resumed_from for summary in resumed}) > 2
    assert any(summary.was_complete for summary in resumed)


def test_checkpoints_cut_no_batch_where_batches_matter(text: Path) -> None:
    embed(text, "many", "carry")
    embed(text, "none", "carry", checkpoint_tokens=1_000_000)
    assert_equal("many", "none")
    assert Path("many").read_bytes() != Path("none").read_bytes()


def test_a_resumed_run_logs_its_start_and_repeats_no_work(
    text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "elmo_cli")
    with pytest.raises(
        StoppedError, match=r"after line 9\. .* resumes after line 6\.$"
    ):
        embed(text, "out.hdf5", "carry", should_stop=stop_after(3))
    shown: list[Summary] = []
    summary = embed(text, "out.hdf5", "carry", on_progress=shown.append)
    assert summary.resumed_from == 6
    assert summary.n_records == 34
    assert shown[-1].n_records == 34
    assert shown[-1].n_tokens == summary.n_tokens
    assert shown[-1].n_bytes == text.stat().st_size
    assert "Resumed after line 6" in caplog.messages


@pytest.mark.parametrize("command", ["embed", "occurrences"])
def test_the_summary_of_a_resumed_run_counts_the_whole_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    Path("in.txt").write_text("The cat sat\n" * 100 + "a dog ran\n" * 400)
    Path("words.txt").write_text("cat\n")
    arguments = [command, "in.txt", "out.hdf5", "--model", TINY, "--batch-tokens", 8]
    if command == "occurrences":
        arguments += ["--words", "words.txt"]
    monkeypatch.setattr("elmo_cli.runs.embed_file.checkpoint_tokens", lambda _: 12)
    with monkeypatch.context() as stopping:
        stopping.setattr(
            f"elmo_cli.cli.commands.{command}.stop_on_signal",
            lambda: nullcontext(stop_after(20)),
        )
        stopped = elmo(*map(str, arguments))
    found = re.search(r"The same command resumes after line (\d+)\.", stopped.stderr)
    assert found is not None
    n_earlier = int(found[1])
    assert 0 < n_earlier < 100
    last = elmo(*map(str, arguments)).stderr.splitlines()[-1]
    if command == "embed":
        n_tokens = 3 * (500 - n_earlier)
        assert last.startswith(
            f"Wrote out.hdf5: 500 sentences, {n_earlier} of them in an earlier run, "
            f"{n_tokens:,} tokens in this run"
        )
    else:
        assert last == (
            f"Wrote out.hdf5: 100 occurrences in 500 lines, {n_earlier} of which were "
            "read in an earlier run"
        )


def test_another_input_is_refused_and_overwrite_starts_over(text: Path) -> None:
    with pytest.raises(StoppedError):
        embed(text, "out.hdf5", "carry", should_stop=stop_after(3))
    Path("other.txt").write_text("x" + text.read_text())
    with pytest.raises(InputError, match="another input, whose first 6 lines"):
        embed("other.txt", "out.hdf5", "carry")
    # The refusal lost nothing.
    with pytest.raises(StoppedError, match=r"after line 9\."):
        embed(text, "out.hdf5", "carry", should_stop=stop_after(1))
    embed(text, "out.hdf5", "carry", overwrite=True)
    assert_whole(text, "out.hdf5", "carry")


@pytest.mark.parametrize("state", ["zero", "carry"])
@pytest.mark.parametrize(
    ("line", "has_names", "message"),
    [
        (b"caf\xe9", False, "line 5, column 4: not valid UTF-8"),
        # It is the first line too.
        (
            b"a b",
            True,
            "line 5: the sentence 'a b' cannot name",
        ),
    ],
)
def test_a_faulty_line_keeps_the_last_checkpoint(
    text: Path, state: str, line: bytes, has_names: bool, message: str
) -> None:
    settings: dict[str, Any] = {"use_sentence_keys": has_names, "checkpoint_tokens": 1}
    text.write_bytes(b"a b\nc d\ne f\ng h\n%s\ni j\n" % line)
    with pytest.raises(InputError, match=message):
        embed(text, "out.hdf5", state, **settings)
    text.write_text("a b\nc d\ne f\ng h\nk l\ni j\n")
    # Carried states are kept after whole batches of three.
    n_kept = 3 if state == "carry" else 4
    assert embed(text, "out.hdf5", state, **settings).resumed_from == n_kept
    assert_whole(text, "out.hdf5", state, **settings)


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_a_device_that_fails_keeps_the_last_checkpoint(
    text: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = SentenceEncoder.run_from
    calls = count()

    def lost(self: SentenceEncoder, *arguments: Any) -> Any:
        if next(calls) == 12:
            raise RuntimeError("CUDA error: the launch failed\nPages follow.")
        return original(self, *arguments)

    monkeypatch.setattr(SentenceEncoder, "run_from", lost)
    with pytest.raises(ComputationError) as caught:
        embed(text, "out.hdf5", state)
    assert re.fullmatch(
        r"the computation failed after line \d+: CUDA error: the launch failed\. "
        r"The same command resumes after line \d+\.",
        str(caught.value),
    )
    assert not Path("out.hdf5").exists()
    assert Path("out.hdf5.partial.log").exists()
    embed(text, "out.hdf5", state)
    assert_whole(text, "out.hdf5", state)


def test_a_line_too_long_for_memory_keeps_the_last_checkpoint(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with text.open("a") as file:
        file.write("word " * 50 + "\nafter it\n")
    with monkeypatch.context() as patch:
        limit_memory(patch, 40)
        with pytest.raises(
            ComputationError, match=r"^line 41: out of memory: .*\. Shorten it, or"
        ):
            embed(text, "out.hdf5")
    summary = embed(text, "out.hdf5")
    assert summary.resumed_from == 36
    assert summary.n_tokens == 60
    assert_whole(text, "out.hdf5")


def test_a_lock_that_a_kill_left_beside_a_complete_output_is_removed(
    text: Path,
) -> None:
    embed(text, "out.hdf5")
    lock = Path("out.hdf5.partial.lock")
    lock.touch()
    embed(text, "out.hdf5")
    assert not lock.exists()
    assert_whole(text, "out.hdf5")


def test_two_runs_cannot_write_the_same_output(text: Path) -> None:
    def second() -> bool:
        with pytest.raises(OutputError, match="another process is writing it"):
            embed(text, "out.hdf5")
        return False

    embed(text, "out.hdf5", should_stop=second)
    assert Path("out.hdf5").exists()


# Records that are skipped


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_skipped_lines_get_an_empty_dataset_and_an_attribute(
    layout: str, text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text.write_bytes(b"a b\ncaf\xe9 x\n\nc\n\xff\n")
    embed(text, "out", layout=layout, skip_errors=True)
    remedy = (
        "If it is Windows-1252 or Latin-1, convert it with `iconv -f windows-1252 -t "
        f"utf-8 {text} > {text.with_suffix('.utf8.txt')}`."
    )
    faults = {
        "1": f"{text}, line 2, column 4: not valid UTF-8 (byte 0xe9). {remedy}",
        "4": f"{text}, line 5, column 1: not valid UTF-8 (byte 0xff). {remedy}",
    }
    with open_activations("out") as activations:
        assert [values.shape[1] for values in activations] == [2, 0, 0, 1, 0]
        assert json.loads(activations.attributes["skipped"]) == faults
    logged = [
        record.message for record in caplog.records if record.levelno == logging.WARNING
    ]
    assert logged == [f"Skipped: {fault}" for fault in faults.values()]


def test_a_line_too_long_for_memory_is_skipped(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 40)
    text.write_text("a\n" + "b " * 50 + "\nc\n")
    embed(text, "out", skip_errors=True)
    with open_activations("out") as activations:
        assert [values.shape[1] for values in activations] == [1, 0, 1]
        skipped = json.loads(activations.attributes["skipped"])
    assert skipped == {"1": "line 2: out of memory: can't allocate memory: 9 bytes"}


def test_skipped_sequences_with_a_valid_id_get_a_dataset(folder: Path) -> None:
    Path("a.fasta").write_bytes(b">a\nMV\n>b x\nM\xffL\n>a\nM\n>x/y\nM\n>c\nK\n")
    embed("a.fasta", "out", skip_errors=True)
    with h5py.File("out") as file:
        shapes = {name: values.shape for name, values in file.items()}
        skipped = json.loads(file.attrs["skipped"])
        assert file.attrs["records"] == "3"
        assert file.attrs["input_records"] == "5"
    assert shapes == {"a": (3, 2, 32), "b": (3, 0, 32), "c": (3, 1, 32)}
    starts = {
        "b": "line 4, column 2: not valid UTF-8",
        "sequence 3": "line 5: the id 'a' is also in line 1, but ids name the datasets",
        "sequence 4": "line 7: the id 'x/y' cannot name",
    }
    assert skipped.keys() == starts.keys()
    assert all(
        skipped[name].startswith(f"a.fasta, {start}") for name, start in starts.items()
    )


def test_only_the_first_skipped_records_are_shown(
    text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text.write_bytes(b"\xff\n" * 3000)
    embed(text, "out", skip_errors=True)
    with open_activations("out") as activations:
        assert len(json.loads(activations.attributes["skipped"])) == 3000
    logged = [message for message in caplog.messages if message.startswith("Skipped")]
    assert len(logged) == 21
    assert logged[-1] == "Skipped 3,000 lines in all"


# Kills at random moments


def _embed_in_child(
    text: Path, output: Path, settings: dict[str, Any], seconds: float = 0.0
) -> None:
    """Embed with one thread, and be killed after seconds of processor time, if any."""
    torch.set_num_threads(1)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # Its default kills at once.
    embed(text, output, **settings)


@pytest.mark.long
@pytest.mark.parametrize("settings", [{"layout": "packed"}, {"state": "carry"}])
def test_kills_at_random_moments_lose_nothing(
    forks: Any, text: Path, tmp_path: Path, settings: dict[str, Any]
) -> None:
    def embed_in_child(output: Path, seconds: float) -> bool:
        """Return whether the child was killed."""
        child = forks.Process(
            target=_embed_in_child, args=(text, output, settings, seconds)
        )
        child.start()
        child.join()
        assert child.exitcode in (0, -signal.SIGPROF)
        return bool(child.exitcode)

    # By as many threads as the children: carried states let roundings grow.
    _embed_in_child(text, tmp_path / "whole.hdf5", settings)
    # The first run in a process can take several times as long.
    started = time.process_time()
    _embed_in_child(text, tmp_path / "again.hdf5", settings)
    most = 2 * (time.process_time() - started)
    n_kills = 0
    were_kept = []
    for turn, choose in enumerate(trials(f"kills of a run, {settings}", 8)):
        output = tmp_path / f"out{turn}.hdf5"
        while not output.exists():
            n_kills += embed_in_child(output, choose.uniform(1e-6, most))
            were_kept.append(Path(f"{output}.partial.log").exists())
        # The same command again; a kill may have come before the log of a finished run
        # was removed.
        embed_in_child(output, 0.0)
        assert_same_file(output, tmp_path / "whole.hdf5")
        assert not list(tmp_path.glob(f"{output.name}.*"))
    print(f"{n_kills} kills")  # noqa: T201
    assert any(were_kept)
