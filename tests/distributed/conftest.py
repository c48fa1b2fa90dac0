"""A Ray cluster on this machine, for tests with and without kills."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
system = {"health_check_period_ms": 500, "health_check_failure_threshold": 3,
          "health_check_initial_delay_ms": 0, "health_check_timeout_ms": 500}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": system})
node = cluster.add_node(num_cpus=4, num_gpus=2)
print(cluster.address, flush=True)
for _ in sys.stdin:
    cluster.remove_node(node, allow_graceful=False)
    node = cluster.add_node(num_cpus=4, num_gpus=2)
cluster.shutdown()
"""
"""A head and one node of four CPUs and two GPUs that are not there; a line replaces the node."""


@pytest.fixture(scope="session")
def cluster() -> Iterator["subprocess.Popen[str]"]:
    """Start a cluster, and yield its process."""
    pytest.importorskip("ray", reason='needs Ray; pip install "elmo-cli[ray]"')
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:  # type: ignore[call-overload]
        yield process


@pytest.fixture(scope="session")
def address(cluster: "subprocess.Popen[str]") -> str:
    """Return the address of the cluster."""
    assert cluster.stdout is not None
    return cluster.stdout.readline().strip()
