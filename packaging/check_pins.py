"""Check that the pins in constraints.txt fit every supported Python and system.

    pip install uv
    python packaging/check_pins.py

Nothing is installed: uv reads the metadata of packages and evaluates markers for the
Python that it resolves for. `pip install --dry-run --python-version` evaluates them for
the running Python.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LINUX: Final = "x86_64-manylinux_2_28"
OTHERS: Final = ("windows", "aarch64-apple-darwin", "aarch64-manylinux_2_28")
ENVIRONMENT: Final = {
    "MACOSX_DEPLOYMENT_TARGET": "14.0",  # torch has no wheel for older ones.
    # The running Python is enough to resolve for others.
    "UV_PYTHON_DOWNLOADS": "never",
}


def main() -> int:
    """Resolve the pins for each Python and system, and print each result."""
    os.chdir(ROOT)
    pythons = supported_pythons()
    # sentencex has no wheel for Python 3.10 on macOS.
    pairs = [(python, LINUX) for python in pythons]
    for python in (pythons[1], pythons[-1]):
        pairs += [(python, system) for system in OTHERS]
    with ThreadPoolExecutor(4) as pool:  # The network is slower than the solver.
        results = list(pool.map(lambda pair: resolve(*pair), pairs))
    for (python, system), error in zip(pairs, results, strict=True):
        print(f"Python {python}, {system}: {error or 'resolved'}")
    return int(any(results))


def supported_pythons() -> list[str]:
    """Return the Python versions in pyproject.toml's classifiers, oldest first."""
    text = Path("pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def resolve(python: str, system: str) -> str:
    """Resolve all extras within the pins. Return the error, or an empty string."""
    command = ["uv", "pip", "compile", "pyproject.toml", "--all-extras"]
    command += ["-c", "constraints.txt"]
    command += ["--python-version", python, "--python-platform", system]
    command += ["--only-binary", ":all:", "--quiet", "--output-file", os.devnull]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | ENVIRONMENT,
    )
    return result.stderr.strip() if result.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
