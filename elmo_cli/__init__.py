"""ELMo: contextual word vectors, on the command line and from Python.

Start with `ElmoEmbedder`, which turns texts into vectors:

    from elmo_cli import ElmoEmbedder

    embedder = ElmoEmbedder()  # the bundled model
    embedder.encode(["We sat on the bank."])  # one vector per text, float32, (1, 1024)
    embedder.word_vector("We sat on the bank.", "bank", layers=2)  # float32, (1024,)

Main names, each with its own help:

    ElmoEmbedder        vectors of texts, words, sentences, files; encode, word_vector,
                        similarity and embed_file are its methods
    open_activations    the files that it and `elmo embed` write
    LanguageModel       probabilities of words, with the functions measure_surprisal,
                        measure_perplexity, predict_words and find_substitutes

    find_neighbours, find_word_neighbours, plot_occurrences    similar words in files
    write_occurrences, measure_change     words in a corpus, and how their use changes
    write_word_vectors                    one vector per word
    EmbedBatch                            a column of vectors for pandas, Ray, Spark
    Elmo, batch_to_ids, HubElmo           layers of a torch model

`__all__` lists all names. `ElmoError` is the base class of all errors
that the package raises on purpose.

Letters in shapes:

    B    sentences in a batch
    T    tokens of the longest sentence in it
    L    layers, the token layer included: 3 for nearly all published models
    W    numbers per vector: 1,024 for most published models and the bundled one
    n    any other number, explained where it occurs

`python -m pydoc elmo_cli.model` lists the letters for what is inside a model.

Importing this package loads neither torch nor h5py; using its names does.
"""

import sys
from importlib import import_module
from typing import Any

_MODULES = {
    "__version__": "elmo_cli.version",
    "Activations": "elmo_cli.outputs.reader",
    "ActivationsDataset": "elmo_cli.integrations.activations_dataset",
    "average_word_vectors": "elmo_cli.analysis.word_vectors.average_vectors",
    "AverageVectors": "elmo_cli.analysis.word_vectors.average_vectors",
    "batch_to_ids": "elmo_cli.elmo",
    "BiLm": "elmo_cli.model.bilm",
    "BiLmOutput": "elmo_cli.model.bilm",
    "Candidate": "elmo_cli.language_model.candidates",
    "Change": "elmo_cli.analysis.change.measure_change",
    "CharacterSpan": "elmo_cli.text.alignment",
    "ComputationError": "elmo_cli.errors.exceptions",
    "DEFAULT_BATCH_SIZE": "elmo_cli.options.model",
    "DeviceError": "elmo_cli.errors.exceptions",
    "Elmo": "elmo_cli.elmo",
    "ElmoEmbedder": "elmo_cli.embedder",
    "ElmoError": "elmo_cli.errors.exceptions",
    "ElmoOutput": "elmo_cli.elmo",
    "ElmoVectorizer": "elmo_cli.integrations.vectorizer",
    "EmbedBatch": "elmo_cli.distributed.embed_batch",
    "find_neighbours": "elmo_cli.analysis.search.neighbours",
    "find_occurrence": "elmo_cli.text.occurrences",
    "find_substitutes": "elmo_cli.language_model.substitutes",
    "find_word_neighbours": "elmo_cli.analysis.search.word_neighbours",
    "HubElmo": "elmo_cli.integrations.hub_elmo",
    "InputError": "elmo_cli.errors.exceptions",
    "iter_substitutes": "elmo_cli.language_model.substitutes",
    "iter_surprisal": "elmo_cli.language_model.surprisal",
    "LanguageModel": "elmo_cli.language_model.language_model",
    "locate_tokens": "elmo_cli.text.alignment",
    "Location": "elmo_cli.analysis.search.vector_sources",
    "measure_change": "elmo_cli.analysis.change.measure_change",
    "measure_perplexity": "elmo_cli.language_model.perplexity",
    "measure_surprisal": "elmo_cli.language_model.surprisal",
    "ModelError": "elmo_cli.errors.exceptions",
    "ModelFiles": "elmo_cli.pretrained.model_files",
    "Neighbour": "elmo_cli.analysis.search.neighbours",
    "Neighbours": "elmo_cli.analysis.search.neighbours",
    "Occurrence": "elmo_cli.text.occurrences",
    "open_activations": "elmo_cli.outputs.reader",
    "open_occurrences": "elmo_cli.analysis.search.vector_files",
    "OutputError": "elmo_cli.errors.exceptions",
    "Perplexities": "elmo_cli.language_model.perplexity",
    "Perplexity": "elmo_cli.language_model.perplexity",
    "Picture": "elmo_cli.analysis.pictures.plot_occurrences",
    "plot_changes": "elmo_cli.analysis.pictures.plot_changes",
    "plot_occurrences": "elmo_cli.analysis.pictures.plot_occurrences",
    "plot_surprisals": "elmo_cli.analysis.pictures.plot_surprisals",
    "predict_words": "elmo_cli.language_model.next_words",
    "Prediction": "elmo_cli.language_model.next_words",
    "read_occurrences": "elmo_cli.analysis.change.occurrence_matrices",
    "read_targets": "elmo_cli.analysis.occurrences.targets",
    "Record": "elmo_cli.records.record",
    "sample_sentences": "elmo_cli.language_model.samples",
    "ScalarMix": "elmo_cli.model.scalar_mix",
    "SentenceScore": "elmo_cli.language_model.language_model",
    "SettingsError": "elmo_cli.errors.exceptions",
    "Similarity": "elmo_cli.inference.similarity",
    "StoppedError": "elmo_cli.errors.exceptions",
    "Substitutes": "elmo_cli.language_model.substitutes",
    "Summary": "elmo_cli.runs.file_sink",
    "TextSettings": "elmo_cli.options.text",
    "tokenize": "elmo_cli.text.choose_tokenizer",
    "Unit": "elmo_cli.language_model.units",
    "UnitSurprisal": "elmo_cli.language_model.surprisal_table",
    "VectorFiles": "elmo_cli.analysis.search.vector_files",
    "Vectors": "elmo_cli.analysis.search.vector_sources",
    "WeightsError": "elmo_cli.errors.exceptions",
    "write_occurrences": "elmo_cli.analysis.occurrences.write_occurrences",
    "write_token_vectors": "elmo_cli.analysis.word_vectors.token_vectors",
    "write_word_vectors": "elmo_cli.analysis.word_vectors.write_word_vectors",
    "WrittenOccurrences": "elmo_cli.analysis.occurrences.write_occurrences",
}
"""Module of each public name. It is imported when the name is first used."""

_OF_COMMANDS = {
    "change": "measure_change",
    "cosine": "ElmoEmbedder.similarity",
    "embed": "ElmoEmbedder",
    "embed_file": "ElmoEmbedder.embed_file",
    "encode": "ElmoEmbedder.encode",
    "neighbors": "find_neighbours",
    "neighbours": "find_neighbours",
    "occurrences": "write_occurrences",
    "perplexity": "measure_perplexity",
    "plot": "plot_occurrences",
    "predict": "predict_words",
    "similarity": "ElmoEmbedder.similarity",
    "surprisal": "measure_surprisal",
    "word_vectors": "write_word_vectors",
}
"""Name to use instead of the name of a command or a method."""

# ElmoVectorizer is not listed: `import *` and `dir` must work without scikit-learn.
__all__ = sorted(_MODULES.keys() - {"ElmoVectorizer"})


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        problem = f"module {__name__!r} has no attribute {name!r}"
        if name in _OF_COMMANDS:
            advice = f"{problem}. Use {_OF_COMMANDS[name]}."
            # Without `name=None`, Python adds both, and asks about a similar name.
            raise AttributeError(advice, name=None, obj=None)
        # With `name` and `obj`, Python asks whether a similar name was meant.
        raise AttributeError(problem, name=name, obj=sys.modules[__name__])
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
