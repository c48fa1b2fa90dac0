"""Build the files of a release into a folder: the sdist and the wheels.

    pip install -r packaging/requirements.txt
    python packaging/build_release.py dist
    python packaging/build_release.py dist --wheel pure --wheel aarch64

A wheel is `native` (with kernels for this Linux machine, the default), `aarch64` (with kernels by
the cross-compiler aarch64-linux-gnu-gcc) or `pure` (without kernels, for every other system).
Two builds of a commit by the same compiler give the same bytes.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CROSS: Final = {"ELMO_MACHINE": "aarch64", "CC": "aarch64-linux-gnu-gcc"}
KINDS: Final = {
    "native": {"ELMO_KERNELS": "require"},
    "aarch64": {"ELMO_KERNELS": "require", **CROSS},
    "pure": {"ELMO_KERNELS": "none"},
}
"""Environment variables of `hatch_build.py` for each kind of wheel."""


def main() -> None:
    """Build the sdist, build the chosen wheels from it, and check all of them."""
    parser = argparse.ArgumentParser(description="Build the sdist and the wheels of a release.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wheel", action="append", choices=KINDS, help="default: native and pure")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"SOURCE_DATE_EPOCH": commit_time()}
    run_python("-m", "build", "--no-isolation", "--sdist", "-o", folder, ROOT, env=environment)
    (sdist,) = folder.glob("elmo_cli-*.tar.gz")
    for kind in arguments.wheel or ["native", "pure"]:
        build_wheel(sdist, folder, environment | KINDS[kind])
    run_python("-m", "twine", "check", "--strict", *sorted(folder.glob("elmo_cli-*")))


def build_wheel(sdist: Path, folder: Path, environment: dict[str, str]) -> None:
    """Build a wheel from the sdist. Give one with kernels the lowest manylinux tag it allows."""
    with TemporaryDirectory() as temporary:
        run_python(
            *("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--no-cache-dir", "--wheel-dir", temporary, sdist),
            env=environment,
        )
        (wheel,) = Path(temporary).glob("*.whl")
        if wheel.name.endswith("-any.whl"):
            wheel.replace(folder / wheel.name)
        else:
            run_python("-m", "auditwheel", "repair", "-w", folder, wheel, env=environment)


def commit_time() -> str:
    """Return the time of the last commit, in seconds, or what SOURCE_DATE_EPOCH says."""
    if timestamp := os.environ.get("SOURCE_DATE_EPOCH"):
        return timestamp
    command = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def run_python(*arguments: str | Path, env: dict[str, str] | None = None) -> None:
    """Run a module with this Python, and raise an error if it fails."""
    subprocess.run([sys.executable, *arguments], check=True, env=env)


if __name__ == "__main__":
    main()
