"""Build hook that compiles `elmo_cli/compiled/kernels.c`.

Without a compiler the package computes the same values, only slower: see
`docs/performance.md`. Two environment variables change what is compiled:

- `ELMO_KERNELS`: `auto` (the default) compiles where GCC or Clang is installed,
  `require` fails if that is impossible, and `none` makes a wheel for every system.
- `CC`: the compiler. By default `cc`.
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

PROCESSORS: dict[str, dict[str, list[str]]] = {
    "x86_64": {
        "AVX2": ["-mavx2", "-mfma"],
        "AVX512": [
            "-mavx512f",
            "-mavx512bw",
            "-mavx512dq",
            "-mavx512vl",
            "-mfma",
            "-mprefer-vector-width=512",
        ],
    },
    "aarch64": {"DEFAULT": [], "SVE128": [], "SVE256": []},  # NEON in all
}
"""Compiler flags for each capability of a processor that torch tells apart. A processor
without an entry, such as one without AVX2, has no library, and torch computes
everything."""

COMPILE = [
    "-O3",
    "-std=c11",
    "-fPIC",
    "-fopenmp-simd",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
]
"""Without -ffast-math, which would remove the rounding to whole numbers."""

LIBRARIES = "kernels.*.so"


class CustomBuildHook(BuildHookInterface[Any]):
    """Hook that adds one library per kind of processor to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels if that is possible, and give the wheel its tag."""
        machine = platform.machine()
        if self._compile(machine):
            build_data["artifacts"].append(f"elmo_cli/compiled/{LIBRARIES}")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-linux_{machine}"

    def _compile(self, machine: str) -> bool:
        """Compile the kernels for a machine. Return whether there are libraries now."""
        choice = os.environ.get("ELMO_KERNELS") or "auto"
        if choice not in ("auto", "require", "none"):
            raise ValueError(
                f"ELMO_KERNELS: unknown value {choice!r}. Use auto, require or none."
            )
        if choice == "none":
            return False
        try:
            if sys.platform != "linux" or machine not in PROCESSORS:
                raise OSError(f"{sys.platform} on {machine} is untested")
            folder = Path(self.root, "elmo_cli", "compiled")
            for old in folder.glob(LIBRARIES):
                old.unlink()
            for processor, flags in PROCESSORS[machine].items():
                compile_kernels(folder, processor, flags)
        except (OSError, subprocess.CalledProcessError) as error:
            if choice == "require":
                raise
            self.app.display_warning(f"kernels.c was not compiled: {error}")
            return False
        return True


def compile_kernels(folder: Path, processor: str, flags: list[str]) -> None:
    """Compile the library for a kind of processor, named as `kernels.py` says.

    Raises:
        OSError: The compiler is missing.
        CalledProcessError: The compiler failed.
    """
    files = sorted(folder.glob("kernels*.[ch]"))
    digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
    library = folder / f"kernels.{digest}.{processor}.so"
    command = [
        *shlex.split(os.environ.get("CC", "cc")),
        *COMPILE,
        *flags,
        # The library is linked without OpenMP: it has to share the one of torch.
        "-shared",
        "-s",
        str(folder / "kernels.c"),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True)
