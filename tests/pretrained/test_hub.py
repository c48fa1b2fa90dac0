"""Models of the Hugging Face hub, from a server here that answers alike."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from elmo_cli import ElmoEmbedder
from elmo_cli.errors.exceptions import ElmoError, ModelError
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.find_model import find_files_by_name, find_files_by_settings
from elmo_cli.pretrained.save import save_model
from tests.support.commands import TINY, assert_fails, elmo, start_elmo
from tests.support.golden import GOLDEN
from tests.support.strategies import make_language_model, small_architecture
from tests.support.website import COMMIT, Site, not_on_hub, put_model_on_hub

constants = pytest.importorskip("huggingface_hub.constants")

NAME = "hf:somebody/tiny-elmo"
SENTENCE = ["The", "cat", "sat", "."]


@pytest.fixture
def site(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Let the hub's package use the web server as the hub."""
    # Read from HF_ENDPOINT and HF_HOME when the package is imported.
    monkeypatch.setattr(constants, "ENDPOINT", site.url)
    template = "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", site.url + template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return site


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, bytes]:
    """Return the files of a golden model, as they are saved for the hub."""
    ElmoEmbedder(model=TINY).save_pretrained(tmp_path / "saved")
    return {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}


def test_a_model_of_the_hub_equals_the_saved_model(
    site: Site, saved: dict[str, bytes]
) -> None:
    assert set(saved) == {"config.json", "model.safetensors", "README.md"}
    put_model_on_hub(
        site, "somebody/tiny-elmo", {**saved, "pytorch_model.bin": b"pickle"}
    )
    expected = ElmoEmbedder(model=TINY).embed_sentence(SENTENCE)
    embedder = ElmoEmbedder.from_pretrained("somebody/tiny-elmo")
    assert_array_equal(embedder.embed_sentence(SENTENCE), expected)
    assert embedder.files.name == NAME
    downloaded = {path.name for path in embedder.files.weights.parent.iterdir()}
    assert downloaded == {"config.json", "model.safetensors"}
    again = ElmoEmbedder.from_pretrained(NAME, revision=COMMIT)
    assert again.files.weights == embedder.files.weights


def test_the_command_takes_a_model_of_the_hub(
    site: Site, saved: dict[str, bytes], tmp_path: Path
) -> None:
    put_model_on_hub(site, "somebody/tiny-elmo", saved)
    settings = {**os.environ, "HF_ENDPOINT": site.url, "HF_HOME": str(tmp_path)}
    process = start_elmo("download", NAME, env=settings, stdout=subprocess.PIPE)
    folder = tmp_path / "hub" / "models--somebody--tiny-elmo" / "snapshots" / COMMIT
    assert process.communicate() == (f"{folder}\n".encode(), b"")
    (tmp_path / "text").write_text("The cat sat .\n")
    model = ["--model", f"{NAME}@main", "-v"]
    result = elmo("embed", tmp_path / "text", tmp_path / "out.hdf5", *model)
    assert result.exit_code == 0
    assert f"Model: {NAME}@main\n" in result.stderr
    assert f'"path": "{folder}' in elmo("info", f"{NAME}@{COMMIT}", "--json").stdout


def test_the_softmax_is_downloaded_only_to_predict_words(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    save_model(
        make_language_model(small_architecture(), 0, tmp_path / "model"),
        tmp_path / "new",
    )
    saved = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    put_model_on_hub(site, "somebody/tiny-elmo", saved)
    assert find_files_by_name(NAME).softmax is None
    files = find_files_by_settings(ModelSettings(NAME), with_softmax=True)
    names = [path and path.name for path in (files.softmax, files.vocabulary)]
    assert names == ["softmax.safetensors", "vocab.txt"]


def test_missing_models_of_the_hub_are_reported(
    site: Site, saved: dict[str, bytes]
) -> None:
    put_model_on_hub(site, "somebody/tiny-elmo", saved)
    put_model_on_hub(
        site, "somebody/notes", {"README.md": b"", "pytorch_model.bin": b""}
    )
    api = "/api/models/somebody/tiny-elmo"
    site.put(f"{api}2/revision/main", b"", not_on_hub("RepoNotFound"))
    site.put(f"{api}/revision/v2", b"", not_on_hub("RevisionNotFound"))
    message = f"{NAME}: the hub's own package stores it. See `hf cache --help`."
    assert_fails(elmo("models", "--remove", NAME), message)
    for arguments, error in (
        (
            [f"{NAME}2"],
            f"{NAME}2: no such model on the hub. For a private model run `hf auth lo",
        ),
        ([NAME, "v2"], f"{NAME}@v2: the model has no revision v2"),
        (
            ["hf:somebody/notes"],
            ".*: no model: it has neither options.json nor weights",
        ),
        (["hf:a/b/c"], "hf:a/b/c: expected hf:OWNER/NAME$"),
        (["mini", "main"], "mini: only models of the hub have revisions. Remove"),
        (["/gone"], r"/gone: no such model folder or zip file\. `elmo models` "),
        (["mni"], r"mni: no such model\. Did you mean 'mini'\?"),
    ):
        with pytest.raises(ModelError, match=f"^{error}"):
            ElmoEmbedder.from_pretrained(*arguments)


def test_a_failing_hub_is_a_one_line_error(site: Site) -> None:
    site.close()
    with pytest.raises(
        ModelError, match=rf"^{NAME}: cannot download from the hub: [^\n]*$"
    ):
        find_files_by_name(NAME)


def test_a_vocabulary_of_the_folder_is_kept(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(TINY, model)
    (model / "vocab.txt").write_text("the\n")
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "vocab.txt").write_text("mine")
    with pytest.raises(ElmoError, match=r"vocab\.txt: already exists"):
        ElmoEmbedder(model=model).save_pretrained(folder)
    assert [path.name for path in folder.iterdir()] == ["vocab.txt"]
    assert (folder / "vocab.txt").read_text() == "mine"


def test_a_folder_is_not_saved_twice(tmp_path: Path, saved: dict[str, bytes]) -> None:
    many_langs = GOLDEN / "many-langs" / "both"
    for model, folder, message in (
        (TINY, "saved", "config.json: already exists"),
        (
            TINY,
            "saved/config.json",
            "config.json: cannot write the output: File exists$",
        ),
        (many_langs, "other", "models of ELMoForManyLangs cannot be saved as"),
    ):
        with pytest.raises(ElmoError, match=message):
            ElmoEmbedder(model=model).save_pretrained(tmp_path / folder)
    assert (
        ElmoEmbedder.from_pretrained(tmp_path / "saved", state="warm").state == "warm"
    )


def test_readme_has_metadata_use_and_card(tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    shutil.copytree(TINY, tmp_path / "model")
    (tmp_path / "model" / "card.md").write_text("# A card\n\nText.\n")
    files = replace(find_files_by_name(tmp_path / "model"), language="fr")
    save_model(files, tmp_path / "elmo-fr")
    card = ModelCard.load(tmp_path / "elmo-fr" / "README.md")
    metadata = card.data
    text = card.text
    assert metadata.library_name == "elmo-cli"
    assert metadata.language == "fr"
    assert metadata.pipeline_tag == "feature-extraction"
    assert text.startswith(
        "\n# elmo-fr\n\nELMo model for elmo-cli: 3 layers of 32 numbers per"
    )
    assert 'ElmoEmbedder.from_pretrained("OWNER/elmo-fr")' in text
    assert text.endswith("\n\n## A card\n\nText.\n")
