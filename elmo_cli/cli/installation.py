"""Description of the installation, for bug reports."""

import platform
import re
from pathlib import Path

from elmo_cli.errors.wording import counted
from elmo_cli.version import __version__


def describe_installation() -> dict[str, str]:
    """Describe versions, processor, kernels and devices, for reports of errors."""
    from importlib import metadata

    import torch

    from elmo_cli.compiled.kernels import has_kernel, has_tiles

    processor = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        match = re.search(r"model name\s*: (.*)", cpus.read_text("utf-8"))
        if match is not None:
            processor = match[1]
    kernels = f"compiled for {torch.backends.cpu.get_cpu_capability()}"
    kernels += " with AMX" if has_tiles() else ""
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
        "kernels": kernels if has_kernel("run") else "not compiled",
        "devices": ", ".join(["cpu", *devices]),
    }
