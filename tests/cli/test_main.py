"""Environment that `elmo` sets for its process before torch is imported."""

import gc
import os
import shutil
import subprocess
import sys
from typing import Any
from unittest.mock import Mock, patch

import pytest
from commands import TINY, elmo

import elmo_cli.cli
from elmo_cli import open_activations
from elmo_cli.__main__ import SPIN_COUNT, run
from elmo_cli.cli.loading import find_files
from elmo_cli.settings import ModelSettings


@pytest.mark.parametrize(
    ("environment", "spin_count"),
    [({}, SPIN_COUNT), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_idle_threads_wait_shortly_by_default(
    environment: dict[str, str], spin_count: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spin_counts: list[str | None] = []
    main = Mock(side_effect=lambda **_: spin_counts.append(os.environ.get("GOMP_SPINCOUNT")))
    monkeypatch.setattr(elmo_cli.cli, "main", main)
    with patch.dict(os.environ, environment):
        for name in {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} - {*environment}:
            os.environ.pop(name, None)
        run_with_collector_restored()
    assert spin_counts == [spin_count]


def test_the_collector_starts_when_a_model_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[bool] = []
    monkeypatch.setattr("elmo_cli.cli.messages.say", lambda message: None)

    def main(**settings: Any) -> None:
        states.append(gc.isenabled())
        find_files(ModelSettings("mini"))
        states.append(gc.isenabled())

    monkeypatch.setattr(elmo_cli.cli, "main", main)
    run_with_collector_restored()
    assert states == [False, True]


def test_the_library_leaves_the_process_as_it_is() -> None:
    code = (
        "import gc, os; before = dict(os.environ); from elmo_cli import ElmoEmbedder; "
        "ElmoEmbedder(); assert dict(os.environ) == before; assert gc.isenabled()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_interrupt_while_arguments_are_parsed_has_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(elmo_cli.cli.ElmoGroup, "parse_args", parse)
    result = elmo("--version")
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")


@pytest.mark.usefixtures("folder")
def test_a_model_whose_name_is_not_utf8_is_recorded_with_escapes() -> None:
    name, output = os.fsdecode(b"m\xe9"), os.fsdecode(b"v\xe9.hdf5")
    shutil.copytree(TINY, name)
    assert elmo("embed", "-", output, "--model", name, stdin="a b").exit_code == 0
    with open_activations(output) as activations:
        assert activations.attributes["model"] == "m\\xe9"


def run_with_collector_restored() -> None:
    """Run the command; the collector is as it was afterwards."""
    try:
        run()
    finally:
        gc.enable()
        gc.unfreeze()
