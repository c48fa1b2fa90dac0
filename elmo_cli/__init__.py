"""ELMo: contextual word vectors, on the command line and from Python.

The data's way, and the file for each stage:

    text.py            line            -> tokens
    fasta.py           FASTA           -> sequences of residues, the tokens of proteins
    records.py         input file      -> records: what gets one dataset each
    characters.py      tokens          -> character ids
    vocabulary.py      tokens          -> word ids (word-level models, softmax)
    batching.py        sentences       -> windows, batches of like length, packed
    token_encoder.py   character ids   -> token vectors
    token_cache.py     tokens          -> token vectors, each computed once
    lstm.py            one LSTM layer in one direction: the truth
    bilm.py            token vectors   -> biLM layers
    trie.py            sentences       -> their distinct beginnings
    inference.py       biLM layers, fast, without gradients
    directions.py      both directions -> each on half of the processor
    elmo.py            biLM layers     -> ELMo vectors (ScalarMix, Elmo)
    sentence_states.py sentences       -> layers, from the state where they start
    layers.py          layers          -> some of them, or one mixed from them
    pooling.py         tokens' vectors -> one vector a sentence
    selection.py       layers          -> what is asked of them: both of these
    embedder.py        sentences       -> activations          start reading here
    activations.py     activations     -> output file (HDF5), in one of two layouts:
    allennlp_layout.py, packed_layout.py, compression.py
                                           HDF5: a dataset a record, or one for all
    sentence_index.py, heap_string.py      sentences to the names of their datasets
    text_formats.py, standard_output.py    lines of text
    exports.py         packed file     -> npz, npy, safetensors, Parquet
    output_formats.py                      which of them a name asks for
    reader.py          output file     -> activations
    torch_dataset.py                      as a data set of torch
    tfhub.py           sentences       -> the outputs of TF-Hub's module, with gradients
    vectorizer.py      texts           -> a matrix, for scikit-learn
    similarity.py      a word in two sentences -> cosines
    full_softmax.py    biLM layers     -> log probabilities of words
    scoring.py         sentences       -> log probabilities of their tokens
    perplexity.py      those           -> the perplexity of a text
    prediction.py      a text          -> words that go on with it, or fill its gap
    token_vectors.py   words           -> a file of their vectors, without a sentence
    language_model.py  biLM layers     -> losses, in training
    training.py        text            -> a trained model, by way of
    training_text.py, training_batches.py, training_objective.py, sampled_softmax.py,
    optimizers.py, training_run.py, training_heldout.py
                       text -> sentences -> batches -> losses -> weights -> perplexity

    options.py, weights.py   the files of a model
    many_langs.py, many_langs_weights.py, lexicon_encoder.py
                             those of ELMoForManyLangs, and its token encoder
    memory.py                a batch too large for memory, by halves
    training_options.py, training_start.py, training_checkpoint.py, training_processes.py,
    training_log.py, training_card.py
                             the settings of a training run, and what it keeps and says
    tensor_files.py          named tensors: HDF5 or safetensors
    softmax_file.py          those of a softmax
    convert.py, convert_activations.py   files to another format or precision
    model_choice.py, pretrained.py   a model's name -> its files
    cli/                     the command `elmo`

Importing this package loads neither torch nor h5py; its names do, when used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ElmoError

if TYPE_CHECKING:
    from elmo_cli.bilm import BiLm
    from elmo_cli.elmo import Elmo, ScalarMix, batch_to_ids
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.perplexity import measure_perplexity
    from elmo_cli.prediction import predict_words, sample_sentences
    from elmo_cli.reader import open_activations
    from elmo_cli.scoring import LanguageModel
    from elmo_cli.tfhub import HubElmo
    from elmo_cli.token_vectors import write_token_vectors
    from elmo_cli.torch_dataset import ActivationsDataset
    from elmo_cli.vectorizer import ElmoVectorizer as ElmoVectorizer

__version__ = "0.1.0"

# Without ElmoVectorizer: `import *` and `dir` must work without scikit-learn, which it takes.
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
    "ActivationsDataset": "elmo_cli.torch_dataset",
    "BiLm": "elmo_cli.bilm",
    "Elmo": "elmo_cli.elmo",
    "ElmoEmbedder": "elmo_cli.embedder",
    "ElmoVectorizer": "elmo_cli.vectorizer",
    "HubElmo": "elmo_cli.tfhub",
    "LanguageModel": "elmo_cli.scoring",
    "ScalarMix": "elmo_cli.elmo",
    "batch_to_ids": "elmo_cli.elmo",
    "measure_perplexity": "elmo_cli.perplexity",
    "open_activations": "elmo_cli.reader",
    "predict_words": "elmo_cli.prediction",
    "sample_sentences": "elmo_cli.prediction",
    "write_token_vectors": "elmo_cli.token_vectors",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
