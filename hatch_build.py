"""Compiles `elmo_cli/compiled_cells.c` when the package is built, where there is a C compiler.

Without one the package is as right, only slower: see `docs/performance.md`.
"""

import os
import platform
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROCESSORS = {
    "AVX2": ["-mavx2", "-mfma"],
    "AVX512": [
        *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"),
        "-mprefer-vector-width=512",
    ],
}
"""The compiler's flags for what torch says that a processor has."""

COMPILE = ["-O3", "-std=c11", "-fPIC", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"]
"""Not -ffast-math: it would take the rounding to whole numbers for nothing."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts a library for each kind of processor beside the source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel hold what was made."""
        if sys.platform != "linux" or platform.machine() != "x86_64":
            return  # elsewhere it has not been measured
        package = Path(self.root, "elmo_cli")
        try:
            made = compiled(package / "compiled_cells.c")
            for old in package.glob("compiled_cells.*.so"):
                old.unlink()
            for name, library in made.items():
                (package / name).write_bytes(library)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"compiled_cells.c was not compiled: {error}")
            return
        build_data["artifacts"] += [f"/elmo_cli/{name}" for name in made]
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"


def compiled(source: Path) -> dict[str, bytes]:
    """The libraries by the names under which `compiled_cells.py` looks for them."""
    compiler = os.environ.get("CC", "cc")
    digest = sha256(source.read_bytes()).hexdigest()[:8]
    made = {}
    with TemporaryDirectory() as folder:
        parts, library = Path(folder, "cells.o"), Path(folder, "cells.so")
        for processor, flags in PROCESSORS.items():
            subprocess.run([compiler, *COMPILE, *flags, "-c", source, "-o", parts], check=True)
            # Linked without -fopenmp: the library of OpenMP is to be the one that torch has.
            subprocess.run([compiler, "-shared", parts, "-o", library], check=True)
            made[f"compiled_cells.{digest}.{processor}.so"] = library.read_bytes()
    return made
