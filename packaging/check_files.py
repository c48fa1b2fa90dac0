"""Check the files of a release: their contents, and which one pip chooses.

    python packaging/check_files.py dist
    python packaging/check_files.py dist --tag v0.1.0

With `--tag`, also check that the tag, the change log and the address of the project fit
a release. It needs only the standard library and pip.
"""

import argparse
import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[1]
NEEDED: Final = (
    "/licenses/LICENSE",
    "/py.typed",
    "/elmo_cli/__init__.pyi",
    "/weights.hdf5",
    "/models.json",
)
CHOICES: Final = {
    "manylinux_2_17_x86_64": "x86_64",
    "manylinux_2_17_aarch64": "aarch64",
    "win_amd64": "any",
    "macosx_14_0_arm64": "any",
    "musllinux_1_2_x86_64": "any",
}
"""End of the name of the chosen wheel, on each system."""


def main() -> None:
    """Run all checks, and end with a message if one fails."""
    parser = argparse.ArgumentParser(description="Check the files of a release.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", help="such as v0.1.0")
    arguments = parser.parse_args()
    wheels = sorted(arguments.folder.glob("*.whl"))
    problems = [problem for wheel in wheels for problem in content_problems(wheel)]
    problems += choice_problems(arguments.folder, wheels)
    if arguments.tag:
        problems += tag_problems(arguments.tag)
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(wheels)} wheels: contents and choices are right.")


def content_problems(wheel: Path) -> list[str]:
    """Return what a wheel lacks."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    needed = [
        name for name in NEEDED if not any(f"/{each}".endswith(name) for each in names)
    ]
    problems = [f"{wheel.name}: no file ...{name}" for name in needed]
    has_kernels = any(name.endswith(".so") for name in names)
    if has_kernels == wheel.name.endswith("-any.whl"):
        problems.append(f"{wheel.name}: has kernels: {has_kernels}")
    return problems


def choice_problems(folder: Path, wheels: list[Path]) -> list[str]:
    """Return the systems for which pip does not choose the best wheel in a folder."""
    problems = []
    for system, ending in CHOICES.items():
        has_own = any(wheel.stem.endswith(ending) for wheel in wheels)
        expected = ending if has_own else "any"
        with TemporaryDirectory() as temporary:
            command = [sys.executable, "-m", "pip", "download", "--quiet"]
            command += ["--isolated", "--no-deps", "--only-binary=:all:"]
            command += ["--no-index", "--find-links", str(folder)]
            command += ["--platform", system, "--dest", temporary, "elmo-cli"]
            subprocess.run(command, check=True)
            (chosen,) = Path(temporary).iterdir()
        if not chosen.stem.endswith(expected):
            problems.append(f"{system}: pip chooses {chosen.name}")
    return problems


def tag_problems(tag: str) -> list[str]:
    """Return what is left to do before a commit can be released under a tag."""
    text = (ROOT / "elmo_cli" / "version.py").read_text(encoding="utf-8")
    (assignment,) = (
        node for node in ast.parse(text).body if isinstance(node, ast.Assign)
    )
    version = ast.literal_eval(assignment.value)
    problems = []
    if tag != f"v{version}":
        problems.append(f"elmo_cli/version.py: version {version}, but the tag is {tag}")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(section, changes, re.M):
        problems.append(f"CHANGELOG.md: no section `## [{version}] - YEAR-MONTH-DAY`")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    if re.search(r'^repository = ""', project, re.M):
        problems.append(
            "pyproject.toml: the address of the project is empty. Set `repository`."
        )
    return problems


if __name__ == "__main__":
    main()
