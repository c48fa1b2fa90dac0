"""The page on tables runs: its commands and programs, and what they print."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from commands import elmo

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


def test_the_page_on_tables_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pyarrow", "pandas", "polars", "duckdb"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 8
    for language, code, expected in blocks:
        if language == "sh":
            for line in code.splitlines():
                assert elmo(*shlex.split(line)[1:]).exit_code == 0
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), names)
        if expected:
            assert printed.getvalue() == expected
