"""Runs that end early go on, and end as if nothing had happened."""

import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from failing_disk import kills, restore
from runs import assert_equal, assert_same_file, embed, limit_memory, stop_after
from trials import trials

from elmo_cli.embed_file import Summary
from elmo_cli.errors import ComputationError, InputError, OutputError, StoppedError
from elmo_cli.inference.encoder import SentenceEncoder

WORDS = ["a", "bank", "lent", "money", "by", "the", "river", "while", "birds", "sang"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Write forty lines, some blank, some equal."""
    choose = random.Random(1)
    lines = [" ".join(choose.choices(WORDS, k=choose.randint(0, 9))) for _ in range(38)]
    path = tmp_path / "input.txt"
    path.write_text("\n".join([*lines, lines[0], lines[1]]) + "\n", encoding="utf-8")
    return path


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
def test_a_stopped_run_resumes_and_writes_an_equal_file(
    text: Path, tmp_path: Path, name: str
) -> None:
    lines = text.read_bytes().splitlines()
    if name == "names":
        lines = [b"%d / %s" % (number, line) for number, line in enumerate(lines)]
    if name == "skipped":
        lines[1] = lines[20] = b"caf\xe9"
    if name in ("FASTA", "keys"):
        lines = [b">id%d of many\n%s" % (number, line[:9]) for number, line in enumerate(lines)]
    text.write_bytes(b"\n".join(lines))
    embed(text, tmp_path / "whole.hdf5", **RUNS[name])
    output = tmp_path / "out.hdf5"
    for n_windows in (1, 3, 1):
        with pytest.raises(StoppedError) as caught:
            embed(text, output, should_stop=stop_after(n_windows), **RUNS[name])
        assert re.fullmatch(
            r"Stopped after (line|sequence) \d+\. The same command "
            r"(starts over|resumes after (line|sequence) \d+)\.",
            str(caught.value),
        )
        assert not output.exists()
    assert embed(text, output, **RUNS[name]).resumed_from > 0
    assert_same_file(output, tmp_path / "whole.hdf5")
    assert not list(tmp_path.glob("out.hdf5.*"))


def test_a_run_killed_before_any_system_call_resumes(text: Path, tmp_path: Path) -> None:
    text.write_bytes(b"".join(text.read_bytes().splitlines(keepends=True)[:14]))
    settings: dict[str, Any] = {"state": "carry", "layout": "packed"}
    whole = tmp_path / "whole" / "out.hdf5"
    whole.parent.mkdir()
    with kills(whole.parent) as states:
        embed(text, whole, **settings)
    resumed = []
    for number, state in enumerate(states):
        folder = tmp_path / str(number)
        restore(state, folder)
        resumed.append(embed(text, folder / "out.hdf5", **settings))
        assert_same_file(folder / "out.hdf5", whole)
    assert len({summary.resumed_from for summary in resumed}) > 2
    assert any(summary.was_complete for summary in resumed)


def test_checkpoints_cut_no_batch_where_batches_matter(text: Path, tmp_path: Path) -> None:
    embed(text, tmp_path / "many", "carry")
    embed(text, tmp_path / "none", "carry", checkpoint_tokens=1_000_000)
    assert_equal(tmp_path / "many", tmp_path / "none")
    assert (tmp_path / "many").read_bytes() != (tmp_path / "none").read_bytes()


def test_a_resumed_run_logs_its_start_and_repeats_no_work(
    text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "elmo_cli")
    with pytest.raises(StoppedError, match=r"after line 9\. .* resumes after line 6\.$"):
        embed(text, tmp_path / "out.hdf5", "carry", should_stop=stop_after(3))
    shown: list[Summary] = []
    summary = embed(text, tmp_path / "out.hdf5", "carry", on_progress=shown.append)
    assert (summary.resumed_from, summary.n_sentences) == (6, 34)
    assert (shown[-1].n_sentences, shown[-1].n_tokens) == (34, summary.n_tokens)
    assert shown[-1].n_bytes == text.stat().st_size
    assert "Resumed after line 6" in caplog.messages


def test_another_input_is_refused_and_overwrite_starts_over(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.hdf5"
    with pytest.raises(StoppedError):
        embed(text, output, "carry", should_stop=stop_after(3))
    other = tmp_path / "other.txt"
    other.write_text("x" + text.read_text())
    with pytest.raises(InputError, match="different input: its first 6 lines"):
        embed(other, output, "carry")
    embed(text, tmp_path / "whole.hdf5", "carry")
    with pytest.raises(StoppedError, match=r"after line 9\."):  # The refusal lost nothing.
        embed(text, output, "carry", should_stop=stop_after(1))
    embed(text, output, "carry", overwrite=True)
    assert_same_file(output, tmp_path / "whole.hdf5")


@pytest.mark.parametrize("state", ["zero", "carry"])
@pytest.mark.parametrize(
    ("line", "has_names", "message"),
    [
        (b"caf\xe9", False, "line 5, column 4: not valid UTF-8"),
        (b"a b", True, "line 5: the sentence 'a b' cannot name"),  # It is the first line too.
    ],
)
def test_a_faulty_line_keeps_the_last_checkpoint(
    tmp_path: Path, state: str, line: bytes, has_names: bool, message: str
) -> None:
    text, output = tmp_path / "text", tmp_path / "out.hdf5"
    settings: dict[str, Any] = {"use_sentence_keys": has_names, "checkpoint_tokens": 1}
    text.write_bytes(b"a b\nc d\ne f\ng h\n%s\ni j\n" % line)
    with pytest.raises(InputError, match=message):
        embed(text, output, state, **settings)
    text.write_text("a b\nc d\ne f\ng h\nk l\ni j\n")
    # Carried states are kept after whole batches of three.
    assert embed(text, output, state, **settings).resumed_from == (3 if state == "carry" else 4)
    embed(text, tmp_path / "whole.hdf5", state, **settings)
    assert_same_file(output, tmp_path / "whole.hdf5")


@pytest.mark.parametrize("state", ["zero", "carry"])
def test_a_device_that_fails_keeps_the_last_checkpoint(
    text: Path, tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed(text, tmp_path / "whole.hdf5", state)
    output = tmp_path / "out.hdf5"
    original = SentenceEncoder.run_from
    calls = iter(range(1_000_000))

    def lost(self: SentenceEncoder, *arguments: Any) -> Any:
        if next(calls) == 12:
            raise RuntimeError("CUDA error: the launch failed\nPages follow.")
        return original(self, *arguments)

    monkeypatch.setattr(SentenceEncoder, "run_from", lost)
    with pytest.raises(ComputationError) as caught:
        embed(text, output, state)
    assert re.fullmatch(
        r"the computation failed after line \d+: CUDA error: the launch failed\. "
        r"The same command resumes after line \d+\.",
        str(caught.value),
    )
    assert not output.exists()
    assert Path(f"{output}.partial.log").exists()
    embed(text, output, state)
    assert_same_file(output, tmp_path / "whole.hdf5")


def test_a_line_too_long_for_memory_keeps_the_last_checkpoint(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(text, "a") as file:
        file.write("word " * 50 + "\nafter it\n")
    embed(text, tmp_path / "whole.hdf5")
    output = tmp_path / "out.hdf5"
    with monkeypatch.context() as patch:
        limit_memory(patch, 40)
        with pytest.raises(
            ComputationError, match=r"^line 41: out of memory: .* 9 bytes\. Shorten it, or"
        ):
            embed(text, output)
    summary = embed(text, output)
    assert (summary.resumed_from, summary.n_tokens) == (36, 60)
    assert_same_file(output, tmp_path / "whole.hdf5")


def test_two_runs_cannot_write_the_same_output(text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.hdf5"

    def second() -> bool:
        with pytest.raises(OutputError, match="another process is writing it"):
            embed(text, output)
        return False

    embed(text, output, should_stop=second)
    assert output.exists()


def _embed_in_child(
    text: Path, output: Path, settings: dict[str, Any], seconds: float = 0.0
) -> None:
    """Embed with one thread, and be killed after seconds of processor time if they are not zero."""
    import torch

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
        child = forks.Process(target=_embed_in_child, args=(text, output, settings, seconds))
        child.start()
        child.join()
        assert child.exitcode in (0, -signal.SIGPROF)
        return bool(child.exitcode)

    started = time.process_time()
    # By as many threads as the children: carried states let roundings grow.
    _embed_in_child(text, tmp_path / "whole.hdf5", settings)
    most = 2 * (time.process_time() - started)
    n_kills, were_kept = 0, []
    for turn, choose in enumerate(trials(f"kills of a run, {settings}", 8)):
        output = tmp_path / f"out{turn}.hdf5"
        while not output.exists():
            n_kills += embed_in_child(output, choose.uniform(1e-6, most))
            were_kept.append(Path(f"{output}.partial.log").exists())
        # The same command again; a kill may have come before the log of a finished run was removed.
        embed_in_child(output, 0.0)
        assert_same_file(output, tmp_path / "whole.hdf5")
        assert not list(tmp_path.glob(f"{output.name}.*"))
    print(f"{n_kills} kills")  # noqa: T201
    assert any(were_kept)
