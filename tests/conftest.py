"""Fixtures that several tests share."""

import copy
import gc
import json
import logging
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from elmo_cli import ElmoEmbedder
from elmo_cli.compiled.kernels import has_tiles
from elmo_cli.model.bilm import BiLm
from elmo_cli.pretrained.load_bilm import load_bilm
from elmo_cli.pretrained.model_files import ModelFiles
from tests.support.accept import (  # noqa: F401 (a fixture and hooks of pytest)
    check_example,
    pytest_addoption,
    pytest_configure,
    pytest_runtest_logreport,
    pytest_terminal_summary,
)
from tests.support.commands import PROGRAMS
from tests.support.distributed_runs import LINES
from tests.support.fake_device import FakeDevice, fake_device
from tests.support.golden import GOLDEN, Golden
from tests.support.processors import processors_with
from tests.support.small_models import SmallModels, make_small_models
from tests.support.strategies import make_language_model, small_architecture
from tests.support.training_runs import write_run_files
from tests.support.trials import BUDGET, SECONDS, SEED, STARTED
from tests.support.website import Site

# Each example builds a model, so few of them, and no clock: machines differ.
settings.register_profile(
    "elmo", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("elmo")

# In the background of a script it is ignored, also by the commands that tests start and
# stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The models are so small that threads would only wait for one another.
torch.set_num_threads(1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty current folder. No variable names a model."""
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def training_folder(folder: Path) -> None:
    """Write two texts and the options of a small model into the current folder."""
    write_run_files()


@pytest.fixture
def corpus_folder(folder: Path) -> None:
    """Write `text.txt`, with every second line empty, into the current folder."""
    Path("text.txt").write_text(LINES)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> SmallModels:
    """Return a small model in each public class, and a text."""
    return make_small_models(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def forks() -> Any:
    """Return a context whose processes fork from one that imported the commands."""
    context = multiprocessing.get_context("forkserver")
    # It imports and computes nothing else, so that its children can.
    commands = (
        "distributed.workers",
        "cli.commands.distribute",
        "embedder",
        "outputs.writer",
    )
    others = ("h5py", "numpy", "pyarrow.parquet", "torch", "tqdm")
    context.set_forkserver_preload(
        [*(f"elmo_cli.{name}" for name in commands), *others]
    )
    return context


@pytest.fixture(scope="session")
def cluster() -> Iterator["subprocess.Popen[str]"]:
    """Start a cluster, and yield its process."""
    pytest.importorskip("ray", reason='needs Ray; pip install "elmo-cli[ray]"')
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, PROGRAMS / "ray_cluster.py"]
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:  # type: ignore[call-overload]
        yield process


@pytest.fixture(scope="session")
def address(cluster: "subprocess.Popen[str]") -> str:
    """Return the address of the cluster."""
    assert cluster.stdout is not None
    return cluster.stdout.readline().strip()


@pytest.fixture
def word_model(folder: Path) -> None:
    """Write a language model of single words into `model` in the current folder.

    <S> 1/16, </S> 1/4, <UNK> 1/8, the 1/4, cat 1/8, sat 1/16, naïve 1/16, 東京 1/16: an
    entropy of 2.75 bits.
    """
    bias = -np.array([4, 2, 3, 2, 3, 4, 4, 4]) * np.log(2)
    (folder / "model").mkdir()
    make_language_model(
        small_architecture(), 1, Path("model"), weight=np.zeros((8, 3)), bias=bias
    )


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a language model whose words depend on their context."""
    folder = tmp_path_factory.mktemp("model")
    make_language_model(small_architecture(), 5, folder)
    return folder


@pytest.fixture(scope="session", params=["relu", "tanh-clip"])
def golden(request: pytest.FixtureRequest) -> Iterator[Golden]:
    """Yield each of the golden models in turn."""
    folder = GOLDEN / request.param
    files = ModelFiles(str(folder), folder / "options.json", folder / "weights.hdf5")
    options = json.loads(files.options.read_text(encoding="utf-8"))
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    with (
        h5py.File(folder / "expected.hdf5", "r") as expected,
        h5py.File(folder / "empty.hdf5", "r") as with_empty,
    ):
        yield Golden(
            folder, files, load_bilm(files), options, sentences, expected, with_empty
        )


REAL = [
    pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("cuda", "mps")
]
GPUS = ["fake cuda", "fake mps", *REAL]
"""GPUs that are emulated, and real ones."""


def _use_device(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Yield the name of each device in turn."""
    *is_fake, kind = request.param.split()
    with fake_device(kind, monkeypatch.setattr) if is_fake else nullcontext():
        yield kind


device = pytest.fixture(_use_device, params=["cpu", *GPUS])
gpu = pytest.fixture(_use_device, params=GPUS)


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDevice]:
    """Yield an emulated CUDA GPU."""
    with fake_device("cuda", monkeypatch.setattr) as fake:
        yield fake


@pytest.fixture(scope="session", autouse=True)
def golden_models_are_read_once() -> Iterator[None]:
    """Copy a golden model where it is loaded again: reading one is slow."""
    bilms: dict[ModelFiles, BiLm] = {}

    def load(files: ModelFiles) -> BiLm:
        if GOLDEN not in files.weights.parents:
            return load_bilm(files)
        if files not in bilms:
            bilms[files] = load_bilm(files)
        return copy.deepcopy(bilms[files])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmo_cli.engine.load_bilm", load)
        yield


@pytest.fixture(autouse=True)
def every_test_logs() -> None:
    """Undo what -q of another test has done to the log."""
    logging.getLogger("elmo_cli").setLevel(logging.NOTSET)


@pytest.fixture(scope="module")
def small_weights_are_mapped() -> Iterator[None]:
    """Map small weights from their file, as large weights are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elmo_cli.model.tensor_files.MIN_MAPPED_BYTES", 1)
        yield


@pytest.fixture(scope="session")
def tiny() -> ElmoEmbedder:
    """Load a golden model, (3, T, 32), with state zero and small batches."""
    return ElmoEmbedder(model=GOLDEN / "relu", batch_tokens=6)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the folder of downloaded models, still missing, with the bundled model."""
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Start a web server on this machine. http is allowed, and no proxy is used."""
    monkeypatch.setenv("ELMO_ALLOW_HTTP", "1")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Site()
    yield server
    server.close()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return the workers of `-n auto`: one more than cores, as some tests wait."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    has_mask = hasattr(os, "sched_getaffinity")
    return 1 + (len(os.sched_getaffinity(0)) if has_mask else os.cpu_count() or 1)


def pytest_report_header() -> list[str]:
    """Say how random moments are chosen, and which kernels this machine cannot test."""
    lines = [f"random moments: ELMO_TEST_SEED={SEED} ELMO_TEST_SECONDS={SECONDS:g}"]
    missing = []
    if not has_tiles():
        missing.append("bfloat16 (needs AMX)")
    if "AVX512" not in processors_with(torch.int8):
        missing.append("int8 and int16 in 512 bits (needs AVX-512 VNNI)")
    if "AVX2" not in processors_with(torch.int8):
        missing.append("int8 in 256 bits (needs AVX-VNNI)")
    if "AVX2" not in processors_with(torch.int16):
        missing.append("int16 in 256 bits (needs AVX2)")
    if missing:
        lines.append(f"kernels that are not tested here: {', '.join(missing)}")
    return lines


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a long test when the budget is spent."""
    if item.get_closest_marker("long") and time.monotonic() - STARTED > BUDGET:
        pytest.skip(
            f"the budget of {BUDGET:g} seconds is spent; see tests/support/trials.py"
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of a GPU where there is none; shuffle files if time is limited."""
    if math.isfinite(BUDGET):
        files = list(dict.fromkeys(item.path for item in items))
        random.Random(SEED).shuffle(files)
        items.sort(key=lambda item: files.index(item.path))
    are_available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    for item in items:
        for kind, is_available in are_available.items():
            if item.get_closest_marker(kind) and not is_available:
                item.add_marker(pytest.mark.skip(reason=f"needs {kind}"))


def pytest_collection_finish() -> None:
    """Exclude the objects of all imports from garbage collection, because they stay."""
    gc.collect()
    gc.freeze()
