"""`elmo distribute --engine none`: equal to `elmo embed`, whatever ends it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow
import pytest
from commands import TINY, assert_misused, elmo, start_elmo
from distributed_runs import assert_equal_to_embed
from numpy.testing import assert_array_equal
from pyarrow import parquet

from elmo_cli import ActivationsDataset, open_activations
from elmo_cli.distributed import run
from elmo_cli.distributed.batches import EmbedBatch
from elmo_cli.distributed.folder import Folder
from elmo_cli.distributed.part import PartWorker
from elmo_cli.distributed.plan import Settings, open_plan
from elmo_cli.errors import InputError
from elmo_cli.text.records import Shard

LINES = "".join(f"The cat {i} sat\n\n" for i in range(20))
RUN = ("distribute", "text.txt", "out", "--engine", "none", "--part-size", "2k", "--model", TINY)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a text, where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(LINES)
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--layers", "average", "--dtype", "float16"),
        ("--layers", "0,2", "--pooling", "mean"),
        ("--mix", "1,2,3", "--gamma", "2", "--pooling", "max", "--state", "warm"),
    ],
)
def test_a_folder_holds_what_a_file_of_embed_holds(options: tuple[str, ...]) -> None:
    result = elmo(*RUN, *options)
    assert (result.exit_code, result.stdout) == (0, "")
    assert len(Folder("out").parts()) > 2
    assert_equal_to_embed(*options)


def test_a_folder_is_read_by_number_sentence_and_by_other_programs() -> None:
    assert elmo(*RUN).exit_code == 0
    with open_activations("out") as found:
        assert found.sentence(4) == "The cat 2 sat"
        assert found.number_of("The cat 2 sat") == 4
        assert "no such" not in found
        assert "" not in found
        records = [record for record, _ in found.records()]
        assert records[4].tokens == ["The", "cat", "2", "sat"]
        assert found.attributes["tokens"] == "80"
    assert ActivationsDataset("out")[4].shape == (3, 4, 32)
    table = parquet.read_table("out")
    assert table.column("number").to_pylist() == list(range(40))
    assert table.column_names == ["number", "sentence", "tokens", "activations"]


def test_fasta_and_columns_keep_their_keys() -> None:
    fasta = "".join(f">id{i} of it\nMV\nls{'k' * i}\n" for i in range(6))
    Path("text.fasta").write_text(fasta)
    assert elmo(*RUN[:1], "text.fasta", *RUN[2:]).exit_code == 0
    assert_equal_to_embed(source="text.fasta")
    rows = [{"body": f"The cat {i}", "id": i} for i in range(6)]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    columns = ("--text-column", "body", "--key-column", "id", "--overwrite")
    assert elmo(*RUN[:1], "rows.jsonl", *RUN[2:], *columns).exit_code == 0
    with open_activations("out") as found:
        assert (found.key(3), found.sentence(3)) == ("3", "The cat 3")
        assert_array_equal(found["3"], found[3])


def test_numbers_go_on_from_file_to_file_and_an_empty_one_has_none() -> None:
    Path("b.txt").write_text("b")
    Path("empty.txt").touch()
    assert elmo("distribute", "b.txt", "empty.txt", "text.txt", *RUN[2:]).exit_code == 0
    with open_activations("out") as found:
        assert [found.sentence(number) for number in (0, 1, 3)] == [
            "b",
            "The cat 0 sat",
            "The cat 1 sat",
        ]
    assert elmo("distribute", "empty.txt", "none", *RUN[3:]).exit_code == 0
    with open_activations("none") as found:
        assert len(found) == 0


def test_shards_share_the_parts_out_and_the_last_one_completes_the_folder() -> None:
    assert elmo(*RUN, "--shard", "2/2").exit_code == 0
    with pytest.raises(InputError, match="the folder is not complete: 6 of 11 parts are missing"):
        open_activations("out")
    assert elmo(*RUN, "--shard", "1/2").exit_code == 0
    assert_equal_to_embed()


def test_the_same_command_does_only_what_is_missing() -> None:
    assert elmo(*RUN).exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in Path("out").glob("*.parquet")}
    lost = min(before)
    lost.unlink()
    assert elmo(*RUN).exit_code == 0
    after = {path: path.stat().st_mtime_ns for path in Path("out").glob("*.parquet")}
    assert [path for path in before if before[path] != after[path]] == [lost]


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (("--layers", "top"), "layers (all there, top here)"),
        (("--dtype", "float16"), "dtype (float32 there, float16 here)"),
        (("--state", "warm"), "state (zero there, warm here)"),
    ],
)
def test_other_settings_are_refused_by_name(options: tuple[str, ...], difference: str) -> None:
    assert elmo(*RUN).exit_code == 0
    result = elmo(*RUN, *options)
    assert result.exit_code == 1
    assert f"out is of a run that differs in {difference}; --overwrite starts anew" in result.stderr
    assert elmo(*RUN, *options, "--overwrite").exit_code == 0
    assert_equal_to_embed(*options)


def test_another_input_another_model_and_other_files_are_refused() -> None:
    assert elmo(*RUN).exit_code == 0
    Path("text.txt").write_text("else")
    assert re.search(r"differs in the inputs \(.*/text.txt\)", elmo(*RUN).stderr)
    assert elmo(*RUN, "--overwrite").exit_code == 0
    folder, settings = Folder("out"), Settings(model=str(TINY))
    plan = open_plan(folder, ("text.txt",), settings)
    Path("out/part-00000000.parquet").unlink()
    result = PartWorker(folder.location, "0" * 64, settings)(plan.parts[0])
    assert result.ends_run
    assert "expected the weights of the plan, SHA-256 000000000000..., found" in str(result.error)
    Path("mine").mkdir()
    Path("mine/file").touch()
    result_of_mine = elmo(*RUN[:2], "mine", *RUN[3:], "--overwrite")
    assert "expected a folder of `elmo distribute`, or an empty one" in result_of_mine.stderr
    assert Path("mine/file").exists()


def test_a_line_that_is_not_utf8_leaves_its_part_out_and_names_it() -> None:
    Path("text.txt").write_bytes(LINES.encode() + b"bad \xff\n")
    result = elmo(*RUN)
    assert result.exit_code == 1
    assert "text.txt, line 41, column 5: expected UTF-8" in result.stderr
    assert result.stderr.endswith("out: 1 part missing; the same command tries again\n")
    status = elmo("distribute", "--status", "out")
    assert (status.exit_code, status.stderr) == (0, "")
    assert "out: 10 of 11 parts, 0 runs at work" in status.stdout
    assert "line 41, column 5" in status.stdout
    assert elmo(*RUN, "--skip-errors", "--overwrite").exit_code == 0
    with open_activations("out") as found:
        assert found[40].shape == (3, 0, 32)


def test_a_part_that_ends_every_worker_is_left_out() -> None:
    folder, settings = Folder("out"), Settings(model=str(TINY))
    plan = open_plan(folder, ("text.txt",), settings, part_bytes=2000)
    for _ in range(2):
        folder.begin(3)
    worker = PartWorker(folder.location, plan.model_sha256, settings, attempts=2)
    results = [worker(part) for part in plan.parts]
    assert [result.number for result in results if result.error] == [3]
    assert "records from 12 to 15): ended 2 workers; it is left out" in str(results[3].error)


def test_a_folder_that_cannot_be_written_ends_the_run_in_one_line() -> None:
    Path("out").touch()
    result = elmo(*RUN)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 2
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000)); "
        "from elmo_cli.cli import main; main()"
    )
    command = [sys.executable, "-c", limited, *map(str, RUN[:2]), "full", *map(str, RUN[3:])]
    command += ["--part-size", "40k"]
    full = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert full.returncode == 1
    assert b"File too large; raise the limit on the size of files" in full.stderr
    assert len(full.stderr.splitlines()) == 2
    assert elmo(*RUN[:2], "full", *RUN[3:]).exit_code == 0  # the plan has the size of parts
    assert not Path("full/_elmo/tmp").exists()


def wait_for_parts(n_parts: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(1000):
        if len(list(Path("out").glob("part-*"))) >= n_parts or process.poll() is not None:
            return
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_killed_goes_on(number: int) -> None:
    Path("text.txt").write_text(LINES * 10)
    process = start_elmo(*RUN)
    wait_for_parts(3, process)
    process.send_signal(number)
    assert process.stderr is not None
    errors = process.stderr.read().decode()
    process.stderr.close()
    status = process.wait(timeout=60)
    if number == signal.SIGKILL:
        assert status == -signal.SIGKILL
    else:
        assert status == 128 + number
        assert re.search(r"Stopped after [\d,]+ of 101 parts, which are kept", errors)
    before = {path: path.stat().st_mtime_ns for path in Path("out").glob("*.parquet")}
    assert 3 <= len(before) < 101
    assert elmo(*RUN).exit_code == 0
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in before.items())
    assert_equal_to_embed()
    assert {path.name for path in Path("out/_elmo").iterdir()} == {
        *("plan.json", "complete.json", "runs")
    }


@pytest.mark.slow
def test_two_runs_at_once_do_work_twice_and_damage_nothing() -> None:
    Path("text.txt").write_text(LINES * 10)
    first = start_elmo(*RUN)
    wait_for_parts(1, first)
    second = elmo(*RUN)
    assert second.exit_code == 0
    assert first.stderr is not None
    first.stderr.read()
    first.stderr.close()
    assert first.wait(timeout=60) == 0
    assert f"another run ({socket.gethostname()}-{first.pid}) is at work" in second.stderr
    assert_equal_to_embed()


def test_two_workers_at_one_part_write_the_same_file() -> None:
    settings = [Settings(model=str(TINY), batch_tokens=size) for size in (8000, 8001, 8002)]
    folder = Folder("out")
    plan = open_plan(folder, ("text.txt",), settings[0])
    workers = [PartWorker(folder.location, plan.model_sha256, each) for each in settings]
    threads = [threading.Thread(target=worker, args=(plan.parts[0],)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parquet.read_table("out").num_rows == 40
    assert os.listdir("out/_elmo/tmp") == []


def test_an_engine_that_begins_no_part_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def idle(*arguments: object, attempts: int) -> Generator[None, None, None]:
        yield from (None, None, None)

    monkeypatch.setattr(run, "embed_on_ray", idle)
    monkeypatch.setattr(run, "SILENT_SECONDS", 0)
    folder, settings = Folder("out"), Settings(model=str(TINY))
    plan = open_plan(folder, ("text.txt",), settings)
    assert run.run_parts(folder, plan, settings, engine="ray").n_done == 0
    assert caplog.text.count("the engine has begun no part for 0 seconds") == 1


def test_attempts_of_earlier_runs_do_not_count() -> None:
    folder, settings = Folder("out"), Settings(model=str(TINY))
    plan = open_plan(folder, ("text.txt",), settings, part_bytes=2000)
    for number in (0, 1):
        assert [folder.begin(number) for _ in range(9)] == list(range(9))
    run.run_parts(folder, plan, settings, shard=Shard(1, 2))
    assert folder.names("_elmo/attempts") == ["1"]
    assert run.run_parts(folder, plan, settings).failed == {}


def test_ray_that_is_missing_or_too_old_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    advice = 'pip install "elmo-cli[ray]"'
    result = elmo(*RUN[:3])
    assert (result.exit_code, result.stderr.endswith(f"; {advice}\n")) == (1, True)
    ray, data = ModuleType("ray"), ModuleType("ray.data")
    vars(ray).update(__version__="2.9.3", data=data)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", data)
    message = f"Error: --engine ray: expected Ray 2.51 or newer, found 2.9.3; {advice}\n"
    assert elmo(*RUN[:3]).stderr == message


def test_options_that_do_not_go_together_are_refused() -> None:
    message = "--state carry requires all lines in their order; see `elmo embed`"
    assert_misused(elmo(*RUN, "--state", "carry"), message)
    assert_misused(elmo("distribute", "out"), "Missing argument 'INPUT...'.")
    assert "expected a size such as 500M, found '0'" in elmo(*RUN, "--part-size", "0").stderr


def test_a_batch_gets_a_column() -> None:
    texts = ["The cat", None, "", "a b c"]
    embed = EmbedBatch(model=str(TINY), layers="top", column="vectors")
    table = embed(pyarrow.table({"text": texts}))
    assert [len(row) for row in table.column("vectors").to_pylist()] == [2, 0, 0, 3]
    arrays = embed({"text": np.array(texts, object)})
    assert_array_equal(arrays["vectors"][3], table.column("vectors")[3].as_py())
    pooled = EmbedBatch(model=str(TINY), layers="top", pooling="mean")
    assert pooled({"text": texts})["activations"].shape == (4, 32)
    pandas = pytest.importorskip("pandas")
    frame = pooled(pandas.DataFrame({"text": ["The cat", "", "a b c"]}))
    assert [len(row) for row in frame["activations"]] == [32] * 3


def test_a_folder_may_be_a_uri(folder: Path) -> None:
    uri = f"file://{folder}/out"
    assert elmo(*RUN[:2], uri, *RUN[3:]).exit_code == 0
    assert not Path("out/_elmo/tmp").exists()
    with open_activations(uri) as found, open_activations("out") as local:
        assert len(found) == len(local) == 40
        assert_array_equal(found[4], local[4])
    assert elmo(*RUN[:2], uri, *RUN[3:]).exit_code == 0
    result = elmo(*RUN[:2], "nowhere://a/b", *RUN[3:])
    assert "Error: nowhere://a/b: cannot open it: " in result.stderr
