"""Devices and precisions: their names, their needs, and their numbers."""

import io
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import DeviceError, InputError
from elmo_cli.inference.device import Device, choose_device
from elmo_cli.inference.exact_products import exact_products
from elmo_cli.inference.precision import compute_types, find_arithmetic
from elmo_cli.options.model import InitialState, Precision
from tests.support.cell_formulas import PROCESSORS, processor
from tests.support.commands import TINY
from tests.support.fake_device import allows_tf32
from tests.support.golden import Golden
from tests.support.processors import (
    needs_bfloat16,
    needs_int8,
    needs_int16,
    without_instructions,
    without_integers,
)
from tests.support.runs import content


def have(monkeypatch: pytest.MonkeyPatch, n_gpus: int = 0, mps: bool = False) -> None:
    """Let torch report `n_gpus` GPUs, and MPS if `mps`."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (-1, "cpu"),
        ("-1", "cpu"),
        ("cpu", "cpu"),
        (torch.device("cpu"), "cpu"),
        (1, "cuda:1"),
        ("1", "cuda:1"),
        ("cuda:1", "cuda:1"),
        ("cuda", "cuda:0"),
        ("auto", "cuda:0"),
        (torch.device("mps", 0), "mps"),
    ],
)
def test_a_device_has_a_name_or_a_number(
    name: Device, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, n_gpus=2, mps=True)
    assert choose_device(name) == torch.device(expected)
    have(monkeypatch, mps=True)
    assert choose_device("auto") == torch.device("cpu")


def test_the_cpu_is_chosen_without_asking_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("is_available", "device_count", "init", "_lazy_init"):
        monkeypatch.setattr(torch.cuda, function, Mock(side_effect=AssertionError))
    for name in ("cpu", -1, "-1", torch.device("cpu")):
        assert choose_device(name) == torch.device("cpu")


NO_CUDA = (
    f"torch {torch.__version__} was built without CUDA. Install a build with CUDA "
    "from https://pytorch.org, or use device='cpu'."
)
NO_DRIVER = (
    "the NVIDIA driver is missing, or too old for CUDA 13.0. Install a newer driver or "
    "an older torch (`nvidia-smi` shows the CUDA version of the driver), or use "
    "device='cpu'."
)
HIDDEN = "CUDA_VISIBLE_DEVICES is '{}', which leaves no GPU. Change or unset it."
LOWER = "numbers start at 0. Use a lower number."


@pytest.mark.parametrize(
    ("name", "n_gpus", "build", "visible", "problem"),
    [
        ("mps", 1, "13.0", None, "torch finds no Apple GPU. Use device='cpu'."),
        ("cuda:1", 1, "13.0", None, f"torch finds 1 GPU, and {LOWER}"),
        ("cuda:2", 2, "13.0", None, f"torch finds 2 GPUs, and {LOWER}"),
        ("cuda", 0, None, None, NO_CUDA),
        ("cuda:0", 0, "13.0", "", HIDDEN.format("")),
        ("cuda:1", 0, "13.0", "7", HIDDEN.format("7")),
        ("cuda:0", 0, "13.0", None, NO_DRIVER),
    ],
)
def test_a_missing_device_raises_an_error_with_the_cause(
    name: str,
    n_gpus: int,
    build: Any,
    visible: Any,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    have(monkeypatch, n_gpus)
    monkeypatch.setattr(torch.version, "cuda", build)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for alias in (name, name.removeprefix("cuda:")):
        with pytest.raises(DeviceError) as caught:
            choose_device(alias)
        assert str(caught.value) == f"device {name}: {problem}"


def read_setting() -> object:
    product = torch.backends.cuda.matmul
    if hasattr(product, "fp32_precision"):
        return product.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]
    return torch.get_float32_matmul_precision()


@pytest.mark.usefixtures("fake_cuda")
def test_float32_is_exact_where_the_environment_allows_tf32(golden: Golden) -> None:
    def error(precision: Precision) -> float:
        embedder = ElmoEmbedder(model=golden.folder, precision=precision, device="cuda")
        (values,) = embedder.embed_batch(golden.sentences[:1])
        return float(abs(values - golden.expected["stateless/0"][()]).max())

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # as NVIDIA's containers do
    try:
        assert error("float32") < 1e-5 < error("tf32") < error("bfloat16") < 0.05
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("name", ["highest", "high", "medium"])
@pytest.mark.parametrize("tf32", [False, True])
def test_the_settings_of_products_are_restored(name: str, tf32: bool) -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        setting = read_setting()
        with exact_products(tf32=tf32):
            assert allows_tf32() is tf32
            with exact_products():
                assert not allows_tf32()
            assert allows_tf32() is tf32
        with pytest.raises(ZeroDivisionError), exact_products(tf32=tf32):
            1 / 0  # noqa: B018
        assert read_setting() == setting
        assert torch.get_float32_matmul_precision() == name
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_precision_needs_a_device_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = (
        "precision='tf32': requires an NVIDIA GPU of compute capability 8.0 (Ampere) "
        "or later, and the device is {}. Use precision='float32'."
    )
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    for device in map(torch.device, ("cpu", "mps", "cuda:1")):
        with pytest.raises(InputError) as caught:
            compute_types("tf32", device)
        assert str(caught.value) == message.format(device)
    problem = r"^precision='int8': requires the CPU, and the device is cuda:1\. "
    with pytest.raises(InputError, match=problem):
        compute_types("int8", torch.device("cuda:1"))


@pytest.mark.parametrize("capability", ["AVX512", "AVX2", "NONE"])
def test_int8_names_the_instructions_that_it_needs(capability: str) -> None:
    fastest = "bfloat16" if capability == "AVX2" and PROCESSORS else "float32"
    message = (
        "precision='int8': requires a processor with AVX-512 VNNI or AVX-VNNI, found "
        f"{capability}. Use precision='{fastest}'."
    )
    with (
        processor(capability),
        without_instructions("vnni", "avx_vnni"),
        pytest.raises(InputError, match=f"^{re.escape(message)}$"),
    ):
        ElmoEmbedder("missing.json", "missing.hdf5", precision="int8")


@needs_int8
def test_int8_needs_compiled_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_cli.compiled.linear.has_kernel", lambda name: False)
    message = r"^precision='int8': requires compiled kernels, found none\. Use prec"
    with pytest.raises(InputError, match=message):
        ElmoEmbedder("missing.json", "missing.hdf5", precision="int8")


def test_the_arithmetic_of_bfloat16_depends_on_the_processor() -> None:
    cpu = torch.device("cpu")
    gpu = torch.device("cuda:0")
    assert find_arithmetic("float32", cpu) == "float32"
    assert find_arithmetic("tf32", gpu) == "tf32"
    with without_instructions("avx512_bf16"), without_integers():
        assert find_arithmetic("bfloat16", cpu) == "bfloat16 (rounded)"
        assert find_arithmetic("bfloat16", gpu) == "bfloat16"
        assert find_arithmetic("float16", cpu) == "float16"
        assert find_arithmetic("float32", cpu) == "float32"


@needs_int16
def test_bfloat16_without_its_instructions_is_int16() -> None:
    with without_instructions("avx512_bf16"):
        assert find_arithmetic("bfloat16", torch.device("cpu")) == "bfloat16 (int16)"


@pytest.mark.skipif("AVX2" not in PROCESSORS, reason="needs kernels for AVX2")
def test_bfloat16_with_avx2_alone_is_int16() -> None:
    with processor("AVX2"), without_instructions("avx_vnni"):
        assert find_arithmetic("bfloat16", torch.device("cpu")) == "bfloat16 (int16)"


def test_bfloat16_with_avx512_alone_is_rounded() -> None:
    with processor("AVX512"), without_instructions("avx512_bf16", "vnni"):
        assert find_arithmetic("bfloat16", torch.device("cpu")) == "bfloat16 (rounded)"


@needs_bfloat16
def test_bfloat16_with_its_instructions_is_bfloat16() -> None:
    assert find_arithmetic("bfloat16", torch.device("cpu")) == "bfloat16"


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_lower_precision_on_a_gpu_is_near_that_of_the_cpu(
    golden: Golden, gpu: str, precision: Precision
) -> None:
    def embed(device: str) -> Any:
        embedder = ElmoEmbedder(model=golden.folder, precision=precision, device=device)
        return np.concatenate(embedder.embed_batch(golden.sentences[:2]), axis=1)

    here = embed("cpu")
    there = embed(gpu)
    assert np.linalg.norm(here - there) < 0.03 * np.linalg.norm(here)


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_a_gpu_computes_a_file_like_the_cpu(
    state: InitialState, gpu: str, tmp_path: Path
) -> None:
    for name in ("cpu", gpu):
        text = io.StringIO("the cat sat .\n\nthe bank\n" * 2)
        embedder = ElmoEmbedder(model=TINY, state=state, device=name)
        embedder.embed_file(text, tmp_path / name, batch_size=2)
    attributes_here, _, here = content(tmp_path / "cpu")
    attributes_there, _, there = content(tmp_path / gpu)
    assert attributes_here == attributes_there
    assert len(here) == 6
    for key, expected in here.items():
        assert_allclose(there[key], expected, atol=1e-5)
