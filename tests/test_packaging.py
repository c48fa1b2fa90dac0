"""Kernels that are compiled or missing, and the metadata of a release."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_cli.compiled.kernels import has_kernel

ROOT = Path(__file__).parents[1]
HAS_KERNEL = """
import torch
from elmo_cli.compiled.kernels import has_kernel
from elmo_cli import ElmoEmbedder
assert torch.backends.cpu.get_cpu_capability() == "DEFAULT"
assert not has_kernel("product_float32")
print(ElmoEmbedder(model="tests/golden/relu").embed_sentence(["a"]).shape)
"""


@pytest.mark.skipif(
    not [
        *ROOT.glob(f"elmo_cli/compiled/*.{torch.backends.cpu.get_cpu_capability()}.so")
    ],
    reason="needs compiled kernels",
)
def test_compiled_kernels_are_loaded() -> None:
    assert has_kernel("step_float32"), "kernels.c has changed: install again"


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"),
    reason="needs an x86-64",
)
def test_processor_without_avx2_uses_no_kernels() -> None:
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default"}
    command = [sys.executable, "-c", HAS_KERNEL]
    assert (
        subprocess.check_output(command, env=environment, cwd=ROOT) == b"(3, 1, 32)\n"
    )


def test_links_of_the_readme_become_absolute() -> None:
    pytest.importorskip("hatchling")
    absolute_links = runpy.run_path(str(ROOT / "packaging" / "hatch_metadata.py"))[
        "absolute_links"
    ]
    text = (
        "[a](docs/a.md#b) ![p](docs/p.svg) [w](https://example.org) [h](#here) "
        "[L](LICENSE)"
    )
    assert absolute_links(text, "https://example.org/x/blob/v1") == (
        "[a](https://example.org/x/blob/v1/docs/a.md#b) "
        "![p](https://example.org/x/raw/v1/docs/p.svg) "
        "[w](https://example.org) [h](#here) "
        "[L](https://example.org/x/blob/v1/LICENSE)"
    )


@pytest.mark.parametrize("documentation", ["", "https://example.org/docs/"])
def test_addresses_are_set_in_one_place(documentation: str) -> None:
    pytest.importorskip("hatchling")
    hook = runpy.run_path(str(ROOT / "packaging" / "hatch_metadata.py"))[
        "CustomMetadataHook"
    ]
    addresses = {"repository": "https://example.org/x/", "documentation": documentation}
    metadata: dict[str, Any] = {"version": "1"}
    hook(str(ROOT), {"paper": "https://example.org/paper", **addresses}).update(
        metadata
    )
    assert metadata["urls"] == {
        **{
            "Repository": "https://example.org/x",
            "Issues": "https://example.org/x/issues",
        },
        "Changelog": "https://example.org/x/blob/main/CHANGELOG.md",
        "Paper": "https://example.org/paper",
        **({"Documentation": documentation} if documentation else {}),
    }


def test_change_in_a_folder_runs_the_tests_that_are_called_like_it() -> None:
    script = runpy.run_path(str(ROOT / "packaging" / "check_change.py"))
    tests_of_package = script["tests_of_package"]
    names = {path.name for path in (ROOT / "elmo_cli").iterdir() if path.is_dir()}
    twins = {path.name for path in (ROOT / "tests").iterdir() if path.name in names}
    twins.discard("__pycache__")
    assert "files" in twins
    missed = [name for name in sorted(twins) if name not in tests_of_package(name)]
    assert missed == []


def test_every_change_has_tests_that_can_fail() -> None:
    script = runpy.run_path(str(ROOT / "packaging" / "check_change.py"))
    always = script["tests_of"]([])
    git = ["git", "ls-files", "elmo_cli", "tests", "docs", "examples", "packaging"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
    untested = []
    for name in listed.stdout.splitlines():
        runs_more = script["tests_of"]([name]) != always or ROOT / name in always
        if not runs_more and not script["is_shared"](name):
            untested.append(name)
    assert [name for name in untested if not name.endswith("__init__.py")] == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("tests/cli/answers.txt", "tests/cli"),
        ("tests/records/errors.txt", "tests/records"),
        ("elmo_cli/compiled/kernels.c", "tests/inference"),
        ("elmo_cli/compiled/kernels.c", "tests/test_packaging.py"),
        (
            "elmo_cli/compiled/kernels_probabilities.h",
            "tests/language_model/test_softmax.py",
        ),
        ("elmo_cli/compiled/kernels_training.h", "tests/training/test_loss.py"),
        ("docs/input.md", "tests/docs/test_docs.py"),
    ],
)
def test_a_change_runs_its_tests(changed: str, expected: str) -> None:
    script = runpy.run_path(str(ROOT / "packaging" / "check_change.py"))
    assert ROOT / expected in script["tests_of"]([changed])


def test_a_change_of_pages_runs_them() -> None:
    script = runpy.run_path(str(ROOT / "packaging" / "check_change.py"))
    changed = ["README.md", "docs/input.md", "docs/commands/embed.md", "CHANGELOG.md"]
    assert script["pages_of"](changed) == ["README.md", "docs/input.md"]


def test_wording_is_checked_in_files_and_folders(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "code").mkdir()
    (folder / "code" / "a.py").write_text("x = 1  # which is one\n", encoding="utf-8")
    script = runpy.run_path(str(ROOT / "packaging" / "check_language.py"))
    for given in ("code", "code/a.py"):
        monkeypatch.setattr(sys, "argv", ["check_language.py", given])
        script["main"]()
        found, total = capsys.readouterr().out.splitlines()
        assert found.endswith("a.py:1: not a sentence: which is one")
        assert total == "1 findings in 1 files"


def test_release_is_refused_until_it_is_ready() -> None:
    find = runpy.run_path(str(ROOT / "packaging" / "check_files.py"))["tag_problems"]
    problems = find("v0.0.1")
    assert re.fullmatch(
        r"elmo_cli/version.py: version \S+, but the tag is v0.0.1", problems[0]
    )


def test_recipe_has_the_requirements_of_the_package() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = project.partition("\ndependencies = [")[2].partition("]")[0]
    needed = {line.replace(">=", " >=", 1) for line in re.findall(r'"(.+?)"', block)}
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    listed = {line.strip(" -").replace("pytorch", "torch") for line in run.splitlines()}
    assert listed - {"python >=3.10"} == needed
