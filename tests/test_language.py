"""Rules of CONTRIBUTING.md that a machine can check: docstrings, comments, phrases, test names."""

import ast
import io
import re
import tokenize
from functools import cache
from itertools import pairwise
from pathlib import Path

TESTS = Path(__file__).parent
FOLDERS = ("elmo_cli", "tests", "benchmarks", "evaluation", "examples", "packaging")

NO_VERB = re.compile(
    r"(The|A|An|One|Some|All|Those|These|That|This|What|How|Where|Whether|Which|Why|When|Of|In|From|"
    r"For|At|By|Its|Shape|None|Nothing|Each|Every|Same|About|So|Not|With|Float|Int64)\b"
)
"""First words that no function's docstring has: it begins with an imperative verb."""
NOUN_CLAUSE = re.compile(
    r"(What|How|Where|Whether|Which|Why|The same|Of|Those|Its|That of)\b"
)
"""First words that no docstring of a class, module, property or attribute has."""
TORN_OFF = re.compile(r"# *(which|whose|of|that)\b")
"""Beginnings of comments that are no sentences."""
PHRASES = (
    r"\b(anew|alike|thereof|wherein|to be had|had by|by reckoning|used up|at the least)\b",
    r"\b(is|are) (none|said|told|asked|wanted|meant)\b",
    r"\b(so many|beside the|nobody|whoever|stands for|no such)\b",
    r"\b(that|those) of\b",
    r"\b[Tt]he same([,.;:)]| as | in | on | for | with | by | is | of )",
    r"\b(a|one) (vector|line|dataset|word|sentence|file|row|token) an? "
    r"(vector|line|dataset|word|sentence|file|row|token)\b",
)
"""Phrases that a reader has to read twice; CONTRIBUTING.md has the alternatives."""
MAX_TEST_NAME = 60
"""Characters in the name of a test, at most."""


def sources() -> list[Path]:
    files = [
        path for name in FOLDERS for path in sorted((TESTS.parent / name).rglob("*.py"))
    ]
    return [path for path in files if path != Path(__file__)]


@cache
def docstrings() -> list[tuple[bool, str]]:
    """Return whether each docstring is a function's, and its text."""
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                decorators = getattr(node, "decorator_list", [])
                is_property = any(
                    "property" in ast.unparse(each) for each in decorators
                )
                if text := ast.get_docstring(node):
                    found.append(
                        (isinstance(node, ast.FunctionDef) and not is_property, text)
                    )
            body = getattr(node, "body", None)
            for first, second in pairwise(body) if isinstance(body, list) else ():
                is_text = isinstance(second, ast.Expr) and isinstance(
                    second.value, ast.Constant
                )
                if isinstance(first, (ast.Assign, ast.AnnAssign)) and is_text:
                    found.append((False, str(second.value.value)))
    return found


@cache
def comments() -> list[str]:
    """Return all comments, in C in the form of Python's."""
    found = []
    for path in TESTS.parent.glob("elmo_cli/**/*.[ch]"):
        for comment in re.findall(r"/\*(.*?)\*/", path.read_text("utf-8"), re.DOTALL):
            found.append(f"# {' '.join(comment.split())}")
    for path in sources():
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
        found += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return found


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    for is_function, text in docstrings():
        assert not (NO_VERB if is_function else NOUN_CLAUSE).match(text), text


def test_comments_are_no_torn_off_clauses() -> None:
    assert [text for text in comments() if TORN_OFF.match(text)] == []


def test_texts_have_no_phrase_that_is_read_twice() -> None:
    texts = [text for _, text in docstrings()] + comments()
    pattern = re.compile("|".join(PHRASES))
    assert [text[:80] for text in texts if pattern.search(" ".join(text.split()))] == []


def test_names_of_tests_are_short() -> None:
    names = [
        name
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))
    ]
    assert [name for name in names if len(name) > MAX_TEST_NAME] == []
