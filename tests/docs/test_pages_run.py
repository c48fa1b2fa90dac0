"""Commands and programs of pages and examples print what the pages show.

The blocks of a page run in their order, in one folder. `<!-- not run: WHY -->` before a
block leaves it out; it is still parsed by test_docs.py.
"""

import ast
import io
import json
import re
import runpy
import shlex
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.support.commands import TINY, elmo, python, run_r

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^(?:<!-- ([^\n]*?) -->\n)?"
    r"```(sh|python|r)\n(.*?)^```\n"
    r"(?:\n```text\n(.*?)^```\n)?",
    re.M | re.S,
)
FIGURE = re.compile(r"\d+\.\d+")
INSTALLATION = r"^pip [^&]*(&& )?"
"""Beginning of a line of shell that a test does not run."""
LARGE_MODELS = r"(--model |\")(original|seqvec|catelmo|many-langs-(?:fr|de))(?=[\"\s])"
"""Names of published models, in whose place a test takes the bundled one."""
UNCOUNTED = {
    "README.md": "vectors.hdf5",
    "docs/hdf5.md": "packed.hdf5",
    "docs/output.md": "(mixed.hdf5|vectors.parquet)",
    "docs/allennlp.md": "",
    "docs/models.md": "",
    "docs/troubleshooting.md": "",
}
"""Outputs whose sentences a page does not count. They get few, which is faster."""
NOT_RUN = {
    "architecture",
    "cite",
    "evaluation",
    "glossary",
    "install",
    "performance",
    "promises",
    "release",
    "reliability",
    "training",
}
PAGES = ["README.md", "elmo_cli/data/mini/card.md"]
for path in sorted((ROOT / "docs").glob("*.md")):
    if path.stem not in NOT_RUN:
        PAGES.append(f"docs/{path.name}")


@pytest.fixture
def user_folder(folder: Path) -> None:
    """Write a user's text and model, which pages name, into the current folder."""
    for package in ("matplotlib", "polars", "sklearn", "pyarrow", "sentencex", "spacy"):
        pytest.importorskip(package)
    shutil.copytree(ROOT / "examples", "examples")
    alice = Path("examples/alice.txt").read_text(encoding="utf-8")
    lines = alice.splitlines(keepends=True)
    Path("sentences.txt").write_text("".join(lines[:12]), encoding="utf-8")
    text = "The door was open. She didn't go in!\n"
    Path("text.txt").write_text(text, encoding="utf-8")
    Path("my-model").mkdir()
    for name in ("options.json", "weights.hdf5"):
        shutil.copy(TINY / name, "my-model")


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
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "<page>", "exec"), names)
    return printed.getvalue()


RUN = {"sh": run_shell, "r": run_r}


def has_packages(code: str) -> bool:
    """Return whether the packages that a program imports are installed."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(str(node.module))
    for name in names:
        package, _, _ = name.partition(".")
        if find_spec(package) is None:
            return False
    return True


def assert_prints(output: str, expected: str) -> None:
    """Assert the same text, and the same figures up to the last digit's rounding."""
    assert FIGURE.sub("#", output) == FIGURE.sub("#", expected)
    figures = zip(FIGURE.findall(output), FIGURE.findall(expected), strict=True)
    for value, other in figures:
        _, _, decimals = other.partition(".")
        last_digit = 10.0 ** -len(decimals)
        rounded = pytest.approx(float(other), rel=1e-5, abs=1.01 * last_digit)
        assert float(value) == rounded


def blocks(page: str, text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the language, the code and the output of each block that runs."""
    uncounted = rf"examples/alice.txt (?={UNCOUNTED.get(page, '$')})"
    for comment, language, code, shown in BLOCK.findall(text):
        if not comment.startswith(("not run", "tests")):
            code = re.sub(LARGE_MODELS, r"\1mini", code)
            code = re.sub(uncounted, "sentences.txt ", code)
            yield language, code, shown


def assert_runs(page: str, text: str) -> None:
    """Assert that the blocks of a text run and print what it shows, pictures too."""
    names: dict[str, Any] = {}
    for language, code, shown in blocks(page, text):
        if language == "python" and not has_packages(code):
            continue
        if language == "r" and not can_run_r(code):
            continue
        if language == "python":
            printed = run_python(code, names)
        else:
            printed = RUN[language](code)
        if shown:
            assert_prints(printed, shown)
    for target in re.findall(r"\]\(([\w/]+\.svg)\)", text):
        shown_picture = (ROOT / page).parent / target
        made_picture = Path(shown_picture.name)
        if made_picture.exists():
            assert_prints(tooltips_in(made_picture), tooltips_in(shown_picture))


def can_run_r(code: str) -> bool:
    """Return whether R is installed. Packages of R are not."""
    has_r = shutil.which("Rscript") is not None
    needs_packages = re.search("library|::", code) is not None
    return has_r and not needs_packages


def tooltips_in(picture: Path) -> str:
    svg = picture.read_text(encoding="utf-8")
    return "\n".join(re.findall("<title>(.*?)</title>", svg))


@pytest.mark.usefixtures("user_folder")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", PAGES)
def test_page_runs_and_prints_what_it_shows(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert_runs(page, text)
    # Tables of similar words, as the files of vectors of the commands have them.
    five = r"(?:\w+, ){4}\w+"
    table = re.findall(rf"^\| (\w+) \| ({five}) \| ({five}) \|$", text, re.M)
    assert len(table) == (3 if page == "docs/word-vectors.md" else 0)
    for word, by_spelling, by_use in table:
        assert nearest("spelling.vec", word) == by_spelling.split(", ")
        assert nearest("words.vec", word) == by_use.split(", ")


@pytest.mark.long
@pytest.mark.usefixtures("user_folder")
def test_examples_of_the_pages_of_commands_print_what_they_show() -> None:
    examples = ROOT / "docs" / "parts" / "command_examples.md"
    assert_runs("docs/commands.md", examples.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("user_folder")
def test_cells_of_the_notebook_run_in_their_order() -> None:
    path = ROOT / "examples" / "tutorial.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    sources = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            sources.append("".join(cell["source"]))
    code = "\n".join(sources)
    code = re.sub(r"^!(.+)$", r"print(shell(r'''\1'''))", code, flags=re.M)
    code = re.sub(r"%pip .*|from IPython.*", "pass", code)
    # IPython would show the picture.
    names: dict[str, Any] = {"shell": run_shell, "SVG": Path}
    printed = run_python(code, names)
    assert names["layers"].shape == (3, 6, 1024)
    assert "You may go if you [like] ." in printed
    assert Path("like.svg").stat().st_size > 1000


def nearest(path: str, word: str) -> list[str]:
    """Return the five words nearest to a word in a file of word2vec's text format."""
    _, *lines = Path(path).read_text(encoding="utf-8").splitlines()
    words = []
    rows = []
    for line in lines:
        name, *values = line.split(" ")
        words.append(name)
        rows.append(values)
    vectors = np.array(rows, np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    similarities = vectors @ vectors[words.index(word)]
    nearest_first = [words[index] for index in np.argsort(-similarities)]
    nearest_first.remove(word)
    return nearest_first[:5]


# Examples

SENTIMENT = str(ROOT / "examples" / "sentiment.py")


def run_example(name: str, *arguments: str) -> list[str]:
    """Return the lines that an example prints."""
    with (
        redirect_stdout(io.StringIO()) as printed,
        patch("sys.argv", [name, *arguments]),
    ):
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    return printed.getvalue().splitlines()


@pytest.mark.parametrize(
    ("text", "options", "lines"),
    [
        # The last one of equal sentences has its sentence.
        ("b .\n" * 9 + "k .\n\nb .\n", "", [f"{n}\t(3, 2, 32)\t" for n in range(9)]
         + ["9\t(3, 2, 32)\tk .", "10\t(3, 0, 32)\t", "11\t(3, 2, 32)\tb ."]),
        ("a b\n", "--top --forget-sentences", ["0\t(2, 32)\t"]),
    ],
)  # fmt: skip
def test_activations_are_read_in_the_order_of_lines(
    folder: Path, text: str, options: str, lines: list[str]
) -> None:
    elmo("embed", "-", "out.hdf5", "--model", TINY, *options.split(), stdin=text)
    assert run_example("read_activations.py", "out.hdf5") == lines


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Write a zip for the example, with 40 reviews that one word tells apart."""
    example = runpy.run_path(SENTIMENT)
    rows = []
    for number in range(20):
        rows.append(f"{number}\t2.5\tFilm {number} is good, isn't it?")
        rows.append(f"{number}\t-2.5\tFilm {number} is bad, isn't it?")
    rows.append("40\t0.1\tSome call it good, some bad.")
    text = "\r\n".join(rows).encode("utf-8")
    resources = io.BytesIO()
    with tarfile.open(fileobj=resources, mode="w:gz") as archive:
        entry = tarfile.TarInfo(example["REVIEWS"])
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    path = tmp_path / "package.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(example["ARCHIVE"], resources.getvalue())
    return path


def test_the_split_is_repeatable_and_has_clear_ratings_only(package: Path) -> None:
    read: Any = runpy.run_path(SENTIMENT)["read_reviews"]
    train, dev, test = read(package, 100, 5)
    assert len(train) == 30
    assert len(dev) == 5
    assert len(test) == 5
    for tokens, label in [*train, *dev, *test]:
        word = "good" if label else "bad"
        assert tokens[3:] == [word, ",", "isn", "'t", "it", "?"]
    assert read(package, 100, 5) == (train, dev, test)


def test_the_example_prints_a_line_for_each_way(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setenv("ELMO_MODEL", str(TINY))
    options = "--train 10 --held-out 5 --epochs 1 --seeds 1 2 --sklearn"
    printed = run_example("sentiment.py", str(package), *options.split())
    header, *lines = [line.split("\t") for line in printed]
    assert header == ["vectors", "seed 1", "seed 2", "mean", "seconds"]
    assert [line[0] for line in lines] == [
        "words, no ELMo",
        "ELMo, frozen average",
        "ELMo, trained mix",
        "ELMo, fine-tuned",
        "ElmoVectorizer, LogisticRegression",
    ]
    for line in lines[:4]:
        first = float(line[1])
        second = float(line[2])
        mean = float(line[3])
        assert 0.0 <= min(first, second) <= mean <= max(first, second) <= 100.0
