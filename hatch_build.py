"""Build hook that compiles `elmo_cli/compiled/kernels.c` and writes the SBOM of the wheel.

Without a compiler the package computes the same values, only slower: see `docs/performance.md`.
Two environment variables change what is compiled:

- `ELMO_KERNELS`: `auto` (the default) compiles where GCC or Clang is installed, `require` fails if
  that is impossible, and `none` makes a wheel for every system.
- `CC`: the compiler. By default `cc`.
"""

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
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
"""Compiler flags for each capability of a processor that torch tells apart. A processor without an
entry, such as one without AVX2, has no library, and torch computes everything."""

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
MODEL = "elmo_cli/data/mini"


class CustomBuildHook(BuildHookInterface[Any]):
    """Hook that adds one library per kind of processor, and an SBOM, to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels if that is possible, and give the wheel its tag."""
        machine = platform.machine()
        if self._compile(machine):
            build_data["artifacts"].append(f"elmo_cli/compiled/{LIBRARIES}")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-linux_{machine}"
        if version == "standard":
            self._folder = TemporaryDirectory()
            path = Path(self._folder.name, "elmo-cli.cdx.json")
            has_kernels = not build_data["pure_python"]
            path.write_text(self._sbom(has_kernels), encoding="utf-8", newline="\n")
            build_data["sbom_files"].append(str(path))

    def finalize(
        self, version: str, build_data: dict[str, Any], artifact_path: str
    ) -> None:
        """Remove the temporary file of the SBOM."""
        if version == "standard":
            self._folder.cleanup()

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

    def _sbom(self, has_kernels: bool) -> str:
        """Return the contents of the wheel and its requirements as a CycloneDX document."""
        metadata = self.metadata.core
        name = {"name": metadata.name, "version": self.metadata.version}
        licences = [{"license": {"id": metadata.license_expression}}]
        purl = f"pkg:pypi/{name['name']}@{name['version']}"
        main = {
            "type": "application",
            "bom-ref": purl,
            **name,
            "purl": purl,
            "licenses": licences,
        }
        root = Path(self.root)
        files = [
            (path, "machine-learning-model")
            for path in sorted((root / MODEL).glob("*.hdf5"))
        ]
        if has_kernels:
            libraries = sorted((root / "elmo_cli" / "compiled").glob(LIBRARIES))
            files += [(path, "library") for path in libraries]
        components = [file_component(path, kind, root) for path, kind in files]
        components += map(requirement_component, sorted(metadata.dependencies))
        document = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": main},
            "components": components,
            "dependencies": [
                {
                    "ref": purl,
                    "dependsOn": [component["bom-ref"] for component in components],
                }
            ],
        }
        return json.dumps(document, indent=2) + "\n"


def file_component(path: Path, kind: str, root: Path) -> dict[str, Any]:
    """Return the entry of a file that the wheel contains."""
    name = path.relative_to(root).as_posix()
    digest = sha256(path.read_bytes()).hexdigest()
    hashes = [{"alg": "SHA-256", "content": digest}]
    return {"type": kind, "bom-ref": name, "name": name, "hashes": hashes}


def requirement_component(requirement: str) -> dict[str, Any]:
    """Return the entry of a package that pip installs next to the wheel."""
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    purl = f"pkg:pypi/{match[0].lower().replace('_', '-')}"
    properties = [{"name": "requirement", "value": requirement}]
    reference = {"bom-ref": purl, "purl": purl}
    return {"type": "library", "name": match[0], **reference, "properties": properties}


def compile_kernels(folder: Path, processor: str, flags: list[str]) -> None:
    """Compile the library for a kind of processor, under the name that `kernels.py` looks for.

    Raises:
        OSError: The compiler is missing.
        CalledProcessError: The compiler failed.
    """
    files = sorted(folder.glob("kernels*.[ch]"))
    digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
    library = folder / f"kernels.{digest}.{processor}.so"
    compiler = [*shlex.split(os.environ.get("CC", "cc")), *COMPILE, *flags]
    # The library is linked without OpenMP, because it has to share the one that torch has loaded.
    link = ["-shared", "-s", str(folder / "kernels.c"), "-o", str(library)]
    subprocess.run([*compiler, *link], check=True)
