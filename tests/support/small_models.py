"""A small model in each public class, for the errors of wrong calls."""

from dataclasses import dataclass
from pathlib import Path

from elmo_cli import Elmo, ElmoEmbedder, HubElmo, LanguageModel
from tests.support.strategies import make_language_model, small_architecture


@dataclass(frozen=True)
class SmallModels:
    """A small model in each class, a text, and the file of its activations."""

    folder: Path
    options: Path
    weights: Path
    text: Path
    vectors: Path
    embedder: ElmoEmbedder
    model: LanguageModel
    elmo: Elmo
    hub: HubElmo
    cached: Elmo
    """Module that caches the vectors of four words."""


def make_small_models(folder: Path) -> SmallModels:
    """Write a model and a text into a folder, and load the model in each class."""
    make_language_model(small_architecture(), 1, folder)
    text = folder / "in.txt"
    text.write_text("a cat\nthe cat\nsome cat\n", encoding="utf-8")
    vectors = folder / "out.hdf5"
    embedder = ElmoEmbedder(folder)
    embedder.embed_file(text, vectors)
    return SmallModels(
        folder=folder,
        options=folder / "options.json",
        weights=folder / "weights.hdf5",
        text=text,
        vectors=vectors,
        embedder=embedder,
        model=LanguageModel(folder),
        elmo=Elmo(folder),
        hub=HubElmo(folder),
        cached=Elmo(folder, vocab_to_cache=["", "?", "the", "cat"]),
    )
