"""Errors of `ElmoEmbedder`: wrong options, texts and files."""

from io import BytesIO, StringIO

import pytest

from elmo_cli import ElmoEmbedder, EmbedBatch, open_activations
from elmo_cli.errors.exceptions import (
    InputError,
    MissingFolderError,
    MissingInputError,
    OutputError,
    SettingsError,
)
from elmo_cli.options.text import TextSettings
from tests.support.commands import TINY
from tests.support.small_models import SmallModels
from tests.support.wrong_calls import WrongCall, check_error, each_wrong_call


class Table(list[str]):
    """Stand-in for a table of pandas."""

    columns = ("text",)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: models.embedder.embed_file("missing", "out.hdf5"),
        MissingInputError,
        "missing: no such file",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file("missing.csv", "out.hdf5"),
        MissingInputError,
        "missing.csv: no such file",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file("missing.parquet", "out.hdf5"),
        MissingInputError,
        "missing.parquet: no such file",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(models.text, "missing/out.hdf5"),
        MissingFolderError,
        "missing/out.hdf5: the folder missing does not exist. Create it first.",
    ),
    WrongCall(
        lambda models: open_activations("missing"),
        MissingInputError,
        "missing: no such file",
    ),
)
def test_a_missing_file_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: ElmoEmbedder(model=TINY, state="cold"),  # type: ignore[call-overload]
        SettingsError,
        "state: expected zero, warm or carry, found 'cold'",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(model=TINY, state=""),  # type: ignore[call-overload]
        SettingsError,
        "state: expected zero, warm or carry, found ''",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(model=TINY, batch_tokens=0),
        SettingsError,
        "batch_tokens: expected 1 or more, found 0",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(model=TINY, cuda_device="gpu"),  # type: ignore[call-overload]
        SettingsError,
        "cuda_device: expected -1 for the CPU or the number of a GPU, found 'gpu'",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(model=TINY, cuda_device=-2),
        SettingsError,
        "cuda_device: expected -1 for the CPU or the number of a GPU, found -2",
    ),
    WrongCall(
        lambda models: ElmoEmbedder(model=TINY, device=["cpu"]),  # type: ignore[call-overload]
        SettingsError,
        "device: expected auto, cpu, cuda, cuda:N or mps, found ['cpu']",
    ),
    WrongCall(
        lambda models: EmbedBatch(TINY, device="gpu"),
        SettingsError,
        "device: expected auto, cpu, cuda, cuda:N or mps, found 'gpu'. Did you mean "
        "'cuda'?",
    ),
)
def test_a_wrong_option_of_the_model_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: models.embedder.encode(["a"], pooling="sum"),  # type: ignore[call-overload]
        SettingsError,
        "pooling: expected mean, max, first or last, found 'sum'",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a"], mix=["a", "b", "c"]),  # type: ignore[list-item]
        InputError,
        "mix: expected a number, found the string 'a'",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a"], prompt_name="query"),
        SettingsError,
        "prompt_name: ELMo has no prompts.",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a"], precision="int8"),
        SettingsError,
        "precision: vectors are float32. Convert the array instead.",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a"], device=["cpu", "cpu"]),  # type: ignore[call-overload]
        SettingsError,
        "device ['cpu', 'cpu']: expected one device, because encode runs in one "
        "process",
    ),
    WrongCall(
        lambda models: models.embedder.encode(),
        InputError,
        "texts: expected a string or a list, found None",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a"], output_value=None),  # type: ignore[call-overload]
        SettingsError,
        "output_value: encode returns vectors alone. Choose "
        "sentence_embedding or token_embeddings.",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a"], layers="middle"),
        SettingsError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from -3 to 2 separated by commas, found 'middle'",
    ),
    WrongCall(
        lambda models: list(models.embedder.embed_sentences([["the"]], layers=-4)),
        SettingsError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from -3 to 2 separated by commas, found '-4'",
    ),
    WrongCall(
        lambda models: list(models.embedder.embed_sentences([["the"]], layers=[0, 3])),
        SettingsError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from -3 to 2 separated by commas, found '0,3'",
    ),
    WrongCall(
        lambda models: list(models.embedder.embed_sentences([["the"]], layers=[])),
        SettingsError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from -3 to 2 separated by commas, found ''",
    ),
    WrongCall(
        lambda models: list(models.embedder.embed_sentences([["the"]], layers=[[0]])),  # type: ignore[list-item]
        SettingsError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from -3 to 2 separated by commas, found '[0]'",
    ),
    WrongCall(
        lambda models: list(models.embedder.embed_sentences([["the"]], layers="0,-9")),
        SettingsError,
        "layers: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from -3 to 2 separated by commas, found '0,-9'",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a"], tokenizer="words"),
        SettingsError,
        "tokenizer: expected auto, whitespace, moses, spacy or residues, found "
        "'words'. moses and spacy may have a language, such as spacy:de, and "
        "spacy:zh a segmenter, such as spacy:zh:jieba.",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a"], device="tpu"),
        SettingsError,
        "device: expected auto, cpu, cuda, cuda:N or mps, found 'tpu'",
    ),
    WrongCall(
        lambda models: list(models.embedder.embed_sentences([["a"]], 0)),
        SettingsError,
        "batch_size: expected 1 or more, found 0",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(StringIO("a"), "x", "all", 0),
        SettingsError,
        "batch_size: expected 1 or more, found 0",
    ),
)
def test_a_wrong_option_of_a_call_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: models.embedder.word_vector("cat", "The cat sat."),
        InputError,
        "sentence: expected a sentence with 'The cat sat.', found 'cat'. Give the "
        "sentence first, then the word.",
    ),
    WrongCall(
        lambda models: models.embedder.similarity("The cat sat.", "cat", "A cat."),
        InputError,
        "sentence1: expected a sentence with 'The cat sat.', found 'cat'. Give the "
        "word first, then the sentence.",
    ),
    WrongCall(
        lambda models: models.embedder.similarity("cat", "A cat.", "A cat.", word2=3),  # type: ignore[arg-type]
        InputError,
        "word2: expected a string, found 3",
    ),
    WrongCall(
        lambda models: models.embedder.similarity(
            "cat",
            "A cat.",
            "A cat.",
            occurrence2="1",  # type: ignore[arg-type]
        ),
        InputError,
        "occurrence2: expected a whole number, found the string '1'",
    ),
    WrongCall(
        lambda models: models.embedder.word_vector("A cat.", b"cat"),  # type: ignore[arg-type]
        InputError,
        "word: expected a string, found bytes. Decode them first, for example by "
        ".decode().",
    ),
    WrongCall(
        lambda models: models.embedder.similarity("cat", "A cat, a cat.", "A cat."),
        InputError,
        "'cat' occurs 2 times in 'A cat , a cat .'. Add occurrence1=1 or "
        "occurrence1=2.",
    ),
    WrongCall(
        lambda models: models.embedder.similarities([("A cat.", "A cat.")]),  # type: ignore[list-item]
        InputError,
        "pairs[0]: expected (word, sentence1, sentence2), or two results of "
        "find_occurrence, found a tuple of 2 values",
    ),
    WrongCall(
        lambda models: models.embedder.similarity("cat", "A cat.", "A cat.", layers=9),
        SettingsError,
        "layers: expected all, top, average, word_emb, lstm1, lstm2 "
        "or numbers from -3 to 2 separated by commas, found '9'",
    ),
)
def test_a_wrong_word_or_sentence_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: TextSettings(text_column="a", word_column="b"),
        SettingsError,
        "text_column: cannot be combined with word_column. Remove one of them.",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(StringIO("a"), "x", "top", layers=2),
        SettingsError,
        "layers: cannot be combined with output_format. Remove one of them.",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(StringIO("a"), "x", "foo"),
        SettingsError,
        "output_format: expected all, top, average, sum, word_emb, lstm1, lstm2 "
        "or numbers from -3 to 2 separated by commas, found 'foo'",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(StringIO("a"), "x", None),  # type: ignore[arg-type]
        InputError,
        "output_format: expected a name or numbers, found None",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(
            StringIO("a"), "x", output_format="top", mix=[0, 0, 0]
        ),
        SettingsError,
        "output_format has no effect with mix, which is of all layers. Remove one of "
        "them.",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(StringIO("a"), "x", dtype="float64"),  # type: ignore[arg-type]
        SettingsError,
        "dtype: expected float32 or float16, found 'float64'",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(models.text, ""),
        OutputError,
        "the name of the output is empty. Give the name of a file.",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(models.text, "x.npy"),
        SettingsError,
        "x.npy: npy holds one vector per sentence. Add pooling='mean'.",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(models.text, "x.csv"),
        SettingsError,
        "x.csv: vectors are not written as .csv. Choose .hdf5, .jsonl, .npz, .npy "
        "or .parquet, or name a format with file_format.",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(
            models.text, "x.jsonl", keep_columns=["id"]
        ),
        SettingsError,
        "keep_columns: requires a table, found text. If it is a table, use "
        "input_format='csv', or input_format='tsv' if its cells are separated by "
        "tabs.",
    ),
)
def test_a_wrong_option_of_a_file_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: models.embedder.encode(str(models.text)),
        InputError,
        "texts: expected a text, found the file 'FOLDER/in.txt'. Read it first: "
        "Path('FOLDER/in.txt').read_text().splitlines()",
    ),
    WrongCall(
        lambda models: models.embedder.embed_batch(["The cat"]),  # type: ignore[list-item]
        InputError,
        "batch[0]: expected a list of tokens, found the string 'The cat'. "
        "Tokenize it first, for example with elmo_cli.tokenize().",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a", None]),  # type: ignore[list-item]
        InputError,
        "texts[1]: expected a string or a list of tokens, found None",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a", float("nan")]),  # type: ignore[list-item]
        InputError,
        "texts[1]: expected a string or a list of tokens, found nan",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a", b"b"]),  # type: ignore[list-item]
        InputError,
        "texts[1]: expected a string or a list of tokens, found bytes. Decode "
        "them first, for example by .decode().",
    ),
    WrongCall(
        lambda models: models.embedder.encode(["a", ["b", 2]]),  # type: ignore[list-item]
        InputError,
        "texts[1][1]: expected a string, found 2",
    ),
    WrongCall(
        lambda models: models.embedder.encode([["a"], [b"b"]]),  # type: ignore[list-item]
        InputError,
        "texts[1][0]: expected a string, found bytes. Decode them first, for example "
        "by .decode().",
    ),
    WrongCall(
        lambda models: models.embedder.encode([{"text": "a"}]),  # type: ignore[list-item]
        InputError,
        "texts[0]: expected a string or a list of tokens, found a value of type dict",
    ),
    WrongCall(
        lambda models: models.embedder.encode({"tokens": ["a"]}),
        InputError,
        "texts: expected a string or a list, found a value of type dict. Give one of "
        "its values. Only HubElmo takes the mapping of TF-Hub.",
    ),
    WrongCall(
        lambda models: models.embedder.encode({"a", "b"}),
        InputError,
        "texts: expected a string or a list, found a value of type set. Make a list.",
    ),
    WrongCall(
        lambda models: models.embedder.encode(None),
        InputError,
        "texts: expected a string or a list, found None",
    ),
    WrongCall(
        lambda models: models.embedder.encode(b"The cat"),  # type: ignore[arg-type]
        InputError,
        "texts: expected a string or a list, found bytes. Decode them first, "
        "for example by .decode().",
    ),
    WrongCall(
        lambda models: models.embedder.encode(Table()),
        InputError,
        "texts: expected a string or a list, found a value of type Table. Choose one "
        "of its columns.",
    ),
)
def test_what_is_no_text_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)


def _closed_file() -> StringIO:
    file = StringIO("a")
    file.close()
    return file


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: models.embedder.embed_file(BytesIO(b"a"), "x"),  # type: ignore[arg-type]
        InputError,
        "input_file: expected a path or an open text file, found a binary file",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(["s.txt"], "x"),  # type: ignore[arg-type]
        InputError,
        "input_file: expected a path or an open text file, found a value of type list",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(iter(["a b"]), "x"),  # type: ignore[arg-type]
        InputError,
        "input_file: expected a path or an open text file, found a value of type "
        "list_iterator",
    ),
    WrongCall(
        lambda models: models.embedder.embed_file(_closed_file(), "x"),
        InputError,
        "input_file: expected an open text file, found a closed one. Open it again, or "
        "give its path.",
    ),
)
def test_what_is_no_input_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)
