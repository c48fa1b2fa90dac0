"""Errors of calls in Python, as users see them: their kind and one line."""

import os
import pickle
from collections.abc import Callable
from errno import ENOENT
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_cli import (
    Elmo,
    ElmoEmbedder,
    HubElmo,
    LanguageModel,
    average_word_vectors,
    batch_to_ids,
    measure_perplexity,
    measure_surprisal,
    open_activations,
    sample_sentences,
    write_occurrences,
    write_token_vectors,
    write_word_vectors,
)
from elmo_cli.errors.exceptions import ElmoError, ModelError, OutputError
from elmo_cli.options.text import TextSettings
from elmo_cli.pretrained.convert import convert_weights
from elmo_cli.training.find_text_files import find_text_files
from tests.errors.small_models import SmallModels
from tests.support.commands import TINY


def error_of(
    call: Callable[[SmallModels], object], kind: type[Exception], message: str
) -> Any:
    """Return a case: a call, and the kind and the message of the error that it raises.

    FOLDER in the message is the folder of the small models.
    """
    return pytest.param(call, kind, message, id=message[:60])


class Table(list[str]):
    """Stand-in for a table of pandas."""

    columns = ("text",)


IDS = batch_to_ids([["a", "cat"], ["the"]])
WORDS = torch.tensor([[1, 3], [2, 0]])


MISSING_FILES = [
    error_of(
        lambda m: ElmoEmbedder("missing", m.weights),
        FileNotFoundError,
        "missing: no such file",
    ),
    error_of(
        lambda m: Elmo(m.options, "missing.hdf5"),
        FileNotFoundError,
        "missing.hdf5: no such file",
    ),
    error_of(
        lambda m: Elmo(m.options, "missing.safetensors"),
        FileNotFoundError,
        "missing.safetensors: no such file",
    ),
    error_of(
        lambda m: ElmoEmbedder(model="./missing"),
        FileNotFoundError,
        "./missing: no such model folder or zip file. "
        "`elmo models` lists the models that have a name.",
    ),
    error_of(
        lambda m: ElmoEmbedder("orignal"),
        FileNotFoundError,
        "orignal: no such model. Did you mean 'original'? `elmo models` lists all "
        "names.",
    ),
    error_of(
        lambda m: LanguageModel("orignal"),
        FileNotFoundError,
        "orignal: no such model. Did you mean 'original'? `elmo models` lists all "
        "names.",
    ),
    error_of(
        lambda m: Elmo("orignal"),
        FileNotFoundError,
        "orignal: no such model. Did you mean 'original'? `elmo models` lists all "
        "names.",
    ),
    error_of(
        lambda m: HubElmo("orignal"),
        FileNotFoundError,
        "orignal: no such model. Did you mean 'original'? `elmo models` lists all "
        "names.",
    ),
    error_of(
        lambda m: ElmoEmbedder.from_pretrained("missing.zip"),
        FileNotFoundError,
        "missing.zip: no such model folder or zip file. "
        "`elmo models` lists the models that have a name.",
    ),
    error_of(
        lambda m: ElmoEmbedder(model="./empty"),
        FileNotFoundError,
        "empty: expected a model (options.json and weights.hdf5), found no "
        "options.json and no weights.hdf5",
    ),
    error_of(
        lambda m: LanguageModel(model=TINY),
        FileNotFoundError,
        f"{TINY}: predicting words requires a softmax. Add softmax.hdf5 next to "
        f"{TINY}/weights.hdf5, or give softmax_file.",
    ),
    error_of(
        lambda m: LanguageModel(vocabulary_file="missing"),
        FileNotFoundError,
        "missing: no such file",
    ),
    error_of(
        lambda m: m.embedder.embed_file("missing", "out.hdf5"),
        FileNotFoundError,
        "missing: no such file",
    ),
    error_of(
        lambda m: m.embedder.embed_file("missing.csv", "out.hdf5"),
        FileNotFoundError,
        "missing.csv: no such file",
    ),
    error_of(
        lambda m: m.embedder.embed_file("missing.parquet", "out.hdf5"),
        FileNotFoundError,
        "missing.parquet: no such file",
    ),
    error_of(
        lambda m: m.embedder.embed_file(m.text, "missing/out.hdf5"),
        FileNotFoundError,
        "missing/out.hdf5: the folder missing does not exist. Create it first.",
    ),
    error_of(
        lambda m: open_activations("missing"),
        FileNotFoundError,
        "missing: no such file",
    ),
    error_of(
        lambda m: write_token_vectors(m.embedder, "missing", "out.txt"),
        FileNotFoundError,
        "missing: no such file",
    ),
    error_of(
        lambda m: convert_weights("missing", "new.hdf5"),
        FileNotFoundError,
        "missing: no such file",
    ),
    error_of(
        lambda m: find_text_files(["missing"]),
        FileNotFoundError,
        "missing: no such file. Name a file or a pattern of files.",
    ),
]

WRONG_OPTIONS = [
    error_of(
        lambda m: ElmoEmbedder(m.options),
        ModelError,
        "FOLDER/options.json: expected a name, a folder or a zip file, found "
        "another file. Give the folder that has the options.json and the weights "
        "of the model.",
    ),
    error_of(
        lambda m: ElmoEmbedder(3),  # type: ignore[call-overload]
        ValueError,
        "model: expected a name or a path, found 3",
    ),
    error_of(
        lambda m: LanguageModel(3),  # type: ignore[arg-type]
        ValueError,
        "model: expected a name or a path, found 3",
    ),
    error_of(
        lambda m: Elmo(3),  # type: ignore[arg-type]
        ValueError,
        "model: expected a name or a path, found 3",
    ),
    error_of(
        lambda m: HubElmo(3),  # type: ignore[arg-type]
        ValueError,
        "model: expected a name or a path, found 3",
    ),
    error_of(
        lambda m: ElmoEmbedder(model=TINY, state="cold"),  # type: ignore[call-overload]
        ValueError,
        "state: expected zero, warm or carry, found 'cold'",
    ),
    error_of(
        lambda m: TextSettings(text_column="a", word_column="b"),
        ValueError,
        "text_column: cannot be combined with word_column. Remove one of them.",
    ),
    error_of(
        lambda m: write_occurrences(m.embedder, m.text, "x.npy", {"cat": "cat"}),
        ValueError,
        "x.npy: target words are written as Parquet or HDF5. "
        "Name a file with .parquet or .hdf5.",
    ),
    error_of(
        lambda m: ElmoEmbedder(model=TINY, state=""),  # type: ignore[call-overload]
        ValueError,
        "state: expected zero, warm or carry, found ''",
    ),
    error_of(
        lambda m: ElmoEmbedder(model=TINY, precision="float8"),  # type: ignore[call-overload]
        ValueError,
        "precision: expected float32, tf32, bfloat16, float16 or int8, found 'float8'",
    ),
    error_of(
        lambda m: ElmoEmbedder(model=TINY, batch_tokens=0),
        ValueError,
        "batch_tokens: expected 1 or more, found 0",
    ),
    error_of(
        lambda m: ElmoEmbedder(weight_file=m.weights),  # type: ignore[call-overload]
        ValueError,
        "Give either options_file and weight_file, or model, or none",
    ),
    error_of(
        lambda m: ElmoEmbedder(m.options, "cuda"),
        ValueError,
        "weight_file: expected a file, found the device cuda. For a device, use "
        "device='cuda'.",
    ),
    error_of(
        lambda m: ElmoEmbedder("cuda:0"),
        FileNotFoundError,
        "cuda:0: no such model. For a device, use device='cuda:0'.",
    ),
    error_of(
        lambda m: LanguageModel("mps"),
        FileNotFoundError,
        "mps: no such model. For a device, use device='mps'.",
    ),
    error_of(
        lambda m: ElmoEmbedder(  # type: ignore[call-overload]
            "mini", options_file=m.options, weight_file=m.weights
        ),
        ValueError,
        "Give either options_file and weight_file, or model, or none",
    ),
    error_of(
        lambda m: Elmo(m.options, m.weights, model=TINY),
        ValueError,
        "Give either options_file and weight_file, or model, or none",
    ),
    error_of(
        lambda m: Elmo(m.options, m.weights, module=m.embedder.elmo_bilm),
        ValueError,
        "Give either options_file and weight_file, or module, or model",
    ),
    error_of(
        lambda m: Elmo(model=TINY, num_output_representations=0),
        ValueError,
        "num_output_representations: expected 1 or more, found 0",
    ),
    error_of(
        lambda m: Elmo(model=TINY, requires_grad=True, vocab_to_cache=["a"]),
        ValueError,
        "vocab_to_cache: cannot be used with requires_grad, because training "
        "would not change the cached vectors. Remove one of them.",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], pooling="sum"),  # type: ignore[call-overload]
        ValueError,
        "pooling: expected mean, max, first or last, found 'sum'",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], mix=["a", "b", "c"]),  # type: ignore[list-item]
        ValueError,
        "mix: expected a number, found the string 'a'",
    ),
    error_of(
        lambda m: sample_sentences(m.model, "a", max_words=-1),
        ValueError,
        "max_words: expected 0 or more, found -1",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], prompt_name="query"),
        ValueError,
        "prompt_name: ELMo has no prompts.",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], precision="int8"),
        ValueError,
        "precision: vectors are float32. Convert the array instead.",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], device=["cpu", "cpu"]),  # type: ignore[call-overload]
        ValueError,
        "device ['cpu', 'cpu']: expected one device, because encode runs in one "
        "process",
    ),
    error_of(
        lambda m: m.embedder.encode(),
        ValueError,
        "texts: expected a string or a list, found None",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], output_value=None),  # type: ignore[call-overload]
        ValueError,
        "output_value: encode returns vectors alone. Choose "
        "sentence_embedding or token_embeddings.",
    ),
    error_of(
        lambda m: m.embedder.word_vector("cat", "The cat sat."),
        ValueError,
        "sentence: expected a sentence with 'The cat sat.', found 'cat'. Give the "
        "sentence first, then the word.",
    ),
    error_of(
        lambda m: m.embedder.similarity("The cat sat.", "cat", "A cat."),
        ValueError,
        "sentence1: expected a sentence with 'The cat sat.', found 'cat'. Give the "
        "word first, then the sentence.",
    ),
    error_of(
        lambda m: m.embedder.similarity("cat", "A cat, a cat.", "A cat."),
        ValueError,
        "'cat' occurs 2 times in 'A cat , a cat .'. Add occurrence1=1 or "
        "occurrence1=2.",
    ),
    error_of(
        lambda m: m.embedder.similarities([("A cat.", "A cat.")]),  # type: ignore[list-item]
        ValueError,
        "pairs[0]: expected (word, sentence1, sentence2), or two results of "
        "find_occurrence, found a value of type tuple",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], layers="middle"),
        ValueError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from 0 to 2 separated by commas, found 'middle'",
    ),
    error_of(
        lambda m: list(m.embedder.embed_sentences([["the"]], layers=-4)),
        ValueError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from 0 to 2 separated by commas, found '-4'",
    ),
    error_of(
        lambda m: list(m.embedder.embed_sentences([["the"]], layers=[0, 3])),
        ValueError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from 0 to 2 separated by commas, found '0,3'",
    ),
    error_of(
        lambda m: list(m.embedder.embed_sentences([["the"]], layers=[])),
        ValueError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from 0 to 2 separated by commas, found ''",
    ),
    error_of(
        lambda m: list(m.embedder.embed_sentences([["the"]], layers=[[0]])),  # type: ignore[list-item]
        ValueError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from 0 to 2 separated by commas, found '[0]'",
    ),
    error_of(
        lambda m: list(m.embedder.embed_sentences([["the"]], layers="0,-9")),
        ValueError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from 0 to 2 separated by commas, found '0,-9'",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], tokenizer="words"),
        ValueError,
        "tokenizer: expected auto, whitespace, moses, spacy or residues, found "
        "'words'. moses and spacy may have a language, such as spacy:de, and "
        "spacy:zh a segmenter, such as spacy:zh:jieba.",
    ),
    error_of(
        lambda m: m.embedder.encode(["a"], device="tpu"),
        ValueError,
        "device: expected auto, cpu, cuda, cuda:N or mps, found 'tpu'",
    ),
    error_of(
        lambda m: list(m.embedder.embed_sentences([["a"]], 0)),
        ValueError,
        "batch_size: expected 1 or more, found 0",
    ),
    error_of(
        lambda m: m.embedder.embed_file(StringIO("a"), "x", "all", 0),
        ValueError,
        "batch_size: expected 1 or more, found 0",
    ),
    error_of(
        lambda m: measure_surprisal("We sat.", m.model),  # type: ignore[call-overload]
        ValueError,
        "model: expected a LanguageModel, found the string 'We sat.'. Give the model "
        "first, such as LanguageModel().",
    ),
    error_of(
        lambda m: average_word_vectors("We sat.", m.embedder),  # type: ignore[arg-type]
        ValueError,
        "embedder: expected an ElmoEmbedder, found the string 'We sat.'. Give the "
        "model first, such as ElmoEmbedder().",
    ),
    error_of(
        lambda m: m.embedder.encode(str(m.text)),
        ValueError,
        "texts: expected a text, found the file 'FOLDER/in.txt'. Read it first: "
        "Path('FOLDER/in.txt').read_text().splitlines()",
    ),
    error_of(
        lambda m: measure_perplexity(m.model, str(m.text)),
        ValueError,
        "texts: expected a text, found the file 'FOLDER/in.txt'. Read it first: "
        "Path('FOLDER/in.txt').read_text().splitlines()",
    ),
    error_of(
        lambda m: m.embedder.embed_file(StringIO("a"), "x", "top", layers=2),
        ValueError,
        "layers: cannot be combined with output_format. Remove one of them.",
    ),
    error_of(
        lambda m: m.embedder.similarity("cat", "A cat.", "A cat.", layers=9),
        ValueError,
        "layers: expected all, top, average, word_emb, lstm1, lstm2 "
        "or numbers from 0 to 2 separated by commas, found '9'",
    ),
    error_of(
        lambda m: write_occurrences(
            m.embedder,
            m.text,
            "x.hdf5",
            {"cat": "cat"},
            text_settings="moses",  # type: ignore[arg-type]
        ),
        ValueError,
        "text_settings: expected TextSettings, found the string 'moses'",
    ),
    error_of(
        lambda m: write_word_vectors(m.embedder, m.text, "x.vec", min_count=100),
        ValueError,
        "FOLDER/in.txt: no word occurs 100 times or more. Lower min_count.",
    ),
    error_of(
        lambda m: write_word_vectors(m.embedder, m.text, "x.vec", ["New York"]),
        ValueError,
        "words[0]: 'New York' has white space, which .vec cannot store. Choose HDF5 "
        "or npz.",
    ),
    error_of(
        lambda m: write_token_vectors(m.embedder, [], "x.vec"),
        ValueError,
        "words: expected a list of words, found an empty one",
    ),
    error_of(
        lambda m: write_word_vectors(m.embedder, m.text, m.vectors),
        OutputError,
        "FOLDER/out.hdf5: already exists. Use overwrite=True to replace it.",
    ),
    error_of(
        lambda m: write_word_vectors(m.embedder, m.text, "x.doc"),
        OutputError,
        "x.doc: unknown suffix '.doc'. Choose .vec, .txt or .w2v (.gz may follow), "
        ".bin, .npz, .tsv, .hdf5 or .h5.",
    ),
    error_of(
        lambda m: m.embedder.embed_file(StringIO("a"), "x", dtype="float64"),  # type: ignore[arg-type]
        ValueError,
        "dtype: expected float32 or float16, found 'float64'",
    ),
    error_of(
        lambda m: convert_weights(m.weights, "x", "float64"),
        ValueError,
        "dtype: expected float32 or float16, found 'float64'",
    ),
    error_of(
        lambda m: convert_weights(m.weights, "x", ""),
        ValueError,
        "dtype: expected float32 or float16, found ''",
    ),
    error_of(
        lambda m: write_occurrences(m.embedder, m.text, m.vectors, {"cat": "cat"}),
        OutputError,
        "FOLDER/out.hdf5: already exists, with other options: "
        "layers (it has all, you asked for top), words (it has none, you asked for "
        '{"cat": "cat"}). Use '
        "overwrite=True to replace it.",
    ),
    error_of(
        lambda m: m.embedder.embed_file(m.text, "x.npy"),
        ValueError,
        "format npy requires pooling: one vector per line",
    ),
    error_of(
        lambda m: m.embedder.embed_file(m.text, "x.csv"),
        ValueError,
        "x.csv: vectors are not written as .csv. Choose .hdf5, .jsonl, .npz, .npy "
        "or .parquet, or name a format with file_format.",
    ),
    error_of(
        lambda m: m.embedder.embed_file(m.text, "x.jsonl", keep_columns=["id"]),
        ValueError,
        "keep_columns has no effect with text: it has no columns. If it is a "
        "table, use input_format='csv', or input_format='tsv' if its cells are "
        "separated by tabs.",
    ),
]

WRONG_INPUTS = [
    error_of(
        lambda m: m.embedder.embed_file(BytesIO(b"a"), "x"),  # type: ignore[arg-type]
        ValueError,
        "the input: expected a path or an open text file, found a binary file",
    ),
    error_of(
        lambda m: m.embedder.embed_file(["s.txt"], "x"),  # type: ignore[arg-type]
        ValueError,
        "the input: expected a path or an open text file, found a value of type list",
    ),
    error_of(
        lambda m: m.embedder.embed_file(iter(["a b"]), "x"),  # type: ignore[arg-type]
        ValueError,
        "the input: expected a path or an open text file, found a value of type "
        "list_iterator",
    ),
    error_of(
        lambda m: m.embedder.embed_batch(["The cat"]),  # type: ignore[list-item]
        ValueError,
        "batch[0]: expected a list of tokens, found the string 'The cat'. "
        "Tokenize it first, for example with elmo_cli.tokenize().",
    ),
    error_of(
        lambda m: m.embedder.encode(["a", None]),  # type: ignore[list-item]
        ValueError,
        "texts[1]: expected a string or a list of tokens, found None",
    ),
    error_of(
        lambda m: m.embedder.encode(["a", float("nan")]),  # type: ignore[list-item]
        ValueError,
        "texts[1]: expected a string or a list of tokens, found nan",
    ),
    error_of(
        lambda m: m.embedder.encode(["a", b"b"]),  # type: ignore[list-item]
        ValueError,
        "texts[1]: expected a string or a list of tokens, found bytes. Decode "
        "them first, for example by .decode().",
    ),
    error_of(
        lambda m: m.embedder.encode(["a", ["b", 2]]),  # type: ignore[list-item]
        ValueError,
        "texts[1][1]: expected a string, found 2",
    ),
    error_of(
        lambda m: m.embedder.encode([["a"], [b"b"]]),  # type: ignore[list-item]
        ValueError,
        "texts[1][0]: expected a string, found bytes",
    ),
    error_of(
        lambda m: m.embedder.encode([{"text": "a"}]),  # type: ignore[list-item]
        ValueError,
        "texts[0]: expected a string or a list of tokens, found a value of type dict",
    ),
    error_of(
        lambda m: m.embedder.encode({"tokens": ["a"]}),
        ValueError,
        "texts: expected a string or a list, found a value of type dict. Give one of "
        "its values. Only HubElmo takes the mapping of TF-Hub.",
    ),
    error_of(
        lambda m: m.embedder.encode({"a", "b"}),
        ValueError,
        "texts: expected a string or a list, found a value of type set. Make a list.",
    ),
    error_of(
        lambda m: m.embedder.encode(None),
        ValueError,
        "texts: expected a string or a list, found None",
    ),
    error_of(
        lambda m: m.embedder.encode(b"The cat"),  # type: ignore[arg-type]
        ValueError,
        "texts: expected a string or a list, found bytes. Put it into a list.",
    ),
    error_of(
        lambda m: m.embedder.encode(Table()),
        ValueError,
        "texts: expected a string or a list, found a value of type Table. Choose one "
        "of its columns.",
    ),
]

WRONG_IDS = [
    error_of(
        lambda m: m.cached(IDS[..., 0]),
        ValueError,
        "inputs: expected shape (B, T, 50), found (2, 2)",
    ),
    error_of(
        lambda m: m.cached(IDS[..., :12]),
        ValueError,
        "inputs: expected shape (B, T, 50), found (2, 2, 12)",
    ),
    error_of(
        lambda m: m.cached(IDS.float()),
        ValueError,
        "inputs: expected int64, found torch.float32",
    ),
    error_of(
        lambda m: m.cached(IDS.flip(1)),
        ValueError,
        "inputs: padding before a token. It must come after the tokens.",
    ),
    error_of(
        lambda m: m.cached(IDS * 0, WORDS.flip(1)),
        ValueError,
        "inputs: padding before a token. It must come after the tokens.",
    ),
    error_of(
        lambda m: m.cached(IDS * 1000),
        ValueError,
        "inputs: expected ids from batch_to_ids or bilm.sentence_ids, found 0 to "
        "261000",
    ),
    error_of(
        lambda m: m.cached(IDS.masked_fill(IDS[0, 0, 1] == IDS, -2)),
        ValueError,
        "inputs: expected ids from batch_to_ids or bilm.sentence_ids, found -2 to 261",
    ),
    error_of(
        lambda m: m.cached(IDS, WORDS[:, :1]),
        ValueError,
        "word_inputs: expected shape (2, 2), found (2, 1)",
    ),
    error_of(
        lambda m: m.cached(IDS * 0, WORDS * 2),
        ValueError,
        "word_inputs: expected indices in vocab_to_cache where inputs has no "
        "characters, found one outside it",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [*MISSING_FILES, *WRONG_OPTIONS, *WRONG_INPUTS, *WRONG_IDS],
)
def test_an_error_has_a_kind_and_one_line(
    call: Callable[[SmallModels], object],
    kind: type[Exception],
    message: str,
    models: SmallModels,
    folder: Path,
) -> None:
    Path("empty").mkdir()
    with pytest.raises(ElmoError) as caught:
        call(models)
    error = caught.value
    assert isinstance(error, kind)
    assert str(error).replace(str(models.folder), "FOLDER") == message
    if kind is FileNotFoundError:
        assert getattr(error, "errno", None) == ENOENT
    else:
        assert getattr(error, "errno", None) is None
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error)
    assert str(copied) == str(error)
    assert os.listdir() == ["empty"]
