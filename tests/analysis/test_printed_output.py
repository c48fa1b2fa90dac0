"""Output shown on pages equals the output of their commands, which all run in their order."""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
FIGURE = re.compile(r"\d+\.\d+")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the current folder, with the text of the examples."""
    for package in ("matplotlib", "sklearn", "pyarrow"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    Path("examples").mkdir()
    shutil.copy(ROOT / "examples" / "alice.txt", "examples")
    return tmp_path


def run(language: str, code: str) -> str:
    """Return the output of a block. bash stops at the first command that fails."""
    elmo = f'set -e -o pipefail; elmo() {{ "{sys.executable}" -m elmo_cli "$@"; }}\n'
    command = ["bash", "-c", elmo + code] if language == "sh" else [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert result.returncode == 0, code + result.stderr
    return result.stdout


def assert_prints(found: str, expected: str) -> None:
    """Assert the same text, and the same figures but for the rounding of the last digit."""
    assert FIGURE.sub("#", found) == FIGURE.sub("#", expected)
    for value, other in zip(FIGURE.findall(found), FIGURE.findall(expected), strict=True):
        last_digit = 10.0 ** -len(other.partition(".")[2])
        assert float(value) == pytest.approx(float(other), rel=1e-5, abs=1.01 * last_digit)


def assert_runs(page: str, text: str) -> None:
    """Assert that the blocks of a text run and print what it shows, pictures too."""
    for language, code, shown in BLOCK.findall(text):
        if any(name in code and find_spec(name) is None for name in ("gensim", "polars")):
            continue
        printed = run(language, code)
        if shown:
            assert_prints(printed, shown)
    for picture in re.findall(r"\]\(([\w/]+\.svg)\)", text):
        assert tooltips_in(Path(Path(picture).name)) == tooltips_in((ROOT / page).parent / picture)


def tooltips_in(picture: Path) -> list[str]:
    return re.findall("<title>(.*?)</title>", picture.read_text(encoding="utf-8"))


def nearest(path: str, word: str) -> list[str]:
    """Return the five words nearest to a word in a file of word2vec's text format."""
    rows = [line.split(" ") for line in Path(path).read_text(encoding="utf-8").splitlines()[1:]]
    words = [row[0] for row in rows]
    vectors = np.array([row[1:] for row in rows], np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    order = np.argsort(-vectors @ vectors[words.index(word)])
    return [words[place] for place in order if words[place] != word][:5]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_first_page_shows_what_the_vectors_say() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## What the vectors say\n")[2].partition("\n## ")[0]
    assert len(BLOCK.findall(section)) == 3
    assert_runs("README.md", section)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_page_on_vectors_shows_what_its_commands_print() -> None:
    text = (ROOT / "docs" / "analysis.md").read_text(encoding="utf-8")
    assert_runs("docs/analysis.md", text)
    table = re.findall(r"^\| (\w+) \| ((?:\w+, ){4}\w+) \| ((?:\w+, ){4}\w+) \|$", text, re.M)
    assert len(table) == 3
    for word, by_spelling, by_use in table:
        assert nearest("spelling.vec", word) == by_spelling.split(", ")
        assert nearest("words.vec", word) == by_use.split(", ")
