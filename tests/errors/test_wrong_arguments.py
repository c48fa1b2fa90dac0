"""Arguments of the wrong type raise errors that name the argument."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_cli import (
    Elmo,
    ElmoEmbedder,
    ElmoVectorizer,
    HubElmo,
    Neighbour,
    ScalarMix,
    average_word_vectors,
    batch_to_ids,
    find_neighbours,
    find_occurrence,
    find_substitutes,
    find_word_neighbours,
    iter_substitutes,
    iter_surprisal,
    measure_change,
    measure_perplexity,
    measure_surprisal,
    open_activations,
    open_occurrences,
    plot_changes,
    plot_occurrences,
    plot_surprisals,
    predict_words,
    read_occurrences,
    read_targets,
    sample_sentences,
    tokenize,
    write_occurrences,
    write_token_vectors,
    write_word_vectors,
)
from elmo_cli.distributed.embed_batch import EmbedBatch
from elmo_cli.errors.exceptions import ElmoError, InputError, SettingsError
from tests.support.small_models import SmallModels

COLUMN = pytest.importorskip("pandas").Series(["the cat"], name="a")
TABLE = COLUMN.to_frame()
NOT_A_STRING = [None, ["a"], COLUMN, b"a", 3]
NO_SENTENCE_OR_TEXT = [None, 3, TABLE, {"a": "b"}, np.zeros(2), [["a"]], ["a", None]]
NO_WORDS = ["the cat", *NO_SENTENCE_OR_TEXT[1:]]
NO_BATCH_OR_TEXT = [
    None,
    3,
    TABLE,
    {"a"},
    {"a": ["b"]},
    np.zeros((2, 2)),
    [["a"], None],
]
NO_BATCH = ["the cat", *NO_BATCH_OR_TEXT]
NO_SENTENCES = [*NO_BATCH, ["the cat", "sat"], COLUMN]
NO_TEXTS_OR_TEXT = [*NO_BATCH_OR_TEXT, ["the cat", 3]]
NO_TEXTS = ["the cat", *NO_TEXTS_OR_TEXT]
NO_PAIRS = [None, 3, [(1, 2)], [("a", "b")], [1]]
NOT_WHOLE = [None, 1.5, "2"]
NO_NUMBER = [None, "0.5", [0.5]]
NO_FLAG = [None, 1, "no"]
NO_FUNCTION = [3, "print"]
NO_MAPPING = ["cat", ["cat"], np.zeros(2), COLUMN]


def wrong(
    argument: str,
    values: Sequence[object],
    call: Callable[[SmallModels, Any], object],
) -> Any:
    """Return a case: an argument, wrong values of it, and a call with one of them."""
    return pytest.param(argument, values, call, id=argument)


WRONG_ARGUMENTS = [
    wrong(
        "texts", [None, 3, b"a", [None], [["a"]]], lambda models, value: tokenize(value)
    ),
    wrong(
        "word",
        NOT_A_STRING,
        lambda models, value: plot_occurrences(
            open_activations(models.vectors), value, "new.svg"
        ),
    ),
    wrong("path", NOT_A_STRING, lambda models, value: read_targets(value)),
    wrong(
        "corpus",
        NOT_A_STRING,
        lambda models, value: write_occurrences(
            models.embedder, value, "new.jsonl", {"cat": "cat"}
        ),
    ),
    wrong(
        "input_file",
        NOT_A_STRING,
        lambda models, value: models.embedder.embed_file(value, "new.hdf5"),
    ),
    wrong(
        "output_file_path",
        NOT_A_STRING,
        lambda models, value: models.embedder.embed_file(models.text, value),
    ),
    wrong(
        "on_progress",
        [3, "print"],
        lambda models, value: models.embedder.embed_file(
            models.text, "new.hdf5", on_progress=value
        ),
    ),
    wrong("word", NOT_A_STRING, lambda models, value: find_occurrence("a cat", value)),
    wrong("pairs", NO_PAIRS, lambda models, value: models.embedder.similarities(value)),
    wrong(
        "queries",
        [None, 3, [(1, 2)], ["a"], [1]],
        lambda models, value: find_word_neighbours(
            models.embedder, open_activations(models.vectors), value
        ),
    ),
    wrong(
        "word",
        NOT_A_STRING,
        lambda models, value: models.embedder.word_vector("a cat", value),
    ),
    wrong(
        "sentence",
        NO_SENTENCE_OR_TEXT,
        lambda models, value: models.embedder.word_vector(value, "cat"),
    ),
    wrong(
        "sentence2",
        NO_SENTENCE_OR_TEXT,
        lambda models, value: models.embedder.similarity("cat", "a cat", value),
    ),
    wrong(
        "embedder",
        NO_MAPPING,
        lambda models, value: average_word_vectors(value, [["a"]]),
    ),
    wrong("model", NO_MAPPING, lambda models, value: measure_perplexity(value, ["a"])),
    wrong("model", NO_MAPPING, lambda models, value: measure_surprisal(value, ["a"])),
    wrong("model", NO_MAPPING, lambda models, value: predict_words(value, ["a"])),
    wrong("name", [None, 3], lambda models, value: ElmoEmbedder.from_pretrained(value)),
    wrong("path", NOT_A_STRING, lambda models, value: open_activations(value)),
    wrong("path", NOT_A_STRING, lambda models, value: open_occurrences(value)),
    wrong(
        "path",
        NOT_A_STRING,
        lambda models, value: read_occurrences(value, models.vectors),
    ),
    wrong(
        "sentence",
        [*NO_WORDS, None],
        lambda models, value: models.embedder.embed_sentence(value),
    ),
    wrong(
        "text",
        NO_SENTENCE_OR_TEXT,
        lambda models, value: sample_sentences(models.model, value),
    ),
    wrong(
        "words",
        NO_WORDS,
        lambda models, value: average_word_vectors(models.embedder, [["the"]], value),
    ),
    wrong(
        "vocab_to_cache",
        NO_WORDS,
        lambda models, value: Elmo(models.folder, vocab_to_cache=value),
    ),
    wrong(
        "batch", NO_SENTENCES, lambda models, value: models.embedder.embed_batch(value)
    ),
    wrong(
        "batch",
        NO_SENTENCES,
        lambda models, value: models.embedder.batch_to_embeddings(value),
    ),
    wrong(
        "sentences",
        NO_SENTENCES,
        lambda models, value: list(models.embedder.embed_sentences(value)),
    ),
    wrong(
        "keep_columns",
        ["id", None, 3],
        lambda models, value: models.embedder.embed_file(
            models.text, "new.jsonl", keep_columns=value
        ),
    ),
    wrong(
        "texts", NO_BATCH_OR_TEXT, lambda models, value: models.embedder.encode(value)
    ),
    wrong(
        "texts",
        NO_BATCH,
        lambda models, value: ElmoVectorizer(models.folder).transform(value),
    ),
    wrong("batch", NO_SENTENCES, lambda models, value: batch_to_ids(value)),
    wrong(
        "batch",
        NO_SENTENCES,
        lambda models, value: models.elmo.bilm.sentence_ids(value),
    ),
    wrong("inputs", NO_BATCH, lambda models, value: models.hub(value)),
    wrong("inputs", [[["a"]], None], lambda models, value: models.elmo(value)),
    wrong("texts", NO_TEXTS_OR_TEXT, lambda models, value: models.model.score(value)),
    wrong(
        "texts", NO_TEXTS, lambda models, value: list(models.model.iter_scores(value))
    ),
    wrong(
        "texts",
        NO_SENTENCES,
        lambda models, value: models.model.read(value, direction="forward"),
    ),
    wrong(
        "texts",
        NO_TEXTS_OR_TEXT,
        lambda models, value: measure_perplexity(models.model, value),
    ),
    wrong(
        "texts",
        NO_TEXTS_OR_TEXT,
        lambda models, value: measure_surprisal(models.model, value),
    ),
    wrong(
        "texts",
        NO_TEXTS,
        lambda models, value: list(iter_surprisal(models.model, value)),
    ),
    wrong(
        "texts",
        NO_TEXTS_OR_TEXT,
        lambda models, value: predict_words(models.model, value),
    ),
    wrong(
        "texts",
        NO_TEXTS_OR_TEXT,
        lambda models, value: find_substitutes(models.model, value),
    ),
    wrong(
        "texts",
        NO_TEXTS,
        lambda models, value: list(iter_substitutes(models.model, value)),
    ),
    wrong(
        "texts",
        NO_TEXTS_OR_TEXT,
        lambda models, value: average_word_vectors(models.embedder, value),
    ),
    wrong(
        "files",
        NO_MAPPING[2:],
        lambda models, value: find_neighbours(value, np.zeros((1, 6))),
    ),
    wrong(
        "files",
        NO_MAPPING[2:],
        lambda models, value: plot_occurrences(value, "cat", "new.svg"),
    ),
    wrong(
        "words",
        [None, 3, {"a"}, TABLE],
        lambda models, value: write_occurrences(
            models.embedder, models.text, "new.jsonl", value
        ),
    ),
    wrong(
        "words",
        [3, {"a"}],
        lambda models, value: read_occurrences(models.vectors, models.vectors, value),
    ),
    wrong("new", NO_MAPPING, lambda models, value: measure_change({}, value)),
    wrong(
        "permutations",
        NOT_WHOLE,
        lambda models, value: measure_change({}, {}, "apd", permutations=value),
    ),
    wrong(
        "clusters",
        NOT_WHOLE[1:],
        lambda models, value: plot_occurrences(
            models.vectors, "cat", "new.svg", clusters=value
        ),
    ),
    wrong(
        "min_count",
        NOT_WHOLE,
        lambda models, value: average_word_vectors(
            models.embedder, ["a"], min_count=value
        ),
    ),
    wrong(
        "at_most",
        NOT_WHOLE[1:],
        lambda models, value: average_word_vectors(
            models.embedder, ["a"], min_count=1, at_most=value
        ),
    ),
    wrong(
        "occurrence",
        NOT_WHOLE[1:],
        lambda models, value: models.embedder.word_vector(
            "a cat", "cat", occurrence=value
        ),
    ),
    wrong("changes", NO_MAPPING, lambda models, value: plot_changes(value, "new.svg")),
    wrong(
        "surprisals",
        NO_MAPPING,
        lambda models, value: plot_surprisals(value, "new.svg"),
    ),
    wrong(
        "temperature",
        NO_NUMBER,
        lambda models, value: sample_sentences(models.model, "the", temperature=value),
    ),
    wrong(
        "dropout",
        [*NO_NUMBER, 1.5, -1],
        lambda models, value: Elmo(models.folder, dropout=value),
    ),
    wrong("mixture_size", NOT_WHOLE, lambda models, value: ScalarMix(value)),
    wrong(
        "scalar_mix_parameters",
        [1.5, [1], ["a", 0, 0], [None, 0, 0]],
        lambda models, value: Elmo(models.folder, scalar_mix_parameters=value),
    ),
    wrong(
        "precision",
        [None, 16],
        lambda models, value: ElmoEmbedder(models.folder, precision=value),
    ),
    wrong(
        "dtype",
        [None, 16],
        lambda models, value: models.embedder.embed_file(
            models.text, "new", dtype=value
        ),
    ),
    wrong(
        "tokenizer",
        [3, ["moses"]],
        lambda models, value: tokenize("a", tokenizer=value),
    ),
    wrong(
        "overwrite",
        NO_FLAG,
        lambda models, value: plot_surprisals(
            measure_surprisal(models.model, "a cat"), "new.svg", overwrite=value
        ),
    ),
    wrong(
        "overwrite",
        NO_FLAG,
        lambda models, value: models.embedder.embed_file(
            models.text, "new.hdf5", overwrite=value
        ),
    ),
    wrong(
        "normalize",
        NO_FLAG,
        lambda models, value: models.embedder.embed_sentences([["a"]], normalize=value),
    ),
    wrong(
        "with_unknown",
        NO_FLAG,
        lambda models, value: predict_words(models.model, "a", with_unknown=value),
    ),
    wrong(
        "requires_grad",
        NO_FLAG,
        lambda models, value: Elmo(models.folder, requires_grad=value),
    ),
    wrong("trainable", NO_FLAG, lambda models, value: HubElmo(models.folder, value)),
    wrong(
        "top",
        [True, *NOT_WHOLE],
        lambda models, value: predict_words(models.model, "a", top=value),
    ),
    wrong(
        "output",
        [None, 3],
        lambda models, value: plot_occurrences(models.vectors, "cat", value),
    ),
    wrong(
        "output",
        [None, 3],
        lambda models, value: write_word_vectors(models.embedder, models.text, value),
    ),
    wrong(
        "output",
        [None, 3],
        lambda models, value: write_token_vectors(models.embedder, ["a"], value),
    ),
    wrong(
        "output",
        [None, 3],
        lambda models, value: write_occurrences(
            models.embedder, models.text, value, ["cat"]
        ),
    ),
    wrong(
        "is_excluded",
        NO_FUNCTION,
        lambda models, value: find_neighbours(
            models.vectors, np.zeros(6), is_excluded=value
        ),
    ),
    wrong(
        "on_progress",
        NO_FUNCTION,
        lambda models, value: measure_change({}, {}, on_progress=value),
    ),
    wrong(
        "names",
        [3, "ab", [1, 2]],
        lambda models, value: plot_surprisals(
            measure_surprisal(models.model, ["a", "cat"]), "new.svg", names=value
        ),
    ),
    wrong(
        "word_inputs",
        ["x", [[1, 2]]],
        lambda models, value: models.cached(batch_to_ids([["a", "cat"]]), value),
    ),
    wrong(
        "lengths",
        [1, "1", ["1"], [1.0], [None], [True]],
        lambda models, value: models.hub([["a"]], value),
    ),
    wrong(
        "sequence_len",
        [1, [1.0], [2]],
        lambda models, value: models.hub({"tokens": [["a"]], "sequence_len": value}),
    ),
    wrong(
        "tensors",
        [None, 3, [1, 2], [torch.zeros(1, 2, 3), torch.zeros(1, 3, 3)]],
        lambda models, value: ScalarMix(2)(value),
    ),
    wrong(
        "mask",
        ["a", torch.zeros(2, 2), torch.zeros(1)],
        lambda models, value: ScalarMix(1, do_layer_norm=True)(
            [torch.zeros(1, 2, 3)], value
        ),
    ),
    wrong(
        "ids",
        [
            None,
            [["a"]],
            torch.zeros(1, 50, dtype=torch.int64),
            torch.zeros(1, 2, 3, dtype=torch.int64),
            torch.zeros(1, 2, 50),
        ],
        lambda models, value: models.embedder.elmo_bilm(value),
    ),
    wrong(
        "folder",
        [None, 3, ["a"]],
        lambda models, value: models.embedder.save_pretrained(value),
    ),
    wrong("column", [None, 3], lambda models, value: EmbedBatch(column=value)),
    wrong(
        "text_column", [3, ["a"]], lambda models, value: EmbedBatch(text_column=value)
    ),
    wrong(
        "tokenizer",
        [3, "mosses", "whitespace:fr"],
        lambda models, value: EmbedBatch(tokenizer=value),
    ),
    wrong("batch", [None, 3, "a", ["a"]], lambda models, value: EmbedBatch()(value)),
    wrong("text", [None, ["a"]], lambda models, value: models.model.tokenize(value)),
    wrong(
        "old",
        [{"cat": 3}, {"cat": [1]}],
        lambda models, value: measure_change(value, {}),
    ),
    wrong(
        "vectors",
        ["a", [["a"]], [[float("nan")] * 6]],
        lambda models, value: find_neighbours(models.vectors, value),
    ),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("argument", "values", "call"), WRONG_ARGUMENTS)
def test_wrong_arguments_are_named(
    argument: str,
    values: Sequence[object],
    call: Callable[[SmallModels, Any], object],
    models: SmallModels,
) -> None:
    for value in values:
        with pytest.raises(InputError) as caught:
            call(models, value)
        message = str(caught.value)
        assert message.startswith((f"{argument}:", f"{argument}[", f"{argument} "))
        assert "expected" in message
        assert "\n" not in message


TOO_SMALL = [
    (
        lambda models: measure_change("no.hdf5", "none.hdf5", permutations=-1),
        "permutations: expected 0 or more, found -1",
    ),
    (
        lambda models: plot_occurrences(models.vectors, "cat", "new.svg", clusters=1),
        "clusters: expected 2 or more, found 1",
    ),
    (
        lambda models: average_word_vectors(models.embedder, ["a"], min_count=0),
        "min_count: expected 1 or more, found 0",
    ),
    (
        lambda models: average_word_vectors(
            models.embedder, ["a"], min_count=1, at_most=0
        ),
        "at_most: expected 1 or more, found 0",
    ),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("call", "message"), TOO_SMALL)
def test_too_small_numbers_are_named(
    call: Callable[[SmallModels], object], message: str, models: SmallModels
) -> None:
    with pytest.raises(SettingsError) as caught:
        call(models)
    assert str(caught.value) == message


REMEDIES = [
    (
        lambda models: find_word_neighbours(  # type: ignore[call-overload]
            models.embedder,
            "cat",
            "The cat sat.",
            "v.h5",
        ),
        "top: expected a whole number, found 'v.h5'. Give the files first, then the "
        "queries: (SENTENCE, WORD).",
    ),
    (
        lambda models: find_word_neighbours(models.embedder, models.vectors, "a cat"),  # type: ignore[arg-type]
        "queries: expected (sentence, word), found the string 'a cat'. Give its word "
        "too: ('a cat', WORD).",
    ),
    (
        lambda models: find_word_neighbours(models.embedder, models.vectors, "cat"),  # type: ignore[arg-type]
        "queries: expected (sentence, word), found the string 'cat'. Give its sentence "
        "too: (SENTENCE, 'cat').",
    ),
    (
        lambda models: find_word_neighbours(
            models.embedder, models.vectors, ("cat", "The cat sat.")
        ),
        "sentence: expected a sentence with 'The cat sat.', found 'cat'. Give the "
        "sentence first, then the word.",
    ),
    (
        lambda models: find_occurrence("cat", "The cat sat."),
        "sentence: expected a sentence with 'The cat sat.', found 'cat'. Give the "
        "sentence first, then the word.",
    ),
    (
        lambda models: find_occurrence("cat", ["The", "cat", "sat"]),  # type: ignore[arg-type]
        "word: expected a string, found a list of tokens. Give the sentence first, "
        "then the word.",
    ),
    (
        lambda models: write_occurrences(
            models.embedder, models.text, "new.jsonl", "leaves"
        ),
        "leaves: no such file. For words, give a list: ['leaves'].",
    ),
    (
        lambda models: write_occurrences(
            models.embedder, models.text, "new.jsonl", "leaves,rabbit"
        ),
        "leaves,rabbit: no such file. For words, give a list: ['leaves', 'rabbit'].",
    ),
    (
        lambda models: models.embedder.word_vector(["We sat on the bank."], "bank"),
        "'bank' is not a token of 'We sat on the bank.'. The list has one token. Give "
        "the string itself, or split it.",
    ),
    (
        lambda models: models.embedder.word_vector("We saw New York.", "New York"),
        "'New York' is not a token of 'We saw New York .'. A word is one token here. "
        "Choose 'We', 'saw', 'New', 'York' or '.'.",
    ),
    (
        lambda models: models.embedder.word_vector("We sat.", "bank"),
        "'bank' is not a token of 'We sat .'. Choose 'We', 'sat' or '.'.",
    ),
    (
        lambda models: models.embedder.word_vector("we " * 11, "bank"),
        f"'bank' is not a token of '{'we ' * 10}we'. Choose 'we'.",
    ),
    (
        lambda models: models.embedder.encode(["a"], prompt="x"),
        "prompt: ELMo has no prompts. Add the words to the texts.",
    ),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("call", "message"), REMEDIES)
def test_wrong_calls_have_a_remedy(
    call: Callable[[SmallModels], object], message: str, models: SmallModels
) -> None:
    with pytest.raises(ElmoError) as caught:
        call(models)
    assert str(caught.value) == message


@pytest.mark.usefixtures("folder")
def test_vectors_of_occurrences_have_a_function_of_their_own() -> None:
    Path("old.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"use open_occurrences\.$"):
        open_activations("old.parquet")


def test_results_show_what_they_are(models: SmallModels) -> None:
    path = str(models.vectors)
    with open_activations(path) as activations:
        record, _ = next(iter(activations.records()))
    assert repr(record) == "Record(text='a cat', tokens=['a', 'cat'])"
    with open_occurrences(path) as files:
        vectors = next(files.read())
    assert repr(vectors) == (
        f"Vectors(words=['a', 'cat'], path={path!r}, number=1, shape=(2, 6))"
    )
    neighbour = Neighbour(
        record.tokens,
        1,
        cosine=0.5,
        record_index=0,
        location=vectors.location,
        word="cat",
    )
    assert repr(neighbour) == (
        f"Neighbour('a [cat]', cosine=0.5000, path={path!r}, number=1)"
    )


def test_a_unit_shows_its_surprisal(models: SmallModels) -> None:
    [unit] = measure_surprisal(models.model, "cat", by="word")
    assert repr(unit) == f"UnitSurprisal('cat', surprisal={unit.surprisal:.2f})"
