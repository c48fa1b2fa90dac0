"""Description of the measured program and of the machine."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import h5py
import torch

import elmo_cli
from elmo_cli.compiled.kernels import find_kernel


def describe() -> dict[str, str]:
    """Return the processor, cores, GPU, versions and commit."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "compiled": ", ".join(
            name for name in ("product_float32", "product_bfloat16") if find_kernel(name)
        ),
        "threads": str(torch.get_num_threads()),
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "elmo_cli": elmo_cli.__version__,
        "torch": torch.__version__,
        "h5py": h5py.__version__,
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _commit() -> str:
    """Return the commit that was measured, or "unknown" outside a checkout."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"
