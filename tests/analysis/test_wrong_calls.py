"""Wrong calls of the functions that write occurrences and vectors of words."""

import pytest

from elmo_cli import (
    average_word_vectors,
    find_occurrence,
    find_word_neighbours,
    plot_occurrences,
    write_occurrences,
    write_token_vectors,
    write_word_vectors,
)
from elmo_cli.errors.exceptions import (
    InputError,
    MissingInputError,
    OutputError,
    OutputNameError,
    SettingsError,
)
from tests.support.small_models import SmallModels
from tests.support.wrong_calls import WrongCall, check_error, each_wrong_call


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: write_token_vectors(models.embedder, "missing", "out.txt"),
        MissingInputError,
        "missing: no such file",
    ),
    WrongCall(
        lambda models: write_occurrences(
            models.embedder, models.text, "x.npy", {"cat": "cat"}
        ),
        SettingsError,
        "x.npy: target words are written as Parquet or HDF5. "
        "Name a file with .parquet or .hdf5.",
    ),
    WrongCall(
        lambda models: average_word_vectors("We sat.", models.embedder),  # type: ignore[arg-type]
        InputError,
        "embedder: expected an ElmoEmbedder, found the string 'We sat.'. Give the "
        "model first, such as ElmoEmbedder().",
    ),
    WrongCall(
        lambda models: write_occurrences(
            models.embedder,
            models.text,
            "x.hdf5",
            {"cat": "cat"},
            text_settings="moses",  # type: ignore[arg-type]
        ),
        InputError,
        "text_settings: expected TextSettings, found the string 'moses'",
    ),
    WrongCall(
        lambda models: write_word_vectors(
            models.embedder, models.text, "x.vec", ["New York"]
        ),
        InputError,
        "words[0]: 'New York' has white space, which .vec cannot store. Choose HDF5 "
        "or npz.",
    ),
    WrongCall(
        lambda models: write_token_vectors(models.embedder, [], "x.vec"),
        InputError,
        "words: expected a list of words, found an empty one",
    ),
)
def test_a_wrong_argument_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: write_word_vectors(
            models.embedder, models.text, "x.vec", min_count=100
        ),
        InputError,
        "FOLDER/in.txt: no word occurs 100 times or more; the most frequent occurs 3 "
        "times. Use min_count=3.",
    ),
    WrongCall(
        lambda models: write_word_vectors(
            models.embedder, models.text, "x.vec", ["zebra"]
        ),
        InputError,
        "FOLDER/in.txt: no word of the list occurs. Check the words and the tokenizer.",
    ),
    WrongCall(
        lambda models: average_word_vectors(
            models.embedder, ["the cat", "the dog"], ["the", "cat"], min_count=3
        ),
        InputError,
        "texts: no word of the list occurs 3 times or more; the most frequent occurs 2 "
        "times. Use min_count=2.",
    ),
    WrongCall(
        lambda models: average_word_vectors(models.embedder, []),
        InputError,
        "texts: no words",
    ),
)
def test_words_without_vectors_are_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: write_word_vectors(models.embedder, models.text, models.vectors),
        OutputError,
        "FOLDER/out.hdf5: already exists. Use overwrite=True to replace it.",
    ),
    WrongCall(
        lambda models: write_word_vectors(models.embedder, models.text, "x.doc"),
        OutputNameError,
        "x.doc: unknown suffix '.doc'. Choose .vec, .txt or .w2v (.gz may follow), "
        ".bin, .npz, .tsv, .hdf5 or .h5.",
    ),
    WrongCall(
        lambda models: write_occurrences(
            models.embedder, models.text, models.vectors, {"cat": "cat"}
        ),
        OutputError,
        "FOLDER/out.hdf5: already exists, with other options: "
        "layers (it has all, this run has top), words (it has none, this run has "
        '{"cat": "cat"}). Use '
        "overwrite=True to replace it.",
    ),
)
def test_a_wrong_output_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: plot_occurrences("zebra", str(models.vectors), "x.svg"),
        InputError,
        "FOLDER/out.hdf5: a file in the place of the word. Give the files first, then "
        "the word.",
    ),
    WrongCall(
        lambda models: find_word_neighbours(
            models.embedder,
            ("We sat.", "sat"),
            str(models.vectors),  # type: ignore[arg-type]
        ),
        InputError,
        "FOLDER/out.hdf5: a file in the place of the queries. Give the files first, "
        "then the queries.",
    ),
    WrongCall(
        lambda models: find_occurrence("We sat.", "sat", 0),
        SettingsError,
        "occurrence: expected 1 or more, found 0",
    ),
    WrongCall(
        lambda models: write_occurrences(models.embedder, models.text, "x.hdf5", []),
        InputError,
        "words: the list is empty. Give at least one word.",
    ),
    WrongCall(
        lambda models: average_word_vectors(
            models.embedder, "We sat.", layers="sum", min_count=1
        ),
        SettingsError,
        "layers: expected all, top, average, word_emb, lstm1, lstm2 or numbers from "
        "-3 to 2 separated by commas, found 'sum'",
    ),
)
def test_a_misplaced_or_empty_argument_is_named(
    wrong: WrongCall, models: SmallModels
) -> None:
    check_error(wrong, models)
