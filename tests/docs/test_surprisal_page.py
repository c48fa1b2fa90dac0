"""The page on surprisal: its programs run and print what it shows."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import python

PAGE = Path(__file__).parents[2] / "docs" / "surprisal.md"
BLOCK = re.compile(r"^```(sh|python|r)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
FIGURE = re.compile(r"\d+\.\d+")


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the page, and write the tables that it shows in the current folder."""
    for package in ("pandas", "polars", "duckdb", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    text = PAGE.read_text(encoding="utf-8")
    for name, content in re.findall(r"`(\w+\.csv)`:\n\n```csv\n(.*?)```", text, re.S):
        Path(name).write_text(content, encoding="utf-8")
    return text


def run(language: str, code: str, names: dict[str, Any]) -> str:
    """Return what a block prints."""
    if language == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), names)
        return printed.getvalue()
    command = ["Rscript", "--vanilla", "-e", code]
    if language == "sh":
        program = f'elmo() {{ {shlex.join(python())} -m elmo_cli "$@"; }}\n{code}'
        command = ["bash", "-e", "-o", "pipefail", "-c", program]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert result.returncode == 0, code + result.stderr
    return result.stdout


def assert_same_tooltips(picture: Path, shown: Path) -> None:
    """Assert that two pictures have the same points, and the same figures but for rounding."""
    made, expected = (
        " ".join(re.findall("<title>(.*?)</title>", path.read_text(encoding="utf-8")))
        for path in (picture, shown)
    )
    assert FIGURE.sub("#", made) == FIGURE.sub("#", expected)


@pytest.mark.filterwarnings("default")
def test_the_page_runs_and_prints_what_it_shows(text: str) -> None:
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(text)
    assert {language for language, _, _ in blocks} == {"sh", "python", "r"}
    for language, code, shown in blocks:
        if language == "r" and shutil.which("Rscript") is None:
            continue
        printed = run(language, code, names)
        if shown:
            assert FIGURE.sub("#", printed) == FIGURE.sub("#", shown)
            figures = [list(map(float, FIGURE.findall(each))) for each in (printed, shown)]
            assert figures[0] == pytest.approx(figures[1], rel=1e-5)
    for picture in re.findall(r"\]\((\w+\.svg)\)", text):
        assert_same_tooltips(Path(picture), PAGE.parent / picture)
