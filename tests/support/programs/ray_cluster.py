"""Cluster of Ray: a head, and one node of four CPUs and two GPUs that are not there.

Prints its address. Each line of standard input replaces the node, and the end of the
input ends the cluster.
"""

import sys

from ray.cluster_utils import Cluster

system = {
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
    "health_check_initial_delay_ms": 0,
    "health_check_timeout_ms": 500,
}
head = {"num_cpus": 0, "_system_config": system}
cluster = Cluster(initialize_head=True, head_node_args=head)
node = cluster.add_node(num_cpus=4, num_gpus=2)
print(cluster.address, flush=True)
for _ in sys.stdin:
    cluster.remove_node(node, allow_graceful=False)
    node = cluster.add_node(num_cpus=4, num_gpus=2)
cluster.shutdown()  # type: ignore[no-untyped-call]
