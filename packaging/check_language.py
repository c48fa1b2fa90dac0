"""Report wording that a reader may have to read twice.

    python packaging/check_language.py [PATH...]

The Python and C files in the paths are read, by default all of the project. Each
finding is one line, `FILE:LINE: PROBLEM: TEXT`. Findings are hints, not errors: the
exit status is always 0. A person decides whether the sentence is good; CONTRIBUTING.md
has the rules.
"""

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = (
    "elmo_cli",
    "tests",
    "benchmarks",
    "evaluation",
    "examples",
    "packaging",
)
NOT_A_VERB: Final = re.compile(
    r"(The|A|An|One|Some|All|Those|These|That|This|What|How|Where|Whether|Which|Why|"
    r"When|Of|In|From|For|At|By|Its|Shape|None|Nothing|Each|Every|Same|About|So|Not|"
    r"With|Float|Int64)\b"
)
"""First words of a docstring that does not begin with an imperative verb."""
NOT_A_NOUN: Final = re.compile(
    r"(What|How|Where|Whether|Which|Why|The same|Of|Those|Its|That of)\b"
)
"""First words of a docstring that does not begin with a noun."""
NOT_A_SENTENCE: Final = re.compile(r"(which|whose|of|that)\b")
"""First words of comments that are not sentences."""
HARD_PHRASES: Final = re.compile(
    "|".join(
        [
            r"\b(anew|alike|thereof|wherein|to be had|had by|used up|at the least)\b",
            r"\b(is|are) (none|said|told|asked|wanted|meant)\b",
            r"\b(so many|beside the|nobody|whoever|stands for|no such)\b",
            r"\b(that|those) of\b",
            r"\b[Tt]he same([,.;:)]| as | in | on | for | with | by | is | of )",
        ]
    )
)
MAX_TEST_NAME: Final = 60
"""Characters in the name of a test, at most."""


class Text(NamedTuple):
    """A docstring or a comment."""

    line: int
    text: str


def main() -> None:
    """Print all findings."""
    given = [Path(name) for name in sys.argv[1:]]
    paths = files_in(given or [ROOT / folder for folder in FOLDERS])
    n_findings = 0
    for path in paths:
        for line, problem, text in findings_of(path):
            name = os.path.relpath(path, ROOT)
            print(f"{name}:{line}: {problem}: {text[:80]}")
            n_findings += 1
    print(f"{n_findings} findings in {len(paths)} files")


def files_in(paths: list[Path]) -> list[Path]:
    """Return the files, and the Python and C files in the folders, except this one."""
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            sys.exit(f"{path}: no such file")
        if not path.is_dir():
            files.append(path)
            continue
        for pattern in ("*.py", "*.c", "*.h"):
            files += sorted(path.rglob(pattern))
    return [file for file in files if not file.samefile(__file__)]


def findings_of(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the problem and the text of each finding in a file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        comments = list(c_comments(source))
        yield from comment_findings(comments)
        yield from phrase_findings(comments)
        return
    tree = ast.parse(source)
    of_functions = list(function_docstrings(tree))
    others = list(other_docstrings(tree))
    comments = list(python_comments(source))
    for line, text in of_functions:
        if NOT_A_VERB.match(text):
            yield line, "does not begin with a verb", text
    for line, text in others:
        if NOT_A_NOUN.match(text):
            yield line, "does not begin with a noun", text
    yield from comment_findings(comments)
    yield from phrase_findings([*of_functions, *others, *comments])
    if path.name.startswith("test_"):
        yield from name_findings(tree)


def comment_findings(comments: list[Text]) -> Iterator[tuple[int, str, str]]:
    """Yield the comments that are not sentences."""
    for line, text in comments:
        if NOT_A_SENTENCE.match(text):
            yield line, "not a sentence", text


def phrase_findings(texts: list[Text]) -> Iterator[tuple[int, str, str]]:
    """Yield the texts that contain a phrase that is hard to read."""
    for line, text in texts:
        found = HARD_PHRASES.search(" ".join(text.split()))
        if found:
            yield line, f"hard to read: {found[0].strip()!r}", text.splitlines()[0]


def name_findings(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the names of tests that are too long."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            is_test = node.name.startswith("test_")
            if is_test and len(node.name) > MAX_TEST_NAME:
                yield node.lineno, f"longer than {MAX_TEST_NAME} characters", node.name


def function_docstrings(tree: ast.Module) -> Iterator[Text]:
    """Yield the docstrings of functions, except those of properties."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not is_property(node):
            text = ast.get_docstring(node)
            if text:
                yield Text(node.lineno, text)


def other_docstrings(tree: ast.Module) -> Iterator[Text]:
    """Yield the docstrings of modules, classes, properties and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module):
            text = ast.get_docstring(node)
            if text:
                yield Text(1, text)
        elif isinstance(node, ast.ClassDef) or (
            isinstance(node, ast.FunctionDef) and is_property(node)
        ):
            text = ast.get_docstring(node)
            if text:
                yield Text(node.lineno, text)
        if isinstance(node, ast.Module | ast.ClassDef):
            yield from attribute_docstrings(node.body)


def attribute_docstrings(body: list[ast.stmt]) -> Iterator[Text]:
    """Yield the texts that follow an assignment."""
    for first, second in pairwise(body):
        is_assignment = isinstance(first, ast.Assign | ast.AnnAssign)
        if is_assignment and isinstance(second, ast.Expr):
            value = second.value
            if isinstance(value, ast.Constant):
                yield Text(second.lineno, str(value.value))


def is_property(function: ast.FunctionDef) -> bool:
    """Return whether a function has a decorator such as `cached_property`."""
    return any("property" in ast.unparse(each) for each in function.decorator_list)


def python_comments(source: str) -> Iterator[Text]:
    """Yield the comments of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string.lstrip("# "))


def c_comments(source: str) -> Iterator[Text]:
    """Yield the comments of a C file."""
    for found in re.finditer(r"/\*(.*?)\*/", source, flags=re.DOTALL):
        line = source.count("\n", 0, found.start()) + 1
        yield Text(line, " ".join(found[1].split()))


if __name__ == "__main__":
    main()
