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

COMPILE = [
    *("-O3", "-std=c11", "-fPIC", "-fopenmp-simd"),
    *("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"),
]
"""Not -ffast-math: it would take the rounding to whole numbers for nothing."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts a library for each kind of processor beside the source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel hold what was made."""
        if sys.platform != "linux" or platform.machine() != "x86_64":
            return  # elsewhere it has not been measured
        source = Path(self.root, "elmo_cli", "compiled", "kernels.c")
        self._folder = TemporaryDirectory()
        folder = source.parent if version == "editable" else Path(self._folder.name)
        try:
            for old in folder.glob("kernels.*.so"):
                old.unlink()
            made = [compiled(source, folder, processor) for processor in PROCESSORS]
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"{source.name} was not compiled: {error}")
            return
        build_data["force_include"].update(
            {str(path): f"elmo_cli/compiled/{path.name}" for path in made}
        )
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def digest_of(source: Path) -> str:
    """What stands for the source in the name of a library, as in `kernels.py`."""
    files = sorted(source.parent.glob("kernels*.[ch]"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def compiled(source: Path, folder: Path, processor: str) -> Path:
    """Make the library for a kind of processor, of the name that `kernels.py` looks for.

    Raises:
        OSError: there is no compiler.
        CalledProcessError: it failed.
    """
    compiler = shlex.split(os.environ.get("CC", "cc"))
    digest = digest_of(source)
    library = folder / f"kernels.{digest}.{processor}.so"
    with TemporaryDirectory() as name:
        parts, linked = Path(name, "kernels.o"), Path(name, "kernels.so")
        flags = [*COMPILE, *PROCESSORS[processor]]
        subprocess.run([*compiler, *flags, "-c", source, "-o", parts], check=True)
        # Linked without a library of OpenMP, which is to be the one that torch has loaded.
        subprocess.run([*compiler, "-shared", parts, "-o", linked], check=True)
        library.write_bytes(linked.read_bytes())
    return library
