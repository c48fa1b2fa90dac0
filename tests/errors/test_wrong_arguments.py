"""Arguments of the wrong type raise errors that name the argument."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_cli import (
    Elmo,
    ElmoEmbedder,
    ElmoVectorizer,
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
    predict_words,
    read_occurrences,
    read_targets,
    sample_sentences,
    tokenize,
    write_occurrences,
)
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
NO_MAPPING = ["cat", ["cat"], np.zeros(2), COLUMN]


def wrong(
    argument: str,
    values: Sequence[object],
    call: Callable[[SmallModels, Any], object],
) -> Any:
    """Return a case: an argument, wrong values of it, and a call with one of them."""
    return pytest.param(argument, values, call)


WRONG_ARGUMENTS = [
    wrong("texts", [None, 3, b"a", [None], [["a"]]], lambda m, x: tokenize(x)),
    wrong(
        "word",
        NOT_A_STRING,
        lambda m, x: plot_occurrences(open_activations(m.vectors), x, "new.svg"),
    ),
    wrong("the input", NOT_A_STRING, lambda m, x: read_targets(x)),
    wrong(
        "the input",
        NOT_A_STRING,
        lambda m, x: write_occurrences(m.embedder, x, "new.jsonl", {"cat": "cat"}),
    ),
    wrong("the input", NOT_A_STRING, lambda m, x: m.embedder.embed_file(x, "new.hdf5")),
    wrong(
        "output_file_path", NOT_A_STRING, lambda m, x: m.embedder.embed_file(m.text, x)
    ),
    wrong(
        "on_progress",
        [3, "print"],
        lambda m, x: m.embedder.embed_file(m.text, "new.hdf5", on_progress=x),
    ),
    wrong("word", NOT_A_STRING, lambda m, x: find_occurrence("a cat", x)),
    wrong("pairs", NO_PAIRS, lambda m, x: m.embedder.similarities(x)),
    wrong(
        "queries",
        [None, 3, [(1, 2)], ["a"], [1]],
        lambda m, x: find_word_neighbours(m.embedder, open_activations(m.vectors), x),
    ),
    wrong("word", NOT_A_STRING, lambda m, x: m.embedder.word_vector("a cat", x)),
    wrong(
        "sentence",
        NO_SENTENCE_OR_TEXT,
        lambda m, x: m.embedder.word_vector(x, "cat"),
    ),
    wrong(
        "sentence2",
        NO_SENTENCE_OR_TEXT,
        lambda m, x: m.embedder.similarity("cat", "a cat", x),
    ),
    wrong("embedder", NO_MAPPING, lambda m, x: average_word_vectors(x, [["a"]])),
    wrong("model", NO_MAPPING, lambda m, x: measure_perplexity(x, ["a"])),
    wrong("model", NO_MAPPING, lambda m, x: measure_surprisal(x, ["a"])),
    wrong("model", NO_MAPPING, lambda m, x: predict_words(x, ["a"])),
    wrong("name", [None, 3], lambda m, x: ElmoEmbedder.from_pretrained(x)),
    wrong("path", NOT_A_STRING, lambda m, x: open_activations(x)),
    wrong("path", NOT_A_STRING, lambda m, x: open_occurrences(x)),
    wrong("path", NOT_A_STRING, lambda m, x: read_occurrences(x, m.vectors)),
    wrong("sentence", [*NO_WORDS, None], lambda m, x: m.embedder.embed_sentence(x)),
    wrong("text", NO_SENTENCE_OR_TEXT, lambda m, x: sample_sentences(m.model, x)),
    wrong(
        "words", NO_WORDS, lambda m, x: average_word_vectors(m.embedder, [["the"]], x)
    ),
    wrong("vocab_to_cache", NO_WORDS, lambda m, x: Elmo(m.folder, vocab_to_cache=x)),
    wrong("batch", NO_SENTENCES, lambda m, x: m.embedder.embed_batch(x)),
    wrong("batch", NO_SENTENCES, lambda m, x: m.embedder.batch_to_embeddings(x)),
    wrong("sentences", NO_SENTENCES, lambda m, x: list(m.embedder.embed_sentences(x))),
    wrong(
        "keep_columns",
        ["id", None, 3],
        lambda m, x: m.embedder.embed_file(m.text, "new.jsonl", keep_columns=x),
    ),
    wrong("texts", NO_BATCH_OR_TEXT, lambda m, x: m.embedder.encode(x)),
    wrong("texts", NO_BATCH, lambda m, x: ElmoVectorizer(m.folder).transform(x)),
    wrong("batch", NO_SENTENCES, lambda m, x: batch_to_ids(x)),
    wrong("batch", NO_SENTENCES, lambda m, x: m.elmo.bilm.sentence_ids(x)),
    wrong("inputs", NO_BATCH, lambda m, x: m.hub(x)),
    wrong("inputs", [[["a"]], None], lambda m, x: m.elmo(x)),
    wrong("texts", NO_TEXTS_OR_TEXT, lambda m, x: m.model.score(x)),
    wrong("texts", NO_TEXTS, lambda m, x: list(m.model.iter_scores(x))),
    wrong("texts", NO_SENTENCES, lambda m, x: m.model.read(x, direction="forward")),
    wrong("texts", NO_TEXTS_OR_TEXT, lambda m, x: measure_perplexity(m.model, x)),
    wrong("texts", NO_TEXTS_OR_TEXT, lambda m, x: measure_surprisal(m.model, x)),
    wrong("texts", NO_TEXTS, lambda m, x: list(iter_surprisal(m.model, x))),
    wrong("texts", NO_TEXTS_OR_TEXT, lambda m, x: predict_words(m.model, x)),
    wrong("texts", NO_TEXTS_OR_TEXT, lambda m, x: find_substitutes(m.model, x)),
    wrong("texts", NO_TEXTS, lambda m, x: list(iter_substitutes(m.model, x))),
    wrong("texts", NO_TEXTS_OR_TEXT, lambda m, x: average_word_vectors(m.embedder, x)),
    wrong("files", NO_MAPPING[2:], lambda m, x: find_neighbours(x, np.zeros((1, 6)))),
    wrong("files", NO_MAPPING[2:], lambda m, x: plot_occurrences(x, "cat", "new.svg")),
    wrong(
        "words",
        [None, 3, {"a"}, TABLE],
        lambda m, x: write_occurrences(m.embedder, m.text, "new.jsonl", x),
    ),
    wrong("words", [3, {"a"}], lambda m, x: read_occurrences(m.vectors, m.vectors, x)),
    wrong("new", NO_MAPPING, lambda m, x: measure_change({}, x)),
    wrong(
        "permutations",
        NOT_WHOLE,
        lambda m, x: measure_change({}, {}, "apd", permutations=x),
    ),
    wrong(
        "clusters",
        NOT_WHOLE[1:],
        lambda m, x: plot_occurrences(m.vectors, "cat", "new.svg", clusters=x),
    ),
    wrong(
        "min_count",
        NOT_WHOLE,
        lambda m, x: average_word_vectors(m.embedder, ["a"], min_count=x),
    ),
    wrong(
        "at_most",
        NOT_WHOLE[1:],
        lambda m, x: average_word_vectors(m.embedder, ["a"], min_count=1, at_most=x),
    ),
    wrong(
        "occurrence",
        NOT_WHOLE[1:],
        lambda m, x: m.embedder.word_vector("a cat", "cat", occurrence=x),
    ),
    wrong("changes", NO_MAPPING, lambda m, x: plot_changes(x, "new.svg")),
    wrong(
        "temperature",
        NO_NUMBER,
        lambda m, x: sample_sentences(m.model, "the", temperature=x),
    ),
    wrong("dropout", [*NO_NUMBER, 1.5, -1], lambda m, x: Elmo(m.folder, dropout=x)),
    wrong("mixture_size", NOT_WHOLE, lambda m, x: ScalarMix(x)),
    wrong(
        "mix parameters",
        [1.5, [1], ["a", 0, 0], [None, 0, 0]],
        lambda m, x: Elmo(m.folder, scalar_mix_parameters=x),
    ),
    wrong("precision", [None, 16], lambda m, x: ElmoEmbedder(m.folder, precision=x)),
    wrong(
        "dtype", [None, 16], lambda m, x: m.embedder.embed_file(m.text, "new", dtype=x)
    ),
    wrong("tokenizer", [3, ["moses"]], lambda m, x: tokenize("a", x)),
    wrong("vectors", ["a", [["a"]]], lambda m, x: find_neighbours(m.vectors, x)),
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
        lambda m: measure_change("no.hdf5", "none.hdf5", permutations=-1),
        "permutations: expected 0 or more, found -1",
    ),
    (
        lambda m: plot_occurrences(m.vectors, "cat", "new.svg", clusters=1),
        "clusters: expected 2 or more, found 1",
    ),
    (
        lambda m: average_word_vectors(m.embedder, ["a"], min_count=0),
        "min_count: expected 1 or more, found 0",
    ),
    (
        lambda m: average_word_vectors(m.embedder, ["a"], min_count=1, at_most=0),
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
        lambda m: find_word_neighbours(m.embedder, m.vectors, "a cat"),  # type: ignore[arg-type]
        "queries: expected (sentence, word), found the string 'a cat'. Give the word "
        "too: ('a cat', WORD).",
    ),
    (
        lambda m: write_occurrences(m.embedder, m.text, "new.jsonl", "leaves"),
        "leaves: no such file. For words, give a list: ['leaves'].",
    ),
    (
        lambda m: m.embedder.word_vector(["We sat on the bank."], "bank"),
        "'bank' is not a token of 'We sat on the bank.'. The list has one token. Give "
        "the string itself, or split it.",
    ),
    (
        lambda m: m.embedder.word_vector("We saw New York.", "New York"),
        "'New York' is not a token of 'We saw New York .'. A word is one token here.",
    ),
    (
        lambda m: m.embedder.encode(["a"], prompt="x"),
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


def test_a_unit_shows_its_surprisal(models: SmallModels) -> None:
    [unit] = measure_surprisal(models.model, "cat", by="word")
    assert repr(unit) == f"UnitSurprisal('cat', surprisal={unit.surprisal:.2f})"
