"""Check a change in about a minute: lint, types, pages, tests of changed folders.

    python packaging/check_change.py [BASE]

BASE is the branch or commit to compare with; `main` by default. A folder of the package
has its tests in a folder of tests/ that has its name, or in those of `TESTED_IN`. A
change of a file that everything uses needs `pytest` as well, which the last line says.
Hints about the wording of changed files are printed, but never fail a change.
"""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ROOT / "tests"
CHECKS: Final = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    (sys.executable, "docs/make_commands.py", "--check"),
)
PYTEST: Final = (sys.executable, "-m", "pytest", "-q")
_NO_TESTS: Final = 5
"""Exit status of pytest if no test was chosen."""
_PAGE: Final = re.compile(r"docs/[^/]+\.md")
ALWAYS: Final = ("test_imports.py",)
"""Tests of the code as a whole, which take some seconds."""
TESTED_IN: Final = {
    "compiled": (
        "test_packaging.py",  # It fails if the kernels were not compiled again.
        "compiled",
        "inference",
        "language_model/test_softmax.py",
        "training/test_loss.py",
    ),
    "files": ("files", "outputs", "errors"),
    "options": ("options", "cli", "errors"),
    "records": ("records", "text"),
    "engine.py": ("inference", "runs"),
    "runs": ("runs", "outputs"),
}
"""Tests of a folder or file of the package where they are not called like it."""
OTHER_TESTS: Final = {
    "benchmarks": "test_benchmarks.py",
    "evaluation": "evaluation",
    "packaging": "test_packaging.py",
    "hatch_build.py": "test_packaging.py",
    "examples": "docs",
}
"""Tests for what is beside the package."""


def main() -> int:
    """Run the checks side by side, and print what fails."""
    changed = changed_files(sys.argv[1] if len(sys.argv) > 1 else "main")
    tests = tests_of(changed)
    print("tests:", *(path.relative_to(ROOT) for path in tests))
    commands = [*CHECKS, (*PYTEST, *map(str, tests))]
    pages = pages_of(changed)
    if pages:
        print("pages:", *pages)
        of_pages = " or ".join(pages)
        commands.append((*PYTEST, "tests/docs/test_pages_run.py", "-k", of_pages))
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(run, commands))
    status = 0
    for command, result in zip(commands, results, strict=True):
        # A page without commands has no test.
        if result.returncode not in (0, _NO_TESTS):
            status = 1
            print(f"\n== {' '.join(command)}\n{result.stdout}{result.stderr}")
    print_wording_hints(changed)
    shared = [path for path in changed if is_shared(path)]
    if shared:
        print(f"Run pytest as well: all tests use {', '.join(shared)}.")
    return status


def print_wording_hints(changed: list[str]) -> None:
    """Print what `check_language.py` reports about the changed files in Python."""
    files = [
        name for name in changed if name.endswith(".py") and (ROOT / name).exists()
    ]
    if files:
        print(
            run((sys.executable, "packaging/check_language.py", *files)).stdout, end=""
        )


def changed_files(base: str) -> list[str]:
    """Return the paths that differ from where this branch left `base`, or are new."""
    start = git("merge-base", base, "HEAD")[0]
    changed = git("diff", "--name-only", start)
    new = git("ls-files", "-o", "--exclude-standard")
    return sorted({*changed, *new})


def git(*arguments: str) -> list[str]:
    """Return the lines that a command of git prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout.splitlines()


def tests_of(changed: list[str]) -> list[Path]:
    """Return the folders and files of tests for the files that changed."""
    tests = {TESTS / name for name in ALWAYS}
    for name in changed:
        first, *rest = Path(name).parts
        if first == "tests" and rest[-1].startswith("test_"):
            tests.add(ROOT / name)
        elif first == "tests" and len(rest) > 1:  # transcripts and such
            tests.add(TESTS / rest[0])
        elif first == "elmo_cli":
            tests.update(TESTS / test for test in tests_of_package(rest[0]))
        elif first in OTHER_TESTS:
            tests.add(TESTS / OTHER_TESTS[first])
        elif first == "docs" or name.endswith(".md"):
            tests.add(TESTS / "docs" / "test_docs.py")
    return sorted(path for path in tests if path.exists())


def pages_of(changed: list[str]) -> list[str]:
    """Return the changed pages whose commands `test_pages_run.py` runs."""
    return [name for name in changed if name == "README.md" or _PAGE.fullmatch(name)]


def tests_of_package(name: str) -> tuple[str, ...]:
    """Return the tests of a folder of the package, or of a file beside the folders."""
    if name.endswith(".py"):
        return TESTED_IN.get(name, (f"test_{name}",))
    return TESTED_IN.get(name, (name,))


def is_shared(name: str) -> bool:
    """Return whether tests of other folders use a file."""
    path = Path(name)
    if path.parts[:2] in (("tests", "support"), ("tests", "golden"), ("tests", "data")):
        return True
    is_beside = path.parts[0] in ("elmo_cli", "tests") and len(path.parts) == 2
    return name == "pyproject.toml" or (is_beside and not path.name.startswith("test_"))


def run(command: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    """Run a command in the checkout."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
