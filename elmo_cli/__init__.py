"""ELMo: contextual word vectors, on the command line and from Python.

Start with `ElmoEmbedder`, which turns sentences into activations:

    from elmo_cli import ElmoEmbedder

    embedder = ElmoEmbedder()  # the bundled model
    activations = embedder.embed_sentence(["A", "word", "."])  # float32, (3, 3, 1024)

Main names, each with its own help:

    ElmoEmbedder        activations of sentences, texts and files
    open_activations    the files that it and `elmo embed` write
    LanguageModel       probabilities of tokens, with the functions
                        measure_surprisal, measure_units, measure_perplexity and predict_words
    neighbours, word_neighbours, similarities    similar tokens
    write_occurrences, measure_change            words in a corpus, and how their use changes
    Elmo, batch_to_ids, HubElmo                  layers of a torch model

All names are listed in __init__.pyi, where type checkers and this module read them. `ElmoError` is
the base class of all errors that the package raises on purpose.

Letters in shapes: B sentences per batch, T tokens per sentence (the longest of the batch), N tokens
of all sentences together, L layers including the token layer, W their width, P = W / 2 the size of
a token vector, D the size of a memory cell, V words in the vocabulary.

Importing this package loads neither torch nor h5py; using its names does.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULES = {
    name: module
    for module, name in re.findall(r"^from (\S+) import (\w+)", _STUB, re.M)
}
_OLDER_NAMES = dict(re.findall(r"^(\w+) = (\w+)$", _STUB, re.M))

# ElmoVectorizer is not listed: `import *` and `dir` must work without scikit-learn.
__all__ = sorted(_MODULES.keys() - {"ElmoVectorizer"})


def __getattr__(name: str) -> Any:
    defined = _OLDER_NAMES.get(name, name)
    if defined not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[defined]), defined)


def __dir__() -> list[str]:
    return __all__
