"""Names between backticks in docstrings and comments: each one is there in the code."""

import ast
import builtins
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import elmo_cli

PACKAGE = Path(elmo_cli.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`")
"""Name or dotted name that stands alone between backticks."""
NAMES_OF_OTHERS = {
    "numpy and torch": {
        "ATEN_CPU_CAPABILITY",
        "DataLoader",
        "collate_fn",
        "save_file",
        "step_torch",
        "torchrun",
    },
    "scikit-learn": {"set_output"},
    "spaCy": {"n_process", "spacy_factories", "to_disk"},
    "TensorFlow Hub": {"lstm_outputs1", "lstm_outputs2"},
    "Python": {"dir"},
    "click": {"auto_envvar_prefix"},
    "R and pandas": {"NA", "delim", "read_csv"},
    "programs and file formats": {"input_NAME", "nohup", "sent_id", "ustar"},
    "files of the project": {"hatch_build", "py"},
    "words of examples": {"X", "didn", "don", "end1"},
}
"""Names that the code does not use, by whom they belong to."""
OTHER_PACKAGES = ("numpy", "pyarrow", "torch")


def name_of(path: Path) -> str:
    """Return the name of a module without `elmo_cli.`."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the strings that are statements: docstrings, also those of constants."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as constant):
                yield constant


@cache
def used_names() -> set[str]:
    """Return all names in the code, and all words in its strings."""
    names = set()
    for names_of_one in NAMES_OF_OTHERS.values():
        names |= names_of_one
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        names |= set(name_of(path).split("."))
        tree = ast.parse(source)
        prose = {id(constant) for constant in docstrings(tree)}
        for node in ast.walk(tree):
            match node:
                case ast.Constant(value=str() as text) if id(node) not in prose:
                    names |= set(re.findall(r"\w+", text))
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME:
                names.add(token.string)
    return names


def packages() -> set[str]:
    """Return the names of the folders of modules."""
    return {path.parent.name for path in MODULES} - {PACKAGE.name}


@cache
def modules_by_name() -> dict[str, list[str]]:
    """Return the modules that define each name at their top level."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name].append(name_of(path))
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                for target in ast.walk(node):
                    if isinstance(target, ast.Name) and target.id not in dir(builtins):
                        found[target.id].append(name_of(path))
    return found


def is_stale(name: str) -> bool:
    """Return whether a name is nowhere in the code, or not in the module it names."""
    parts = name.split(".")
    if parts[0] in OTHER_PACKAGES:
        return False
    if not used_names().issuperset(parts):
        return True
    modules = modules_by_name().get(parts[-1])
    if modules is None and len(parts) == 2 and parts[0] in packages():
        return not any(f".{name_of(path)}".endswith(f".{name}") for path in MODULES)
    is_in_module = len(parts) > 1 and name.partition(".")[0].islower()
    if not is_in_module or modules is None:
        return False
    named = name.removeprefix("elmo_cli.").rpartition(".")[0]
    return not any(f".{module}".endswith(f".{named}") for module in modules)


@pytest.mark.parametrize("name", [name_of(path) for path in MODULES])
def test_each_name_in_a_docstring_or_comment_is_in_the_code(name: str) -> None:
    path = (PACKAGE / name.replace(".", "/")).with_suffix(".py")
    source = path.read_text(encoding="utf-8")
    texts = [constant.value for constant in docstrings(ast.parse(source))]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            texts.append(token.string)
    names = [each for text in texts for each in NAME.findall(str(text))]
    assert [each for each in names if is_stale(each)] == []


@pytest.mark.parametrize(
    "name",
    [
        "begin_checkpoint",
        "records.rows",
        "settings.NAMED_LAYERS",
        "training.record.is_finished",
    ],
)
def test_a_stale_name_is_found(name: str) -> None:
    assert is_stale(name)
    assert not is_stale("options.layers.NAMED_LAYERS")
