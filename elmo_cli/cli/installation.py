"""Description of the installation, for bug reports."""

import platform
import re
from pathlib import Path
from typing import Final

from elmo_cli.errors.wording import counted
from elmo_cli.version import __version__

_AMX: Final = "AMX"
_AVX2: Final = "AVX2"
_GAINS: Final = {
    _AMX: "bfloat16 is 4.2 times as fast as float32 (error 0.5%)",
    "bfloat16": (
        "int8 is 2.5 times as fast as float32 (error 1.5%), bfloat16 1.8 times (0.5%)"
    ),
    "bfloat16 (int16)": (
        "int8 is 1.7 times as fast as float32 (error 1.9%), bfloat16 1.5 times (0.2%)"
    ),
    _AVX2: "bfloat16 is 1.3 times as fast as float32 (error 0.2%)",
    "bfloat16 (rounded)": "float32 is the fastest",
}
"""Precisions from the fastest, by the arithmetic of bfloat16. docs/performance.md says
where they were measured."""


def describe_installation() -> dict[str, str]:
    """Describe versions, processor, kernels and devices, for reports of errors."""
    from importlib import metadata

    import torch

    processor = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        match = re.search(r"model name\s*: (.*)", cpus.read_text("utf-8"))
        if match is not None:
            processor = match[1]
    n_gpus = torch.cuda.device_count()
    devices = [
        f"cuda:{each} ({torch.cuda.get_device_name(each)})" for each in range(n_gpus)
    ]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    packages = [
        f"{name} {metadata.version(name)}"
        for name in ("torch", "numpy", "h5py", "click")
    ]
    return {
        "elmo-cli": f"{__version__}, in {Path(__file__).parents[1]}",
        "Python": f"{platform.python_version()}, on {platform.platform()}",
        "packages": ", ".join(packages),
        "processor": f"{processor}, {counted(torch.get_num_threads(), 'thread')}",
        "kernels": _describe_kernels(),
        "precisions": _describe_precisions(),
        "devices": ", ".join(["cpu", *devices]),
    }


def _describe_kernels() -> str:
    """Return for which kind of processor the kernels were compiled, if they were."""
    import torch

    from elmo_cli.compiled.kernels import has_kernel, has_tiles

    if not has_kernel("run"):
        return "not compiled"
    capability = torch.backends.cpu.get_cpu_capability()
    return f"compiled for {capability}{' with AMX' if has_tiles() else ''}"


def _describe_precisions() -> str:
    """Return which precision is the fastest on this kind of processor."""
    import torch

    from elmo_cli.compiled.kernels import has_kernel, has_tiles, has_vnni
    from elmo_cli.inference.device import CPU
    from elmo_cli.inference.precision import ROUNDED, find_arithmetic

    if not has_kernel("run"):
        return "not measured without kernels"
    if has_tiles():
        return _GAINS[_AMX]
    arithmetic = find_arithmetic("bfloat16", CPU)
    if arithmetic == ROUNDED or torch.backends.cpu.get_cpu_capability() == "AVX512":
        return _GAINS[arithmetic]
    if has_vnni():  # AVX-VNNI
        return "not measured on this kind of processor"
    return _GAINS[_AVX2]
