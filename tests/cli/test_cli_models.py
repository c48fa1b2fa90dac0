import json
from pathlib import Path

import pytest

from elmo_cli.errors.wording import size_text
from elmo_cli.pretrained.checksums import sha256
from elmo_cli.pretrained.registry import MODELS
from tests.support.commands import assert_fails, elmo
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
        "state",
        "trained",
        "on",
    ]
    names = [line.split()[0] for line in lines]
    first = ["mini", "small", "medium", "original", "original-5.5b", "pubmed"]
    assert names[:8] == [*first, "nlpl-209-english", "portuguese"]
    assert names[-1] == "many-langs-CODE"
    assert "44 languages, see --all" in lines[-1]
    column = header.index("state")
    states = {line.split()[0]: line[column:].split()[0] for line in lines}
    shown = {"mini": "bundled", "original": "downloaded", "small": "available"}
    assert states.items() >= shown.items()
    assert "93.6M" in lines[3]
    assert all(line == line.rstrip() for line in lines)
    rows = json.loads(elmo("models", "--json").stdout)
    assert {row["name"] for row in rows} == {model.name for model in MODELS}
    more = ("language_code", "bytes", "state", "trained_on")
    assert set(rows[0]) == {"name", "parameters", "language", *more}


def names_of(*arguments: str) -> list[str]:
    """Return the names in the table."""
    return [
        line.split()[0] for line in elmo("models", *arguments).stdout.splitlines()[1:]
    ]


def test_models_of_a_language_or_on_this_disk(cache: Path) -> None:
    assert names_of("--language", "FR") == ["many-langs-fr"]
    assert names_of("--language", "en")[-2:] == ["nlpl-209-english", "many-langs-en"]
    assert len(names_of("--all")) == len(MODELS)
    assert names_of("--downloaded") == ["mini"]
    model_in(cache / "many-langs-fr")
    assert names_of("--downloaded") == ["mini", "many-langs-fr"]
    assert names_of()[-2:] == ["many-langs-fr", "many-langs-CODE"]


def test_a_downloaded_model_is_removed(cache: Path) -> None:
    folder = model_in(cache / "small")
    assert elmo("download", "small").output == f"{folder}\n"
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    result = elmo("models", "--remove", "small")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"Removed {folder}: {size_text(n_bytes)}\n"
    assert not folder.exists()
    message = f"small: the model is not downloaded: {folder} is missing."
    assert_fails(elmo("models", "--remove", "small"), message)


def test_info_of_a_model(tmp_path: Path) -> None:
    details = json.loads(elmo("info", "mini", "--json").stdout)
    weights = tmp_path / "mini" / "weights.hdf5"
    card = ["# mini", "", "A small model."]
    expected = {
        "name": "mini",
        "state": "bundled",
        "layers": 3,
        "width": 6,
        "card": card,
    }
    assert details.items() >= expected.items()
    file = {"sha256": sha256(weights), "path": str(weights)}
    assert details["files"]["weights"].items() >= file.items()
    parts = {"character embedding": 261 * 2, "convolutions": 2 * 2 + 2 + 3 * 2 * 4 + 4}
    assert details["parts"].items() >= parts.items()
    assert details["parameters"] == sum(details["parts"].values())
    installation = json.loads(elmo("info", "--json").stdout)
    assert installation.pop("installation").keys() >= {
        "Python",
        "processor",
        "kernels",
        "devices",
    }
    assert installation == details
    (tmp_path / "mini" / "card.md").write_bytes(b"\xff")
    assert json.loads(elmo("info", "mini", "--json").stdout)["card"] == []


def test_info_for_people(tmp_path: Path) -> None:
    model = elmo("info", "mini").stdout
    lines = model.splitlines()
    assert (lines[0], lines[-1]) == ("mini", "A small model.")
    assert f"sha256 {sha256(tmp_path / 'mini' / 'weights.hdf5')}" in model
    assert {line[2:23].strip(): line[25:] for line in lines}.items() >= {
        "layers": "3: the token layer and 2 LSTM layers",
        "width": "6 values per token and layer",
        "character CNN": "6 filters for 1 to 3 characters",
    }.items()
    installation, _, rest = elmo("info").stdout.partition("\n\n")
    assert rest == model
    names = [line.split()[0] for line in installation.splitlines()]
    assert names == [
        "elmo-cli",
        "Python",
        "packages",
        "processor",
        "kernels",
        "devices",
    ]


def test_info_downloads_nothing() -> None:
    result = elmo("info", "original")
    assert "93,600,848" in result.stdout
    assert "To download it, use `elmo download original`." in result.stdout
    assert json.loads(elmo("info", "large", "--json").stdout)["name"] == "original-5.5b"


def test_info_of_a_folder_counts_its_words(model_folder: Path) -> None:
    details = json.loads(elmo("info", str(model_folder), "--json").stdout)
    assert (details["name"], details["words"]) == (str(model_folder), 8)
    assert set(details["files"]) == {"options", "weights", "softmax", "vocabulary"}
