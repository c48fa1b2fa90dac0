"""`pytest --accept`: write what commands print into the transcripts.

The test of an example that printed something else passes, and its transcript is changed
after the last test. The changes are shown as a diff: read them as you would read a
patch.
"""

import difflib
import os
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from tests.support.transcripts import Example, run_example

ROOT = Path(__file__).parents[2]
PROPERTY = "accepted lines"


class Change(NamedTuple):
    """Lines of a transcript that are replaced."""

    path: str
    line: int
    """Number of the command's line, from 1."""
    n_lines: int
    """Number of lines below it that are replaced."""
    lines: list[str]


_changes: list[Change] = []


class CheckExample(Protocol):
    """Function that runs an example, and fails if it prints something else.

    A command that fails must leave no file, unless `may_leave_files`.
    """

    def __call__(self, example: Example, *, may_leave_files: bool = False) -> None:
        """Run the example in the current folder."""


@pytest.fixture
def check_example(request: pytest.FixtureRequest) -> CheckExample:
    """Return a function that runs an example, and fails if it prints something else."""

    def check(example: Example, *, may_leave_files: bool = False) -> None:
        printed = run_example(example, may_leave_files=may_leave_files)
        if example.expected.matches(printed):
            return
        path = example.path.relative_to(ROOT)
        if request.config.getoption("accept"):
            change = Change(
                path=str(path),
                line=example.line,
                n_lines=example.n_lines,
                lines=printed.lines(),
            )
            request.node.user_properties.append((PROPERTY, tuple(change)))
        else:
            difference = "\n".join(
                difflib.ndiff(example.expected.lines(), printed.lines())
            )
            message = f"{path}:{example.line}: {example.command}\n{difference}"
            pytest.fail(message, pytrace=False)

    return check


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --accept."""
    help_text = "write what commands print into the transcripts, and show a diff"
    parser.addoption("--accept", action="store_true", help=help_text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to change transcripts on a machine for continuous integration."""
    if config.getoption("accept") and os.environ.get("CI"):
        raise pytest.UsageError(
            "--accept changes files, so it never runs where CI is set"
        )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the changes of a test. With xdist, its main process runs this."""
    if report.when == "call":
        for name, value in report.user_properties:
            if name == PROPERTY:
                _changes.append(Change(*value))  # type: ignore[misc]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Change the transcripts, and show how."""
    if hasattr(config, "workerinput"):  # a worker of xdist, which knows a part only
        return
    changes_of: dict[str, list[Change]] = defaultdict(list)
    for change in _changes:
        changes_of[change.path].append(change)
    for name, changes in sorted(changes_of.items()):
        path = ROOT / name
        old = path.read_text(encoding="utf-8").splitlines()
        new = changed_lines(old, changes)
        path.write_text("".join(f"{line}\n" for line in new), encoding="utf-8")
        terminalreporter.section(f"accepted: {name}")
        diff = difflib.unified_diff(old, new, name, name, lineterm="")
        for line in diff:
            terminalreporter.write_line(line)


def changed_lines(lines: list[str], changes: list[Change]) -> list[str]:
    """Return the lines of a transcript after changes."""
    new = list(lines)
    # From the last to the first, so that line numbers stay right.
    for change in sorted(changes, key=lambda change: change.line, reverse=True):
        new[change.line : change.line + change.n_lines] = change.lines
    return new
