"""Rules about lines, which CONTRIBUTING names: each value has a line and a name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted([*ROOT.glob("elmo_cli/**/*.py"), *ROOT.glob("tests/**/*.py")])
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)


def binds_several_values(node: ast.Assign) -> bool:
    """Return whether an assignment lists several values, or has several targets."""
    if len(node.targets) > 1:
        return True
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def is_condition(node: ast.expr) -> bool:
    """Return whether an operand is a comparison or a negation."""
    is_negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_negation or isinstance(node, ast.Compare)


def breaches(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each breach of a rule, and what is there."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign() if binds_several_values(node):
                yield node.lineno, "several assignments"
            case ast.BinOp() if isinstance(node.op, ARITHMETIC):
                if is_condition(node.left) or is_condition(node.right):
                    yield node.lineno, "arithmetic on a condition"
            case ast.Call():
                for argument in node.args:
                    match argument:
                        case ast.Starred(value=ast.Tuple()):
                            yield node.lineno, "a tuple that is unpacked at once"


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param("a, b = 1, len(text)", id="two values"),
        pytest.param("a = b = 1", id="two targets"),
        pytest.param("n = 2 + (text == '')", id="comparison"),
        pytest.param("n = 2 * (not text)", id="negation"),
        pytest.param("f(*(a, b))", id="splat"),
    ],
)
def test_a_planted_breach_is_found(planted: str) -> None:
    assert [line for line, _ in breaches(f"first, last = span\n{planted}\n")] == [2]


def test_lines_are_plain() -> None:
    found = []
    for path in FILES:
        for line, problem in breaches(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(ROOT)}:{line}: {problem}")
    assert found == []
