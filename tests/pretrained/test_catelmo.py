"""catELMo, which users import, and the calls of the programs that embed receptors."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from elmo_cli import ElmoEmbedder
from tests.support import reference
from tests.support.commands import elmo
from tests.support.strategies import make_model, small_architecture
from tests.support.website import zip_with

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.usefixtures("cache")

SEQUENCES = {"tcr": ["CASSLGNEQF", "CASSPGQYEQYF"], "epi": ["GILGFVFTL", "NLVPMVATV"]}
WIDTH = 6


@pytest.fixture
def model(folder: Path) -> Path:
    """Write a model of four layers, as the folder of catELMo has it."""
    path = folder / "catELMo"
    path.mkdir()
    make_model(small_architecture(n_layers=4), seed=1, folder=path)
    return path


def layers_of(model: Path, sequence: str) -> Any:
    """Return the layers of a sequence by the reference, (5, T, 6)."""
    options = json.loads((model / "options.json").read_text())
    arrays = reference.read_arrays(model / "weights.hdf5")
    layers, _ = reference.bilm(list(sequence), options, arrays)
    return layers[:, 1:-1]


@pytest.mark.parametrize("form", ["zip", "folder in a zip", "folder", "files"])
def test_catelmo_is_imported_and_then_has_a_name(model: Path, form: str) -> None:
    files = [model / "options.json", model / "weights.hdf5"]
    sources: list[str | Path] = [model]
    if form == "files":
        sources = [*files]
    elif form != "folder":
        start = "catELMo/" if form == "folder in a zip" else ""
        members = {start + path.name: path.read_bytes() for path in files}
        sources = [zip_with(Path("catELMo.zip"), members)]
    given = [argument for source in sources for argument in ("--from", source)]
    imported = elmo("download", "catelmo", *given)
    assert imported.exit_code == 0, imported.stderr
    embedder = ElmoEmbedder("catelmo")
    sequence = SEQUENCES["tcr"][0]
    vectors = embedder.embed_sentence(list(sequence))
    assert vectors.shape == (5, len(sequence), WIDTH)
    assert_allclose(vectors, layers_of(model, sequence), atol=1e-5)
    assert "catelmo" in elmo("models", "--downloaded").stdout


def test_a_missing_catelmo_leads_to_its_page() -> None:
    result = elmo("download", "catelmo")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: catelmo: cannot be downloaded by elmo-cli. Get its files from "
        "https://github.com/Lee-CBG/catELMo/tree/main/embedders, and run "
        "`elmo download catelmo --from FOLDER`.\n"
    )
    described = elmo("info", "catelmo").stdout
    assert "To import it, use `elmo download catelmo --from FOLDER`." in described
    assert "catelmo" not in elmo("models", "--downloaded").stdout


def test_the_calls_of_catelmo_and_tcrgen_run(model: Path) -> None:
    embedder = ElmoEmbedder(
        model / "options.json", model / "weights.hdf5", cuda_device=-1
    )

    def embed(sequence: str) -> list[float]:
        layers = torch.tensor(embedder.embed_sentence(list(sequence)))
        vector: list[float] = layers.sum(dim=0).mean(dim=0).tolist()
        return vector

    table = pandas.DataFrame(SEQUENCES)
    table["epi_embeds"] = table[["epi"]].map(embed)["epi"]  # catELMo: per column
    table["tcr_embeds"] = None
    for index, row in table.iterrows():  # TCRGen: row by row
        table.at[index, "tcr_embeds"] = embed(row["tcr"])
    for name in ("tcr", "epi"):
        for sequence, vector in zip(table[name], table[f"{name}_embeds"], strict=True):
            expected = layers_of(model, sequence).sum(axis=0).mean(axis=0)
            assert_allclose(vector, expected, atol=1e-5)
    together = embedder.embed_sentences(
        map(list, table["tcr"]), layers="sum", pooling="mean"
    )
    assert_allclose(list(together), list(table["tcr_embeds"]), atol=1e-5)


def test_the_calls_of_bap_attack_n_defend_run(model: Path) -> None:
    embedder = ElmoEmbedder(
        model / "options.json", model / "weights.hdf5", cuda_device=-1
    )
    n_padded = 22

    def embed(sequence: Any) -> Any:
        if isinstance(sequence, float):  # an empty cell
            return [0.0] * WIDTH
        layers = torch.tensor(embedder.embed_sentence(list(sequence)))
        residues = layers.mean(dim=0).tolist()
        return residues + [[0] * WIDTH] * (n_padded - len(residues))

    table = pandas.DataFrame({"TCRs": [*SEQUENCES["tcr"], math.nan]})
    vectors = table["TCRs"].apply(embed)
    assert vectors[2] == [0.0] * WIDTH
    padded = np.array(list(vectors[:2]))
    assert padded.shape == (2, n_padded, WIDTH)
    for values, sequence in zip(padded, SEQUENCES["tcr"], strict=True):
        expected = layers_of(model, sequence).mean(axis=0)
        assert_allclose(values[: len(sequence)], expected, atol=1e-5)
        assert not values[len(sequence) :].any()
