"""ELMo: contextual word vectors, on the command line and from Python.

The data's way, in eleven files:

    embedder.py        the whole of it: sentences -> activations    start reading here
    text.py            line            -> tokens (tokenizers.py)
    batching.py        sentences       -> windows, batches of like length, packed
    characters.py      tokens          -> character ids
    token_encoder.py   character ids   -> token vectors
    lstm.py            one LSTM layer in one direction: the truth
    bilm.py            token vectors   -> biLM layers, readable and with gradients
    inference.py       the same, fast and without gradients (fast_lstm.py, input_gates.py)
    sentence_states.py sentences       -> layers, from the state where they start
    scalar_mix.py      biLM layers     -> ELMo vectors: a weighted sum
    elmo.py            sentences       -> ELMo vectors, to train with a task

Around it:

    token_cache.py, trie.py, pieces.py, allocator.py, memory.py
                       each token once, each beginning once, a long sentence in pieces, with
                       freed memory kept for the next; and a batch too large for memory by halves
    arithmetic.py      a precision     -> its fast products (products.py, int8_product.py)
                       and what a step makes of them (recurrence.py, cells.py, compiled_cells.py);
                       both in C: kernels.py, kernels.c
    selection.py       layers -> what is asked of them (layers.py, pooling.py)
    settings.py        how sentences are computed: where they start, how many at once
    devices.py         the number of a GPU

From file to file:

    records.py         input file -> records, what gets one dataset each (fasta.py)
    file_run.py        records -> output file (file_settings.py, run_input.py, shard.py)
    outputs/           the output files: written, read, merged, converted

The files of a model:

    model_choice.py    what was asked for -> the files: by pretrained.py, model_files.py and
                       registry.py; got by download.py, transfer.py and archive.py; kept by
                       model_cache.py; whole by integrity.py
    options.py, weights.py, vocabulary.py   options.json, weights.hdf5, vocab.txt
    tensor_files.py    named tensors: HDF5 or safetensors (hdf5_tensors.py, safetensors_tensors.py;
                       convert.py, softmax_file.py)
    many_langs.py, many_langs_weights.py, lexicon_encoder.py   those of ELMoForManyLangs
    parameters.py      how many there are

What else is made of it:

    similarity.py      a word in two sentences -> cosines
    token_vectors.py   words           -> a file of their vectors, without a sentence
    tfhub.py           sentences       -> the outputs of TF-Hub's module, with gradients
    vectorizer.py      texts           -> a matrix, for scikit-learn
    scoring.py         sentences       -> log probabilities of their tokens (full_softmax.py)
    perplexity.py      those           -> the perplexity of a text
    prediction.py      a text          -> words that go on with it, or fill its gap
    training/          text            -> a model

    cli/               the command `elmo`
    errors.py          what all of it raises
    quantities.py      numbers with their unit, as messages say them
    whole_file.py      how a file gets its name when it is on the disk, not before

In shapes: B sentences in a batch, T tokens in a sentence (the longest of the batch), N tokens
of all its sentences together, L layers with the token layer, W their width, P = W / 2 the size
of a token vector, D of a memory cell, V words in a vocabulary.

Importing this package loads neither torch nor h5py; its names do, when used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ElmoError

if TYPE_CHECKING:
    from elmo_cli.analysis.word_vectors import write_token_vectors
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.integrations.tfhub import HubElmo
    from elmo_cli.integrations.torch_dataset import ActivationsDataset
    from elmo_cli.integrations.vectorizer import ElmoVectorizer as ElmoVectorizer
    from elmo_cli.language_model.perplexity import measure_perplexity
    from elmo_cli.language_model.prediction import predict_words, sample_sentences
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.model.bilm import BiLm
    from elmo_cli.model.elmo import Elmo, batch_to_ids
    from elmo_cli.model.scalar_mix import ScalarMix
    from elmo_cli.outputs.reader import open_activations

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
    "batch_to_ids",
    "measure_perplexity",
    "open_activations",
    "predict_words",
    "sample_sentences",
    "write_token_vectors",
]

_MODULES = {
    "ActivationsDataset": "elmo_cli.integrations.torch_dataset",
    "BiLm": "elmo_cli.model.bilm",
    "Elmo": "elmo_cli.model.elmo",
    "ElmoEmbedder": "elmo_cli.embedder",
    "ElmoVectorizer": "elmo_cli.integrations.vectorizer",
    "HubElmo": "elmo_cli.integrations.tfhub",
    "LanguageModel": "elmo_cli.language_model.scoring",
    "ScalarMix": "elmo_cli.model.scalar_mix",
    "batch_to_ids": "elmo_cli.model.elmo",
    "measure_perplexity": "elmo_cli.language_model.perplexity",
    "open_activations": "elmo_cli.outputs.reader",
    "predict_words": "elmo_cli.language_model.prediction",
    "sample_sentences": "elmo_cli.language_model.prediction",
    "write_token_vectors": "elmo_cli.analysis.word_vectors",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
