"""ELMo: contextual word vectors, on the command line and from Python.

Start with `ElmoEmbedder`, which turns sentences into activations:

    from elmo_cli import ElmoEmbedder

    embedder = ElmoEmbedder()  # the bundled model
    activations = embedder.embed_sentence(["A", "word", "."])  # float32, (3, 3, 1024)

Main names, each with its own help:

    ElmoEmbedder        activations of sentences, texts and files
    open_activations    the files that it and `elmo embed` write
    Elmo, batch_to_ids  a layer to train with a task, as in AllenNLP
    HubElmo             the outputs of TF-Hub's google/elmo
    ElmoVectorizer      a step of a scikit-learn pipeline
    LanguageModel       log probabilities of tokens
    measure_perplexity, measure_surprisal, predict_words, sample_sentences, substitute_words
    neighbours, write_usages, measure_change, plot_occurrences, write_average_vectors

`ElmoError` is the base class of all errors that the package raises on purpose.

Letters in shapes: B sentences per batch, T tokens per sentence (the longest of the batch), N tokens
of all sentences together, L layers including the token layer, W their width, P = W / 2 the size of
a token vector, D the size of a memory cell, V words in the vocabulary.

Importing this package loads neither torch nor h5py; using its names does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ElmoError as ElmoError
from elmo_cli.version import __version__ as __version__

if TYPE_CHECKING:
    from elmo_cli.analysis.change import measure_change as measure_change
    from elmo_cli.analysis.change import read_occurrences as read_occurrences
    from elmo_cli.analysis.neighbours import neighbours as neighbours
    from elmo_cli.analysis.occurrences import open_vectors as open_vectors
    from elmo_cli.analysis.pictures import plot_changes as plot_changes
    from elmo_cli.analysis.scatter import plot_occurrences as plot_occurrences
    from elmo_cli.analysis.targets import read_targets as read_targets
    from elmo_cli.analysis.usages import write_usages as write_usages
    from elmo_cli.analysis.word_vectors import average_vectors as average_vectors
    from elmo_cli.analysis.word_vectors import write_average_vectors as write_average_vectors
    from elmo_cli.analysis.word_vectors import write_token_vectors as write_token_vectors
    from elmo_cli.elmo import Elmo as Elmo
    from elmo_cli.elmo import batch_to_ids as batch_to_ids
    from elmo_cli.embedder import ElmoEmbedder as ElmoEmbedder
    from elmo_cli.integrations.tfhub import HubElmo as HubElmo
    from elmo_cli.integrations.torch_dataset import ActivationsDataset as ActivationsDataset
    from elmo_cli.integrations.vectorizer import ElmoVectorizer as ElmoVectorizer
    from elmo_cli.language_model.perplexity import measure_perplexity as measure_perplexity
    from elmo_cli.language_model.prediction import predict_words as predict_words
    from elmo_cli.language_model.prediction import sample_sentences as sample_sentences
    from elmo_cli.language_model.prediction import substitute_words as substitute_words
    from elmo_cli.language_model.scoring import LanguageModel as LanguageModel
    from elmo_cli.language_model.surprisal import measure_surprisal as measure_surprisal
    from elmo_cli.model.bilm import BiLm as BiLm
    from elmo_cli.model.bilm import ScalarMix as ScalarMix
    from elmo_cli.outputs.reader import open_activations as open_activations
    from elmo_cli.text.tokenizers import tokenize as tokenize

_NAMES = {
    "analysis.change": "measure_change read_occurrences",
    "analysis.neighbours": "neighbours",
    "analysis.occurrences": "open_vectors",
    "analysis.pictures": "plot_changes",
    "analysis.scatter": "plot_occurrences",
    "analysis.targets": "read_targets",
    "analysis.usages": "write_usages",
    "analysis.word_vectors": "average_vectors write_average_vectors write_token_vectors",
    "elmo": "Elmo batch_to_ids",
    "embedder": "ElmoEmbedder",
    "integrations.tfhub": "HubElmo",
    "integrations.torch_dataset": "ActivationsDataset",
    "integrations.vectorizer": "ElmoVectorizer",
    "language_model.perplexity": "measure_perplexity",
    "language_model.prediction": "predict_words sample_sentences substitute_words",
    "language_model.scoring": "LanguageModel",
    "language_model.surprisal": "measure_surprisal",
    "model.bilm": "BiLm ScalarMix",
    "outputs.reader": "open_activations",
    "text.tokenizers": "tokenize",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

# ElmoVectorizer is not listed: `import *` and `dir` must work without scikit-learn.
__all__ = sorted({"ElmoError", "__version__", *_MODULES} - {"ElmoVectorizer"})


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"elmo_cli.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
