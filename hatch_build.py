"""Compiles `elmo_cli/compiled/kernels.c` when the package is built, where there is GCC or Clang.

Without it the package is as right, only slower: see `docs/performance.md`.
"""

import os
import platform
import shlex
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROCESSORS = {
    "x86_64": {
        "AVX2": ["-mavx2", "-mfma"],
        "AVX512": [
            *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"),
            "-mprefer-vector-width=512",
        ],
    },
    "aarch64": {"DEFAULT": [], "SVE128": [], "SVE256": []},  # NEON in all
}
"""The compiler's flags for what torch says that a processor of a machine has."""

COMPILE = [
    *("-O3", "-std=c11", "-fPIC", "-fopenmp-simd"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
]
"""Not -ffast-math: it would take the rounding to whole numbers for nothing."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts a library for each kind of processor beside the source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel hold what was made."""
        machine = platform.machine()
        if sys.platform != "linux" or machine not in PROCESSORS:
            return  # elsewhere it has not been tried
        folder = Path(self.root, "elmo_cli", "compiled")
        try:
            for old in folder.glob("kernels.*.so"):
                old.unlink()
            for processor, flags in PROCESSORS[machine].items():
                compile_kernels(folder, processor, flags)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"kernels.c was not compiled: {error}")
            return
        build_data["artifacts"].append("elmo_cli/compiled/kernels.*.so")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{machine}"


def compile_kernels(folder: Path, processor: str, flags: list[str]) -> None:
    """Make the library for a kind of processor, of the name that `kernels.py` looks for.

    Raises:
        OSError: there is no compiler.
        CalledProcessError: it failed.
    """
    files = sorted(folder.glob("kernels*.[ch]"))
    digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
    library = folder / f"kernels.{digest}.{processor}.so"
    compiler = [*shlex.split(os.environ.get("CC", "cc")), *COMPILE, *flags]
    # Linked without a library of OpenMP, which is to be the one that torch has loaded.
    subprocess.run([*compiler, "-shared", folder / "kernels.c", "-o", library], check=True)
