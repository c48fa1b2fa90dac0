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

Importing this package loads neither torch nor h5py; using its names does. The names stand in
__init__.pyi alone, where type checkers and this module read them.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULES = {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.M)}

# ElmoVectorizer is not listed: `import *` and `dir` must work without scikit-learn.
__all__ = sorted(_MODULES.keys() - {"ElmoVectorizer"})


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
