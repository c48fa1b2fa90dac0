import json
import re
from pathlib import Path

import pytest
import torch

from elmo_cli.compiled import kernels
from elmo_cli.errors.wording import size_text
from elmo_cli.pretrained.checksums import sha256
from elmo_cli.pretrained.registry import MODELS
from tests.support.commands import ROOT, assert_fails, elmo
from tests.support.strategies import make_language_model, small_architecture


def model_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    make_language_model(small_architecture(), 1, folder)
    return folder


pytestmark = pytest.mark.usefixtures("small_mini")


@pytest.fixture
def small_mini(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = "elmo_cli.pretrained.cache.BUNDLED_FOLDER"
    monkeypatch.setattr(bundled, model_in(tmp_path / "mini"))
    (tmp_path / "mini" / "card.md").write_text("# mini\n\nA small model.\n")


def test_models_is_a_table(cache: Path) -> None:
    model_in(cache / "original")
    header, *lines = elmo("models").stdout.splitlines()
    assert header.split() == [
        "name",
        "parameters",
        "language",
        "size",
        "status",
        "trained",
        "on",
    ]
    names = [line.split()[0] for line in lines]
    assert names[:8] == [
        "mini",
        "small",
        "medium",
        "original",
        "original-5.5b",
        "pubmed",
        "nlpl-209-english",
        "portuguese",
    ]
    assert names[-1] == "many-langs-CODE"
    assert "44 languages, see --all" in lines[-1]
    column = header.index("status")
    states = [line[column:].split()[0] for line in lines]
    assert states[names.index("mini")] == "bundled"
    assert states[names.index("original")] == "downloaded"
    assert states[names.index("small")] == "available"
    assert "93.6M" in lines[names.index("original")]
    for line in lines:
        assert line == line.rstrip()


def test_models_are_listed_as_json() -> None:
    rows = json.loads(elmo("models", "--json").stdout)
    assert {row["name"] for row in rows} == {model.name for model in MODELS}
    assert set(rows[0]) == {
        "name",
        "parameters",
        "language",
        "language_code",
        "bytes",
        "status",
        "trained_on",
    }


def names_of(*options: str) -> list[str]:
    """Return the names in the table."""
    _, *lines = elmo("models", *options).stdout.splitlines()
    return [line.split()[0] for line in lines]


def test_models_of_a_language_or_on_this_disk(cache: Path) -> None:
    assert names_of("--language", "FR") == ["many-langs-fr"]
    assert names_of("--language", "en")[-2:] == ["nlpl-209-english", "many-langs-en"]
    assert len(names_of("--all")) == len(MODELS)
    assert names_of("--downloaded") == ["mini"]
    missing = elmo("models", "--language", "fr", "--downloaded")
    assert missing.stdout == ""
    assert missing.stderr == "No model for fr is on this computer.\n"
    model_in(cache / "many-langs-fr")
    assert names_of("--downloaded") == ["mini", "many-langs-fr"]
    assert names_of()[-2:] == ["many-langs-fr", "many-langs-CODE"]


def test_a_name_that_cannot_be_printed_is_not_repeated_in_a_command() -> None:
    error = "Error: \\udcff: unexpected, because elmo models takes no arguments\n"
    assert elmo("models", "\udcff").stderr == error


def test_a_linked_model_is_not_removed(cache: Path) -> None:
    folder = model_in(cache.parent / "shared")
    cache.mkdir(exist_ok=True)
    link = cache / "small"
    link.symlink_to(folder)
    remedy = f"To remove the link, use `rm {link}`."
    message = f"{link}: a link to a folder, which stays. {remedy}"
    assert_fails(elmo("models", "--remove", "small"), message)
    assert (folder / "weights.hdf5").exists()


def test_a_downloaded_model_is_removed(cache: Path) -> None:
    folder = model_in(cache / "small")
    assert elmo("download", "small").output == f"{folder}\n"
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    result = elmo("models", "--remove", "small")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert result.stderr == f"Removed {folder}: {size_text(n_bytes)}\n"
    assert not folder.exists()
    message = (
        "small: not downloaded. `elmo models --downloaded` lists the models that you "
    )
    message += "can remove."
    assert_fails(elmo("models", "--remove", "small"), message)


def test_info_of_a_model(tmp_path: Path) -> None:
    details = json.loads(elmo("info", "mini", "--json").stdout)
    assert details["name"] == "mini"
    assert details["status"] == "bundled"
    assert details["layers"] == 3
    assert details["width"] == 6
    assert details["card"] == ["# mini", "", "A small model."]
    weights = tmp_path / "mini" / "weights.hdf5"
    assert details["files"]["weights"]["sha256"] == sha256(weights)
    assert details["files"]["weights"]["path"] == str(weights)
    parts = details["parts"]
    assert parts["character embedding"] == 261 * 2
    assert parts["convolutions"] == 2 * 2 + 2 + 3 * 2 * 4 + 4
    assert details["parameters"] == sum(parts.values())


def test_info_without_a_model_is_of_the_installation_and_the_default() -> None:
    found = json.loads(elmo("info", "--json").stdout)
    installation = found.pop("installation")
    assert {"Python", "processor", "kernels", "devices"} <= set(installation)
    assert found == json.loads(elmo("info", "mini", "--json").stdout)


ROWS_OF_PROCESSORS = {
    "AMX": "| AMX: ",
    "bfloat16": "| AVX-512 with bfloat16: ",
    "bfloat16 (int16)": "| AVX-512 with VNNI: ",
    "AVX2": "| AVX2: ",
    "bfloat16 (rounded)": "| others: ",
}
"""Beginnings of the rows in docs/performance.md, by what computes bfloat16 there."""


@pytest.mark.parametrize(("arithmetic", "start_of_row"), ROWS_OF_PROCESSORS.items())
def test_info_names_the_fastest_precision_of_the_documentation(
    arithmetic: str, start_of_row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_tiles = arithmetic == "AMX"
    capability = "AVX2" if arithmetic == "AVX2" else "AVX512"
    if arithmetic == "AVX2":
        arithmetic = "bfloat16 (int16)"
    monkeypatch.setattr(kernels, "has_kernel", lambda name: True)
    monkeypatch.setattr(kernels, "has_tiles", lambda: has_tiles)
    monkeypatch.setattr(kernels, "has_vnni", lambda: capability == "AVX512")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(
        "elmo_cli.inference.precision.find_arithmetic",
        lambda precision, device: arithmetic,
    )
    found = json.loads(elmo("info", "--json").stdout)["installation"]["precisions"]
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(start_of_row))
    *_, fastest, _ = row.split("|")
    assert found.startswith(f"{fastest.strip()} is ")
    for figure in re.findall(r"[\d.]+ times|[\d.]+%", found):
        assert figure in row


@pytest.mark.parametrize(
    ("capability", "has_kernels", "expected"),
    [
        ("AVX2", True, "not measured on this kind of processor"),
        ("AVX512", False, "not measured without kernels"),
    ],
)
def test_info_says_that_a_processor_was_not_measured(
    capability: str,
    has_kernels: bool,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "has_kernel", lambda name: has_kernels)
    monkeypatch.setattr(kernels, "has_tiles", lambda: False)
    monkeypatch.setattr(kernels, "has_vnni", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(
        "elmo_cli.inference.precision.find_arithmetic",
        lambda precision, device: "bfloat16 (int16)",
    )
    installation = json.loads(elmo("info", "--json").stdout)["installation"]
    assert installation["precisions"] == expected
    assert (installation["kernels"] == "not compiled") == (not has_kernels)


def test_a_card_that_is_not_utf8_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "mini" / "card.md").write_bytes(b"\xff")
    assert json.loads(elmo("info", "mini", "--json").stdout)["card"] == []


def test_info_is_shown_in_lines(tmp_path: Path) -> None:
    model = elmo("info", "mini").stdout
    lines = model.splitlines()
    assert lines[0] == "mini"
    assert lines[-1] == "A small model."
    assert f"sha256 {sha256(tmp_path / 'mini' / 'weights.hdf5')}" in model
    shown = {line[2:23].strip(): line[25:] for line in lines}
    assert shown["layers"] == "3: the token layer and 2 LSTM layers"
    assert shown["width"] == "6 values per token and layer"
    assert shown["character CNN"] == "6 filters for 1 to 3 characters"
    installation, _, rest = elmo("info").stdout.partition("\n\n")
    assert rest == model
    names = [line.split()[0] for line in installation.splitlines()]
    expected = "elmo-cli Python packages processor kernels precisions devices"
    assert names == expected.split()


def test_info_downloads_nothing() -> None:
    result = elmo("info", "original")
    assert "93,600,848" in result.stdout
    assert "To download it, use `elmo download original`." in result.stdout
    assert json.loads(elmo("info", "large", "--json").stdout)["name"] == "original-5.5b"


def test_info_of_a_folder_counts_its_words(model_folder: Path) -> None:
    details = json.loads(elmo("info", str(model_folder), "--json").stdout)
    assert details["name"] == str(model_folder)
    assert details["words"] == 8
    assert set(details["files"]) == {"options", "weights", "softmax", "vocabulary"}
