"""Messages of the errors that a user can cause."""

import json
import pickle
from collections.abc import Callable
from errno import ENOENT
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from commands import TINY

from elmo_cli import Elmo, ElmoEmbedder, HubElmo, LanguageModel, open_activations
from elmo_cli.analysis.word_vectors import write_token_vectors
from elmo_cli.errors import ElmoError, install_command
from elmo_cli.pretrained.manage import convert_weights
from elmo_cli.training.corpus import find_text_files


class Installed:
    """Stand-in for the metadata of the installed package."""

    def __init__(self, direct_url: dict[str, Any] | None) -> None:
        self.text = None if direct_url is None else json.dumps(direct_url)

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.text


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, '"elmo-cli[plot]"'),
        ({"url": "file:///home/me/my%20code", "dir_info": {}}, '"/home/me/my code[plot]"'),
        ({"url": "file:///co", "dir_info": {"editable": True}}, '-e "/co[plot]"'),
        (
            {"url": "https://example.org/elmo.git", "vcs_info": {"vcs": "git"}},
            '"elmo-cli[plot] @ git+https://example.org/elmo.git"',
        ),
        (
            {"url": "https://example.org/elmo.whl", "archive_info": {}},
            '"elmo-cli[plot] @ https://example.org/elmo.whl"',
        ),
    ],
)
def test_install_command_names_the_source(
    direct_url: dict[str, Any] | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(direct_url))
    assert install_command("plot") == f"pip install {expected}"


def test_install_command_without_metadata_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("plot") == 'pip install "elmo-cli[plot]"'


def calls_with_missing_files(folder: Path) -> dict[str, Callable[[], object]]:
    """Return calls that need a file that is missing, by the kind of their error."""
    missing, text = folder / "missing", folder / "text.txt"
    text.write_text("a b\n", encoding="utf-8")
    empty = folder / "empty"
    empty.mkdir()
    options, weights = TINY / "options.json", TINY / "weights.hdf5"
    tiny = ElmoEmbedder(options, weights)
    return {
        "options": lambda: ElmoEmbedder(missing, weights),
        "weights": lambda: Elmo(options, missing.with_suffix(".hdf5")),
        "safetensors": lambda: Elmo(options, missing.with_suffix(".safetensors")),
        "model": lambda: ElmoEmbedder(model=missing),
        "name": lambda: HubElmo("missing"),
        "zip file": lambda: ElmoEmbedder.from_pretrained(missing.with_suffix(".zip")),
        "empty folder": lambda: ElmoEmbedder(model=empty),
        "softmax": lambda: LanguageModel(model=TINY),
        "vocabulary": lambda: LanguageModel(vocabulary_file=missing),
        "input": lambda: tiny.embed_file(missing, folder / "out.hdf5"),
        "table": lambda: tiny.embed_file(missing.with_suffix(".csv"), folder / "out.hdf5"),
        "Parquet": lambda: tiny.embed_file(missing.with_suffix(".parquet"), folder / "out.hdf5"),
        "output folder": lambda: tiny.embed_file(text, missing / "out.hdf5"),
        "activations": lambda: open_activations(missing),
        "word list": lambda: write_token_vectors(missing, folder / "out.txt"),
        "source of weights": lambda: convert_weights(missing, folder / "new.hdf5"),
        "training text": lambda: find_text_files([missing]),
    }


def test_a_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    for name, call in calls_with_missing_files(tmp_path).items():
        with pytest.raises(FileNotFoundError) as caught:
            call()
        assert isinstance(caught.value, ElmoError), name
        assert caught.value.errno == ENOENT
        assert "missing" in str(caught.value) or name in ("empty folder", "softmax"), name
        assert "\n" not in str(caught.value)
        copied = pickle.loads(pickle.dumps(caught.value))
        assert (type(copied), str(copied)) == (type(caught.value), str(caught.value))


def test_errors_of_options_are_value_errors() -> None:
    tiny = ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5")
    calls: list[Callable[[], object]] = [
        lambda: ElmoEmbedder(model=TINY, state="cold"),  # type: ignore[arg-type]
        lambda: ElmoEmbedder(model=TINY, precision="float8"),  # type: ignore[arg-type]
        lambda: ElmoEmbedder(model=TINY, batch_tokens=0),
        lambda: ElmoEmbedder(TINY / "options.json"),
        lambda: Elmo(model=TINY, num_output_representations=0),
        lambda: tiny.encode(["a"], pooling="middle"),
        lambda: tiny.encode(["a"], layers="middle"),
        lambda: list(tiny.embed_sentences([["a"]], 0)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="expected") as caught:
            call()
        assert isinstance(caught.value, ElmoError)
        assert not isinstance(caught.value, FileNotFoundError)
