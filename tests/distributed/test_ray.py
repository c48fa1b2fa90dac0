"""`elmo distribute` on a cluster of Ray: kills lose nothing.

Each run is a process of its own, so that Ray's warnings are not errors here.
"""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from pyarrow import parquet

from elmo_cli.distributed.ray_engine import _max_workers, embed_on_ray
from elmo_cli.errors.exceptions import DeviceError, ElmoError
from elmo_cli.errors.messages import spelled_as_options
from elmo_cli.options.resources import ResourceSettings
from tests.support.commands import PROGRAMS, TINY, Forked, run_python, start_elmo
from tests.support.distributed_runs import (
    assert_equal_to_embed,
    end_of,
    parts_there,
    wait_until,
)
from tests.support.table_files import write_table

pytestmark = [
    pytest.mark.usefixtures("long_text"),
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason='needs Ray; pip install "elmo-cli[ray]"',
    ),
]

SHORT = "".join(f"The cat {i} sat\n\n" for i in range(200))
LONG = f"{'word ' * 10_000}\n"
SMALL_PARTS = ("--part-size", "0.02", "--model", TINY)
RUN = ("distribute", "text.txt", "out", *SMALL_PARTS)


@pytest.fixture
def long_text(folder: Path) -> None:
    """Write a text into the empty current folder."""
    Path("text.txt").write_text(SHORT + LONG * 4)


def start_hasty(*arguments: str | Path) -> Forked:
    """Start `elmo` that waits for 3 seconds where it would wait for 25."""
    return Forked(PROGRAMS / "hasty_elmo.py", *arguments, stderr=subprocess.PIPE)


def workers_of(process: int) -> list[int]:
    """Return the processes under `process` that embed a part, by Ray's names."""
    workers = []
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        try:
            is_worker = b"_Worker.embed" in Path(f"/proc/{child}/cmdline").read_bytes()
            workers += [int(child)] if is_worker else workers_of(int(child))
        except OSError:  # it has ended
            continue
    return workers


@pytest.mark.long
def test_kills_of_the_driver_and_of_a_worker_lose_nothing(
    cluster: "subprocess.Popen[str]", address: str
) -> None:
    driver = start_elmo(*RUN, "--workers", "1", "--address", address)
    wait_until(lambda: len(parts_there()) >= 3, driver)
    driver.kill()
    end_of(driver)
    before = parts_there()
    assert before
    run = start_elmo(*RUN, "--workers", "1", "--address", address)
    wait_until(lambda: len(parts_there()) >= 11, run)  # the next ones are long
    workers: list[int] = []

    def finds_workers() -> bool:
        # A worker that was found may have ended its part before the next search.
        workers.extend(workers_of(cluster.pid))
        return len(workers) > 0

    wait_until(finds_workers, run)
    os.kill(workers[0], signal.SIGKILL)
    assert end_of(run)[0] == 0
    assert before.items() <= parts_there().items()
    assert_equal_to_embed()


@pytest.mark.long
def test_a_part_that_kills_every_worker_is_abandoned(address: str) -> None:
    text = f"part 2 ({Path('text.txt').resolve()}, 40 records from 82)"
    said = run_python(PROGRAMS / "ray_deadly_part.py", address, TINY).stdout
    assert said == f"{{2: '{text}: crashed 2 workers. It is abandoned.'}}\n"
    assert len(parts_there()) == 13
    status, errors = end_of(start_elmo(*RUN, "--address", address))
    assert status == 0
    # Ray may free the processors of the dead workers a moment later.
    errors = [line for line in errors if "no worker is running" not in line]
    assert len(errors) == 2
    assert errors[0] == "Warning: 20 records without text"


def test_workers_of_a_ray_of_its_own_keep_columns() -> None:
    rows = [{"id": i, "text": f"The cat {i}", "year": i or None} for i in range(60)]
    write_table("rows.jsonl", rows)
    command = "distribute rows.jsonl out --workers 2 --keep-columns all"
    status, _ = end_of(start_elmo(*command.split(), *SMALL_PARTS))
    assert status == 0
    assert len(parts_there()) > 1
    kept_rows = parquet.read_table("out").select(["id", "year"]).to_pylist()
    assert kept_rows == [{"id": row["id"], "year": row["year"]} for row in rows]


@pytest.mark.long
def test_a_node_is_lost_and_another_joins(
    cluster: "subprocess.Popen[str]", address: str
) -> None:
    run = start_elmo(*RUN, "--workers", "1", "--address", address)
    wait_until(lambda: len(parts_there()) >= 3, run)
    assert cluster.stdin is not None
    cluster.stdin.write("replace\n")
    cluster.stdin.flush()
    assert end_of(run)[0] == 0
    assert_equal_to_embed()


@pytest.mark.long
def test_each_worker_has_a_gpu_of_its_own(address: str) -> None:
    printed = run_python(PROGRAMS / "ray_gpus.py", address).stdout
    assert printed == "cuda of 0; cuda of 1\n"


@pytest.mark.long
def test_ctrl_c_ends_a_running_and_a_waiting_run(address: str) -> None:
    Path("text.txt").write_text(SHORT + LONG * 40)
    all_cpus = f"--cpus-per-worker 4 --workers 1 --address {address}".split()
    run = start_elmo(*RUN, *all_cpus)
    wait_until(parts_there, run)
    waiting = start_hasty("distribute", "text.txt", "other", *SMALL_PARTS, *all_cpus)
    assert waiting.stderr is not None
    lines = iter(waiting.stderr.readline, b"")
    warning = b"no worker is running: no node has 4 CPUs and 0 GPUs free"
    assert any(warning in line for line in lines)
    for process in (waiting, run):
        process.send_signal(signal.SIGINT)
        status, said = end_of(process)
        assert status == 130
        assert "parts, which are kept. The same command resumes." in said[-1]


@pytest.mark.long
@pytest.mark.parametrize("is_silent", [False, True])
def test_an_address_without_a_cluster_is_said_in_one_line(is_silent: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if not is_silent:
            server.close()
        with start_hasty(*RUN, "--address", address) as run:
            said = run.communicate()[1].decode().splitlines()  # with what Ray says
    assert run.returncode == 1
    assert len(said) == 2
    # Ray's client tries again where a port refuses it.
    assert said[1].startswith(
        f"Error: --address {address}: cannot connect to a Ray cluster: no answer for 3 "
        "seconds. "
    )


WRONG_TOKEN = ConnectionError("Failed to connect")
WRONG_TOKEN.__cause__ = RuntimeError(
    "InvalidAuthToken: Authentication token is missing or incorrect"
)
NO_ROUTE = OSError(113, "No route to host")


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        pytest.param(
            "head:1",
            WRONG_TOKEN,
            "--address head:1: cannot connect to a Ray cluster: the token is missing "
            "or wrong. Set RAY_AUTH_MODE=token, and",
            id="wrong token",
        ),
        pytest.param(
            "head:1",
            NO_ROUTE,
            "--address head:1: cannot connect to a Ray cluster: No route to host. "
            "Without --address, the run starts its own.",
            id="no route",
        ),
        pytest.param(
            None,
            WRONG_TOKEN,
            "cannot start Ray here: Failed to connect. Give the same command again, or",
            id="no start",
        ),
    ],
)
def test_an_error_of_ray_leads_to_a_remedy(
    address: str | None, error: Exception, message: str
) -> None:
    ray = Mock(init=Mock(side_effect=error))
    with (
        patch("elmo_cli.distributed.ray_engine.load_ray", return_value=ray),
        pytest.raises(ElmoError) as raised,
    ):
        next(embed_on_ray([], Mock(), ResourceSettings(address)))
    assert spelled_as_options(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("resources", "there", "message"),
    [
        (
            ResourceSettings(cpus_per_worker=9),
            {"CPU": 4.0},
            "--cpus-per-worker 9: the cluster has 4 CPUs in all",
        ),
        (
            ResourceSettings(gpus_per_worker=2),
            {"CPU": 4.0},
            "--gpus-per-worker 2: the cluster has 0 GPUs in all",
        ),
    ],
)
def test_a_cluster_that_is_too_small_is_an_error(
    resources: ResourceSettings, there: dict[str, float], message: str
) -> None:
    with pytest.raises(DeviceError) as raised:
        _max_workers(there, resources)
    assert spelled_as_options(raised.value) == f"{message}. Ask for fewer."


@pytest.mark.long
@pytest.mark.parametrize(
    ("option", "resources"),
    [("--cpus-per-worker", "4 CPUs"), ("--gpus-per-worker", "2 GPUs")],
)
def test_more_resources_than_a_cluster_has_are_refused(
    address: str, option: str, resources: str
) -> None:
    status, said = end_of(start_elmo(*RUN, option, "9", "--address", address))
    assert status == 1
    error = f"Error: {option} 9: the cluster has {resources} in all. Ask for fewer."
    assert said[-1] == error


@pytest.mark.long
def test_more_gpus_than_this_machine_has_are_refused() -> None:
    status, said = end_of(start_elmo(*RUN, "--gpus-per-worker", "9", "--workers", "2"))
    assert status == 1
    error = "--gpus-per-worker 9: the cluster has 0 GPUs in all. Ask for fewer."
    assert said[-1] == f"Error: {error}"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["start", "work"])
def test_a_signal_ends_a_run_of_its_own_ray_in_one_line(
    number: int, moment: str
) -> None:
    Path("text.txt").write_text(SHORT + LONG * 40)
    run = start_elmo(*RUN, "--workers", "1")
    if moment == "start":
        wait_until(lambda: Path("out/_elmo/plan.parquet").exists(), run)
        time.sleep(2)  # Ray is starting.
    else:
        wait_until(lambda: len(parts_there()) >= 3, run)
    run.send_signal(number)
    status, said = end_of(run)
    assert status == 128 + number
    # On a busy machine, lines on the progress of the run come first.
    stopping = (
        "Stopping after the current batch. Press Ctrl-C again to stop immediately."
    )
    assert said[-2] == stopping
    stopped = (
        r"Stopped after \d+ of 50 parts, which are kept. The same command resumes\."
    )
    assert re.fullmatch(stopped, said[-1])
    # For some milliseconds while Ray starts, its handler prints a stack trace before
    # ours runs.
    if moment == "work":
        for line in said:
            assert "Traceback" not in line
            assert "***" not in line
