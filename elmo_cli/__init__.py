"""ELMo: contextual word vectors, on the command line and from Python.

The rooms, each of which imports only those above it:

    errors.py, atomic.py    what can go wrong; files that appear when they are complete
    text/             characters on disk -> sentences
    outputs/          activations -> files -> activations
    model/            what ELMo computes: readable, differentiable, the truth
    pretrained/       a model's name -> files on disk -> a biLM
    inference/        the same numbers, fast
    language_model/   how probable words are
    embed_file.py     a text file -> an output file
    encode.py         raw texts -> vectors, a method of ElmoEmbedder
    embedder.py       ElmoEmbedder: sentences -> activations    start reading here
    elmo.py           Elmo: a layer to train with a task
    analysis/, integrations/, training/
    cli/              the command `elmo`

In shapes: B sentences in a batch, T tokens in a sentence (the longest of the batch), N tokens
of all its sentences together, L layers with the token layer, W their width, P = W / 2 the size
of a token vector, D of a memory cell, V words in a vocabulary.

Importing this package loads neither torch nor h5py; its names do, when used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ElmoError

if TYPE_CHECKING:
    from elmo_cli.analysis.change import measure_change, read_uses
    from elmo_cli.analysis.neighbours import neighbours
    from elmo_cli.analysis.plot import plot_uses
    from elmo_cli.analysis.word_vectors import (
        average_vectors,
        write_average_vectors,
        write_token_vectors,
    )
    from elmo_cli.elmo import Elmo, batch_to_ids
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.integrations.tfhub import HubElmo
    from elmo_cli.integrations.torch_dataset import ActivationsDataset
    from elmo_cli.integrations.vectorizer import ElmoVectorizer as ElmoVectorizer
    from elmo_cli.language_model.perplexity import measure_perplexity
    from elmo_cli.language_model.prediction import (
        predict_words,
        sample_sentences,
        substitute_words,
    )
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.language_model.surprisal import measure_surprisal
    from elmo_cli.model.bilm import BiLm
    from elmo_cli.model.scalar_mix import ScalarMix
    from elmo_cli.outputs.reader import open_activations
    from elmo_cli.text.tokenizers import tokenize

__version__ = "0.1.0"

# Without ElmoVectorizer: `import *` and `dir` must work without scikit-learn, which it needs.
__all__ = [
    "ActivationsDataset",
    "BiLm",
    "Elmo",
    "ElmoEmbedder",
    "ElmoError",
    "HubElmo",
    "LanguageModel",
    "ScalarMix",
    "__version__",
    "average_vectors",
    "batch_to_ids",
    "measure_change",
    "measure_perplexity",
    "measure_surprisal",
    "neighbours",
    "open_activations",
    "plot_uses",
    "predict_words",
    "read_uses",
    "sample_sentences",
    "substitute_words",
    "tokenize",
    "write_average_vectors",
    "write_token_vectors",
]

_MODULES = {
    "ActivationsDataset": "elmo_cli.integrations.torch_dataset",
    "BiLm": "elmo_cli.model.bilm",
    "Elmo": "elmo_cli.elmo",
    "ElmoEmbedder": "elmo_cli.embedder",
    "ElmoVectorizer": "elmo_cli.integrations.vectorizer",
    "HubElmo": "elmo_cli.integrations.tfhub",
    "LanguageModel": "elmo_cli.language_model.scoring",
    "ScalarMix": "elmo_cli.model.scalar_mix",
    "average_vectors": "elmo_cli.analysis.word_vectors",
    "batch_to_ids": "elmo_cli.elmo",
    "measure_change": "elmo_cli.analysis.change",
    "measure_perplexity": "elmo_cli.language_model.perplexity",
    "measure_surprisal": "elmo_cli.language_model.surprisal",
    "neighbours": "elmo_cli.analysis.neighbours",
    "open_activations": "elmo_cli.outputs.reader",
    "plot_uses": "elmo_cli.analysis.plot",
    "predict_words": "elmo_cli.language_model.prediction",
    "read_uses": "elmo_cli.analysis.change",
    "sample_sentences": "elmo_cli.language_model.prediction",
    "substitute_words": "elmo_cli.language_model.prediction",
    "tokenize": "elmo_cli.text.tokenizers",
    "write_average_vectors": "elmo_cli.analysis.word_vectors",
    "write_token_vectors": "elmo_cli.analysis.word_vectors",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
