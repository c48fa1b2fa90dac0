"""Number of threads of a command in containers and in jobs of a cluster."""

import os
from functools import partial
from pathlib import Path

import pytest

from elmo_cli.__main__ import limit_threads, read_quotas

OWN_GROUP = {
    1: "3:cpuset:/\n2:cpu,cpuacct:/jobs/one\n1:name=systemd:/\n0::/\n",
    2: "0::/jobs/one\n",
}
"""Content of /proc/self/cgroup, by the version of control groups."""


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ({}, []),
        ({"": "200000"}, [2.0]),  # a container, which sees its group as the root
        ({"": "max", "jobs": "350000", "jobs/one": "50000", "other": "1"}, [0.5, 3.5]),
        ({"jobs/one": "max"}, []),
    ],
)
def test_quotas_are_those_of_all_groups_above(
    version: int, quotas: dict[str, str], expected: list[float], tmp_path: Path
) -> None:
    (tmp_path / "own").write_text(OWN_GROUP[version])
    for name, quota in quotas.items():
        group = tmp_path / "cgroup" / ("cpu" if version == 1 else "") / name
        group.mkdir(parents=True, exist_ok=True)
        if version == 2:
            (group / "cpu.max").write_text(f"{quota} 100000\n")
        else:
            (group / "cpu.cfs_quota_us").write_text(f"{quota}\n".replace("max", "-1"))
            (group / "cpu.cfs_period_us").write_text("100000\n")
    assert list(read_quotas(tmp_path / "cgroup", tmp_path / "own")) == expected


@pytest.mark.parametrize(
    ("machine", "n_allowed", "quotas", "expected"),
    [
        ("x86_64", 64, [], None),  # torch uses all cores.
        ("x86_64", 64, [2.0], "2"),
        ("x86_64", 64, [8.0, 1.5], "2"),
        ("x86_64", 64, [0.1], "1"),
        ("x86_64", 64, [80.0], None),
        ("x86_64", 8, [], None),  # torch counts the cores in the affinity mask itself.
        ("x86_64", 8, [4.0], "4"),
        ("aarch64", 8, [], "8"),
        ("aarch64", 64, [], None),
    ],
)
def test_threads_follow_the_quota_and_the_affinity_mask(
    machine: str,
    n_allowed: int,
    quotas: list[float],
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = dict[str, str]()
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    system = os.uname_result(("Linux", "", "", "", machine))
    monkeypatch.setattr(os, "uname", lambda: system)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(n_allowed))
    monkeypatch.setattr("elmo_cli.__main__.read_quotas", lambda: iter(quotas))
    limit_threads()
    assert environment.get("OMP_NUM_THREADS") == expected
    environment["OMP_NUM_THREADS"] = "3"
    limit_threads()
    assert environment == {"OMP_NUM_THREADS": "3"}


@pytest.mark.parametrize("content", ["", "odd", "200000 0", "a b"])
def test_odd_files_of_control_groups_are_ignored(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "cpu.max").write_text(content)
    quotas = partial(read_quotas, tmp_path, tmp_path / "own")
    monkeypatch.setattr("elmo_cli.__main__.read_quotas", quotas)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    limit_threads()
    assert "OMP_NUM_THREADS" not in os.environ
