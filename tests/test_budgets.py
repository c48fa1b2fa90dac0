"""Budgets of the package: lines per folder, files, names of modules, lines per function.

To raise a budget, change it in a commit of its own that says why.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import elmo_cli

PACKAGE = Path(elmo_cli.__file__).parent
_Node = TypeVar("_Node", ast.FunctionDef, ast.Call)

BUDGETS = {
    "analysis": 2_430,
    "cli": 3_550,
    "compiled": 220,
    "distributed": 1_200,
    "inference": 1_550,
    "integrations": 436,
    "language_model": 1_660,
    "model": 1_800,
    "outputs": 2_560,
    "pretrained": 1_265,
    "text": 2_745,
    "training": 1_985,
    "": 2_305,
}
"""Lines of Python per folder; the last are the files next to the folders."""
MAX_LINES = 23_590
MAX_FILES = 105
MAX_FUNCTION_LINES = 40
"""Lines of a function, without the signature and the docstring of a public one."""


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def nodes(kind: type[_Node]) -> Iterator[tuple[str, _Node]]:
    """Yield all nodes of a kind with their places."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, kind):
                yield f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno}", node


def n_lines(function: ast.FunctionDef) -> int:
    """Count the lines of a function, of a public one without its signature and docstring."""
    first = function.lineno
    if not function.name.startswith("_") or function.name == "__init__":
        body = function.body[1:] if ast.get_docstring(function) else function.body
        first = body[0].lineno if body else (function.end_lineno or first)
    return (function.end_lineno or first) - first + 1


def test_folders_and_package_stay_within_their_budgets() -> None:
    lines = Counter[str]()
    for path in sources():
        folder = path.relative_to(PACKAGE).parent.as_posix()
        lines["" if folder == "." else folder] += len(
            path.read_text("utf-8").splitlines()
        )
    assert lines.keys() == BUDGETS.keys()
    assert {folder: n for folder, n in lines.items() if n > BUDGETS[folder]} == {}
    assert lines.total() <= MAX_LINES
    assert len(sources()) <= MAX_FILES


def test_module_names_have_one_meaning() -> None:
    names = Counter(path.stem for path in sources() if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_functions_are_short() -> None:
    long = [
        f"{place} {function.name}"
        for place, function in nodes(ast.FunctionDef)
        if n_lines(function) > MAX_FUNCTION_LINES
    ]
    assert long == []


def test_calls_write_their_arguments_out() -> None:
    """Check that no call unpacks a tuple of known length, which hides the arguments' names."""
    splats = [
        place
        for place, call in nodes(ast.Call)
        for argument in call.args
        if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple)
    ]
    assert splats == []
