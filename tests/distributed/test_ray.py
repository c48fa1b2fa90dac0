"""`elmo distribute` on a cluster of Ray: kills of workers, nodes and the driver lose nothing.

Each run is a process of its own, so that Ray's warnings are not errors here.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import TINY, start_elmo
from distributed_runs import assert_equal_to_embed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason='needs Ray; pip install "elmo-cli[ray]"'
    ),
]

LINES = "".join(f"The cat {i} sat\n\n" for i in range(200)) + f"{'word ' * 10_000}\n" * 4
RUN = ("distribute", "text.txt", "out", "--part-size", "20k", "--model", TINY)
ONE_WORKER = ("--workers", "1", "--attempts", "2")

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
system = {"health_check_period_ms": 500, "health_check_failure_threshold": 3,
          "health_check_initial_delay_ms": 0, "health_check_timeout_ms": 500}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": system})
node = cluster.add_node(num_cpus=2, num_gpus=2)
print(cluster.address, flush=True)
for _ in sys.stdin:
    cluster.remove_node(node, allow_graceful=False)
    node = cluster.add_node(num_cpus=2, num_gpus=2)
cluster.shutdown()
"""
"""A head and one node of two CPUs and two GPUs that are not there; a line replaces the node."""

TWO_GPUS = """
import os, sys, time
import ray
from elmo_cli.distributed import ray_engine
from elmo_cli.distributed.inputs import Part
from elmo_cli.distributed.part import PartResult
class Worker:
    def __init__(self, *arguments, **named):
        self.device = named["device"]
    def __call__(self, part):
        time.sleep(0.5)
        return PartResult(part.number, f"{self.device} of {os.environ['CUDA_VISIBLE_DEVICES']}")
ray_engine.PartWorker = Worker
ray.cloudpickle.register_pickle_by_value(ray_engine)
parts = [Part(number, "", 0, 1, number, 1, 1) for number in range(12)]
resources = ray_engine.Resources(sys.argv[1], gpus=1)
found = [each for each in ray_engine.embed_on_ray(parts, resources, attempts=5) if each]
assert {each.number for each in found} == set(range(12)), found
print(*sorted({each.worker for each in found}), sep="; ")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a text, where commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(LINES)
    return tmp_path


@pytest.fixture(scope="module")
def cluster() -> Iterator["subprocess.Popen[str]"]:
    """The process of a cluster."""
    command = [sys.executable, "-c", CLUSTER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:  # type: ignore[call-overload]
        yield process


@pytest.fixture(scope="module")
def address(cluster: "subprocess.Popen[str]") -> str:
    """The address of the cluster."""
    assert cluster.stdout is not None
    return cluster.stdout.readline().strip()


def parts_there() -> list[str]:
    return sorted(path.name for path in Path("out").glob("part-*"))


def begun(number: int) -> list[int]:
    """The processes that have begun a part and not ended it."""
    try:
        names = json.loads(Path(f"out/_elmo/attempts/{number}").read_bytes())
    except FileNotFoundError:
        return []
    return [int(name.rpartition("-")[2]) for name in names]


def wait_until(condition: Callable[[], object], process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


def end_of(process: "subprocess.Popen[bytes]") -> tuple[int, list[str]]:
    """The exit status, and what was said but for Ray's own log."""
    assert process.stderr is not None
    lines = process.stderr.read().decode().splitlines()
    process.stderr.close()
    return process.wait(timeout=120), [line for line in lines if "core_worker" not in line]


def test_kills_of_the_driver_and_of_every_worker_of_a_part(address: str) -> None:
    driver = start_elmo(*RUN, *ONE_WORKER, "--address", address)
    wait_until(lambda: len(parts_there()) >= 3, driver)
    driver.kill()
    end_of(driver)
    before = {name: Path("out", name).stat().st_mtime_ns for name in parts_there()}
    assert before
    run = start_elmo(*RUN, *ONE_WORKER, "--address", address)
    n_parts = len(json.loads(Path("out/_elmo/plan.json").read_bytes())["parts"])
    poison = n_parts - 2  # a long one
    wait_until(lambda: len(begun(poison)) == 1, run)
    os.kill(begun(poison)[-1], signal.SIGKILL)
    wait_until(lambda: len(begun(poison)) == 2, run)
    os.kill(begun(poison)[-1], signal.SIGKILL)
    status, said = end_of(run)
    assert status == 1
    assert any(f"part {poison} (" in line and "ended 2 workers" in line for line in said)
    assert len(parts_there()) == n_parts - 1
    assert all(Path("out", name).stat().st_mtime_ns == at for name, at in before.items())
    status, said = end_of(start_elmo(*RUN, "--address", address))
    assert (status, said[0], len(said)) == (0, f"Model: {TINY}", 2)
    assert_equal_to_embed()


def test_a_node_is_lost_and_another_joins(cluster: "subprocess.Popen[str]", address: str) -> None:
    run = start_elmo(*RUN, "--workers", "1", "--address", address)
    wait_until(lambda: len(parts_there()) >= 3, run)
    assert cluster.stdin is not None
    cluster.stdin.write("replace\n")
    cluster.stdin.flush()
    assert end_of(run)[0] == 0
    assert_equal_to_embed()


def test_each_worker_has_a_gpu_of_its_own(address: str) -> None:
    command = [sys.executable, "-c", TWO_GPUS, address]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.stdout == "0 of 0; 0 of 1\n", result.stderr


def test_ctrl_c_ends_a_run(address: str) -> None:
    Path("text.txt").write_text(LINES + f"{'word ' * 30_000}\n" * 40)
    run = start_elmo(*RUN, *ONE_WORKER, "--address", address)
    wait_until(parts_there, run)
    run.send_signal(signal.SIGINT)
    status, said = end_of(run)
    assert status == 130
    assert "parts, which are kept; the same command goes on" in said[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--address", "127.0.0.1:9"), "--address 127.0.0.1:9: no cluster of Ray answers: "),
        (("--gpus-per-worker", "1"), "--gpus-per-worker 1: the cluster has 0 GPUs in all"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(options: tuple[str, ...], message: str) -> None:
    started = time.monotonic()
    status, said = end_of(start_elmo(*RUN, *options))
    assert (status, len(said)) == (1, 2)
    assert said[1].startswith(f"Error: {message}")
    assert time.monotonic() - started < 30


def test_resources_that_a_cluster_has_not_are_said(address: str) -> None:
    status, said = end_of(start_elmo(*RUN, "--cpus-per-worker", "9", "--address", address))
    assert (status, said[1]) == (1, "Error: --cpus-per-worker 9: the cluster has 2 CPUs in all")
