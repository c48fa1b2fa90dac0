"""Commands and programs of the pages, which run and print what the pages show.

The blocks of a page run in their order, in one folder. `<!-- not run: WHY -->` before a block
leaves it out; it is still parsed by test_docs.py.
"""

import ast
import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import python, run_r
from conftest import GOLDEN

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^(?:<!-- ([^\n]*?) -->\n)?```(sh|python|r)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?",
    re.M | re.S,
)
FIGURE = re.compile(r"\d+\.\d+")
INSTALLATION = r"^pip [^&]*(&& )?"
"""Beginning of a line of shell that a test does not run."""
LARGE_MODELS = r"(--model |\")(original|seqvec|catelmo|many-langs-fr)(?=[\"\s])"
"""Names of published models, in whose place a test takes the bundled one."""
UNCOUNTED = {
    **{"README.md": "vectors.hdf5", "docs/output.md": "(packed.hdf5|mixed.hdf5|vectors.parquet)"},
    **{f"docs/{name}.md": "" for name in ("allennlp", "environment", "models", "troubleshooting")},
}
"""Outputs whose sentences a page does not count. They get few of them, which is faster."""
NOT_RUN = (
    "architecture commands evaluation glossary install performance release reliability training"
)
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
PAGES = [page for page in PAGES if Path(page).stem not in NOT_RUN.split()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the current folder, with a book and a model of the user, which pages name."""
    for package in ("matplotlib", "polars", "sklearn", "pyarrow", "sentencex", "spacy"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    shutil.copytree(ROOT / "examples", "examples")
    lines = Path("examples/alice.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("sentences.txt").write_text("".join(lines[:12]), encoding="utf-8")
    Path("book.txt").write_text("The door was open. She didn't go in!\n", encoding="utf-8")
    Path("my-model").mkdir()
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(GOLDEN / "relu" / name, "my-model")
    return tmp_path


def run_shell(code: str) -> str:
    """Return what lines of shell print; bash stops at the first command that fails."""
    lines = [re.sub(INSTALLATION, "", line) for line in code.splitlines()]
    program = f'set -e -o pipefail; python() {{ {shlex.join(python())} "$@"; }}\n'
    program += 'elmo() { python -m elmo_cli "$@"; }\n'
    command = ["bash", "-c", program + "\n".join(lines)]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert result.returncode == 0, code + result.stderr
    return result.stdout


def run_python(code: str, names: dict[str, Any]) -> str:
    """Return what a program prints, with the names of the programs before it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<page>", "exec"), names)
    return printed.getvalue()


RUN = {"sh": run_shell, "r": run_r}


def has_packages(code: str) -> bool:
    """Return whether the packages that a program imports are installed."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return all(find_spec(name) is not None for name in names)


def assert_prints(output: str, expected: str) -> None:
    """Assert the same text, and the same figures but for the rounding of the last digit."""
    assert FIGURE.sub("#", output) == FIGURE.sub("#", expected)
    for value, other in zip(FIGURE.findall(output), FIGURE.findall(expected), strict=True):
        last_digit = 10.0 ** -len(other.partition(".")[2])
        assert float(value) == pytest.approx(float(other), rel=1e-5, abs=1.01 * last_digit)


def blocks(page: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the language, the code and the output of each block that runs."""
    for comment, language, code, shown in BLOCK.findall(text):
        if not comment.startswith(("not run", "tests")):
            code = re.sub(LARGE_MODELS, r"\1mini", code)
            uncounted = rf"examples/alice.txt (?={UNCOUNTED.get(page, '$')})"
            yield language, re.sub(uncounted, "sentences.txt ", code), shown


def assert_runs(page: str, text: str) -> None:
    """Assert that the blocks of a text run and print what it shows, pictures too."""
    names: dict[str, Any] = {}
    for language, code, shown in blocks(page, text):
        if language == "python" and not has_packages(code):
            continue
        if language == "r" and (shutil.which("Rscript") is None or re.search("library|::", code)):
            continue  # Packages of R are not installed.
        printed = run_python(code, names) if language == "python" else RUN[language](code)
        if shown:
            assert_prints(printed, shown)
    for picture in re.findall(r"\]\(([\w/]+\.svg)\)", text):
        if (made := Path(Path(picture).name)).exists():
            assert_prints(tooltips_in(made), tooltips_in((ROOT / page).parent / picture))


def tooltips_in(picture: Path) -> str:
    return "\n".join(re.findall("<title>(.*?)</title>", picture.read_text(encoding="utf-8")))


@pytest.mark.usefixtures("folder")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", PAGES)
def test_page_runs_and_prints_what_it_shows(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert_runs(page, text)
    # Tables of similar words, as the files of vectors of the commands have them.
    table = re.findall(r"^\| (\w+) \| ((?:\w+, ){4}\w+) \| ((?:\w+, ){4}\w+) \|$", text, re.M)
    assert len(table) == (3 if page == "docs/word-vectors.md" else 0)
    for word, by_spelling, by_use in table:
        assert nearest("spelling.vec", word) == by_spelling.split(", ")
        assert nearest("words.vec", word) == by_use.split(", ")


@pytest.mark.long
@pytest.mark.usefixtures("folder")
def test_examples_of_the_command_page_print_what_it_shows() -> None:
    examples = ROOT / "docs" / "parts" / "command_examples.md"
    assert_runs("docs/commands.md", examples.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("folder")
def test_cells_of_the_notebook_run_in_their_order() -> None:
    notebook = json.loads((ROOT / "examples" / "tutorial.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells)
    code = re.sub(r"^!(.+)$", r"print(shell(r'''\1'''))", code, flags=re.M)
    names: dict[str, Any] = {"shell": run_shell, "SVG": Path}  # IPython would show the picture
    printed = run_python(re.sub(r"%pip .*|from IPython.*", "pass", code), names)
    assert names["layers"].shape == (3, 6, 1024)
    assert "You may go if you [like] ." in printed
    assert Path("like.svg").stat().st_size > 1000


def nearest(path: str, word: str) -> list[str]:
    """Return the five words nearest to a word in a file of word2vec's text format."""
    rows = [line.split(" ") for line in Path(path).read_text(encoding="utf-8").splitlines()[1:]]
    words = [row[0] for row in rows]
    vectors = np.array([row[1:] for row in rows], np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    order = np.argsort(-vectors @ vectors[words.index(word)])
    return [words[index] for index in order if words[index] != word][:5]
