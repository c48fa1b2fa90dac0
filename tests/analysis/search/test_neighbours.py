"""Cosines, words in sentences, and exact search, compared with all cosines in numpy."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import (
    ElmoEmbedder,
    ElmoError,
    find_neighbours,
    open_activations,
    write_occurrences,
)
from elmo_cli.analysis.search import neighbours as module
from elmo_cli.analysis.search.vector_files import opened_files
from elmo_cli.analysis.search.word_neighbours import find_word_neighbours
from elmo_cli.arrays import AnyArray
from elmo_cli.embedder import embedder_on
from elmo_cli.engine import load_engine
from elmo_cli.errors.exceptions import InputError, SettingsError
from elmo_cli.inference.similarity import cosine_similarity
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.output import LAYOUTS
from elmo_cli.options.selection import Pooling
from elmo_cli.records.record import Record
from elmo_cli.text.occurrences import Occurrence, find_occurrence
from tests.support.commands import TINY, elmo
from tests.support.layouts import Corpus, layouts, line_record, write


def corpus(lengths: list[int], seed: int = 0, layers: str = "top") -> Corpus:
    """Return lines of random vectors. Token i of line n is `wn.i`."""
    random = np.random.default_rng(seed)
    layer_axis = {"all": [3], "0,2": [2], "top": []}[layers]
    records = []
    values = []
    for line, length in enumerate(lengths):
        tokens = [f"w{line}.{i}" for i in range(length)]
        records.append(line_record(" ".join(tokens)))
        vectors = random.normal(size=[*layer_axis, length, 4])
        values.append(vectors.astype(np.float32))
    return Corpus(records, values, {"layers": layers})


def embed(
    path: Path, text: str, layers: str, embedder: ElmoEmbedder, **options: Any
) -> None:
    """Embed lines, or JSON lines."""
    source = path.with_name("text.jsonl" if text.startswith("{") else "text.txt")
    source.write_text(text)
    embedder.embed_file(source, path, layers, **options)


def cosines(query: AnyArray, vectors: AnyArray) -> Any:
    """Return the cosine of a query, (4,), with each vector, (T, 4)."""
    a = query.astype(np.float64)
    b = vectors.astype(np.float64)
    return b @ a / np.linalg.norm(a) / np.linalg.norm(b, axis=1)


@given(
    lengths=st.lists(st.integers(0, 5), max_size=12),
    layout=st.sampled_from(LAYOUTS),
    n_queries=st.integers(1, 3),
    top=st.integers(1, 9),
    block=st.integers(1, 9),
    seed=st.integers(1, 9),
)
def test_the_nearest_tokens_have_the_largest_cosines(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    layout: str,
    n_queries: int,
    top: int,
    block: int,
    seed: int,
) -> None:
    path = tmp_path_factory.mktemp("search") / "v.hdf5"
    there = corpus(lengths, seed=seed)
    write(there, path, layout)
    queries = np.random.default_rng(99).normal(size=(n_queries, 4))
    with pytest.MonkeyPatch.context() as patch, open_activations(path) as activations:
        patch.setattr(module, "BLOCK_TOKENS", block)
        result = find_neighbours(activations, queries, top, layers="top")

    tokens = []
    for record in there.records:
        tokens += record.tokens
    vectors = np.concatenate([np.empty((0, 4)), *there.values])
    for query, nearest in zip(queries, result.nearest, strict=True):
        expected = cosines(query, vectors)
        order = np.argsort(-expected)[:top]
        assert [hit.token for hit in nearest] == [tokens[i] for i in order]
        found = [hit.cosine for hit in nearest]
        np.testing.assert_allclose(found, expected[order], atol=1e-6)
        for hit in nearest:
            assert hit.token == f"w{hit.record_index}.{hit.index}"


@given(
    lengths=st.lists(st.integers(0, 5), max_size=12),
    layout=st.sampled_from(LAYOUTS),
    block=st.integers(1, 9),
    seed=st.integers(1, 9),
)
def test_the_mean_cosine_is_of_all_pairs(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    layout: str,
    block: int,
    seed: int,
) -> None:
    path = tmp_path_factory.mktemp("search") / "v.hdf5"
    there = corpus(lengths, seed=seed)
    write(there, path, layout)
    with pytest.MonkeyPatch.context() as patch, open_activations(path) as activations:
        patch.setattr(module, "BLOCK_TOKENS", block)
        found = find_neighbours(activations, np.ones((1, 4)), layers="top")
        mean_cosine = found.mean_cosine
    vectors = np.concatenate([np.empty((0, 4)), *there.values])
    if len(vectors) > 1:
        pairs = np.array([cosines(vector, vectors) for vector in vectors])
        is_other = ~np.eye(len(vectors), dtype=bool)
        assert mean_cosine == pytest.approx(pairs[is_other].mean(), abs=1e-6)
    else:
        assert mean_cosine is None


@layouts
@pytest.mark.parametrize(
    ("stored", "layers", "rows"),
    [
        ("all", None, [1, 2]),
        ("all", "0", [0]),
        ("all", "2,0", [0, 2]),
        ("0,2", "2", [1]),
    ],
)
def test_the_mean_of_the_lstm_layers_is_compared_by_default(
    tmp_path: Path, layout: str, stored: str, layers: str | None, rows: list[int]
) -> None:
    there = corpus([3, 2], layers=stored)
    write(there, tmp_path / "v.hdf5", layout)
    query = np.ones((1, 4))
    with open_activations(tmp_path / "v.hdf5") as activations:
        (nearest,) = find_neighbours(activations, query, 5, layers=layers).nearest
    vectors = np.concatenate([values[rows].mean(axis=0) for values in there.values])
    expected = sorted(cosines(query[0], vectors), reverse=True)
    np.testing.assert_allclose([hit.cosine for hit in nearest], expected, atol=1e-6)


def test_equal_vectors_keep_the_order_of_the_file(tmp_path: Path) -> None:
    there = corpus([2, 2, 2])
    vectors = there.values[0]
    write(there._replace(values=[vectors] * 3), tmp_path / "v.hdf5", "packed")
    with open_activations(tmp_path / "v.hdf5") as activations:
        (nearest,) = find_neighbours(activations, vectors[:1], 2, layers="top").nearest
    assert [(hit.record_index, hit.index) for hit in nearest] == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    "layers", ["all", "0,2", "top", "average", "lstm1", "word_emb"]
)
@pytest.mark.parametrize("state", ["zero", "warm"])
def test_a_query_is_embedded_as_its_file_was(
    tmp_path: Path, layers: str, state: Any
) -> None:
    path = tmp_path / "v.hdf5"
    text = "the cat sat\na dog ran off\n\nthe cat sat\n"
    embed(path, text, layers, ElmoEmbedder(model=TINY, state=state), layout="packed")
    with open_activations(path) as activations:
        settings = ModelSettings.from_attributes(activations.attributes)
        query = [
            Occurrence(["the", "cat", "sat", "."], 1),
            Occurrence(["the", "cat", "sat"], 1),
        ]
        with_itself = embedder_on(load_engine(settings))
        nearest = find_word_neighbours(with_itself, activations, query, 20).nearest
    assert settings == ModelSettings(str(TINY), state=state)
    # A word before the end: only the backward half differs. A sentence never finds
    # itself.
    assert [hit.token for hit in nearest[0]].count("cat") == 2
    assert [hit.record_index for hit in nearest[1]] == [1] * 4


def test_one_vector_is_one_query(tmp_path: Path, tiny: ElmoEmbedder) -> None:
    path = tmp_path / "v.hdf5"
    embed(path, "The cat sat .\nA dog ran .\n", "top", tiny, layout="packed")
    vector = tiny.word_vector(["A", "dog", "ran", "."], "dog", layers="top")
    nearest = find_neighbours(path, vector, 1, layers="top").nearest
    assert [hit.marked for hit in nearest] == ["A [dog] ran ."]
    assert nearest[0].cosine == pytest.approx(1, abs=1e-6)


def test_a_query_is_a_sentence_with_its_word(tmp_path: Path) -> None:
    path = tmp_path / "v.hdf5"
    embedder = ElmoEmbedder(model=TINY)
    Path(tmp_path / "text.txt").write_text("The cat sat, too.\nA dog ran.\n")
    embedder.embed_file(tmp_path / "text.txt", path, "top", tokenizer="moses")
    occurrence = find_occurrence(["A", "cat", "ran", "."], "cat")
    expected = find_word_neighbours(embedder, path, occurrence)
    assert {type(hit) for hit in expected.nearest} == {module.Neighbour}
    one = ("A cat ran.", "cat")
    assert find_word_neighbours(embedder, path, one) == expected
    tokens = (["A", "cat", "ran", "."], "cat")
    assert find_word_neighbours(embedder, path, tokens) == expected
    in_list = find_word_neighbours(embedder, path, [one])
    assert in_list.nearest == [expected.nearest]
    assert in_list.mean_cosine == expected.mean_cosine
    two = find_word_neighbours(embedder, path, [one, occurrence])
    for nearest in two.nearest:
        found = [hit.marked for hit in nearest]
        assert found == [hit.marked for hit in expected.nearest]
    assert find_word_neighbours(embedder, path, []).nearest == []
    with pytest.raises(ElmoError, match=r"^'dog' is not a token of 'A cat ran \.'"):
        find_word_neighbours(embedder, path, ("A cat ran.", "dog"))


def test_the_word_and_its_sentence_can_be_excluded(
    tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    path = tmp_path / "v.hdf5"
    embed(path, "The cat sat\nthe cat ran\nA Cat sat\n", "top", tiny, layout="packed")
    query = [Occurrence(["the", "cat", "ran"], 1)]
    with open_activations(path) as activations:
        all_uses = find_word_neighbours(tiny, activations, query)
        others = find_word_neighbours(tiny, activations, query, other_words=True)
    (nearest,) = all_uses.nearest
    assert {hit.token for hit in nearest} == {"The", "cat", "sat", "A", "Cat"}
    assert {hit.record_index for hit in nearest} == {0, 2}
    (nearest,) = others.nearest
    assert {hit.token for hit in nearest} == {"The", "sat", "A"}


def test_sentences_are_found_where_tokens_are_pooled(
    tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    path = tmp_path / "v.hdf5"
    text = "the cat sat\n\na dog ran off\nthe dog sat\n"
    embed(path, text, "all", tiny, pooling="mean")
    query = Occurrence(["the", "cat", "ran"], 0)
    with open_activations(path) as activations, opened_files(path) as files:
        files.check_pooling(pooled=True)
        (nearest,) = find_word_neighbours(tiny, path, [query]).nearest
        assert find_word_neighbours(tiny, activations, [query]).nearest == [nearest]
        pooled = np.stack([values[1:].mean(axis=0) for values in activations])
        problem = r"v\.hdf5: the file has one vector per sentence"
        with pytest.raises(ElmoError, match=problem):
            files.check_pooling(pooled=False)
        problem = "^other_words=True: requires one vector per token, but "
        with pytest.raises(SettingsError, match=problem):
            find_word_neighbours(tiny, files, [query], other_words=True)
    (vector,) = tiny.embed_sentences([query.sentence], layers="1,2", pooling="mean")
    records = [0, 2, 3]  # without the blank line
    expected = cosines(vector.mean(axis=0), pooled[records])
    by_record = {hit.record_index: hit.cosine for hit in nearest}
    assert sorted(by_record) == records
    found = [by_record[record] for record in records]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@layouts
def test_records_with_keys_are_searched_by_their_tokens(
    tmp_path: Path, layout: str, tiny: ElmoEmbedder
) -> None:
    path = tmp_path / "v.hdf5"
    text = '{"tokens": ["the", "cat"], "id": "b"}\n{"text": "a cat", "id": "a"}\n'
    embed(path, text, "all", tiny, layout=layout)
    with open_activations(path) as activations:
        query = [Occurrence(["my", "cat"], 1)]
        (nearest,) = find_word_neighbours(tiny, activations, query).nearest
        tokens_of_records = {(hit.location.name, hit.token) for hit in nearest}
    assert tokens_of_records == {("b", "the"), ("b", "cat"), ("a", "a"), ("a", "cat")}


SPLIT = "The cat sat. It ran.\n\nA dog ran. He saw it. It sat.\n"


@pytest.mark.parametrize("name", ["v.hdf5", "packed.hdf5", "parts", "words.parquet"])
def test_the_line_of_a_split_sentence_is_that_of_the_text(
    name: str, tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("sentencex")
    source = tmp_path / "text.txt"
    source.write_text(SPLIT)
    (tmp_path / "words.txt").write_text("The\nIt\nA\nHe\n")
    path = tmp_path / name
    options = {
        "v.hdf5": ("embed", source, path),
        "packed.hdf5": ("embed", source, path, "--layout", "packed"),
        "parts": ("distribute", source, path, "--engine", "none"),
        "words.parquet": (
            *("occurrences", source, path),
            *("--words", tmp_path / "words.txt"),
        ),
    }
    split = ("--split-sentences", "--tokenizer", "moses")
    result = elmo(*options[name], *split, "--model", TINY, "--layers", "top")
    assert result.exit_code == 0, result.output
    query = np.ones(tiny.width)
    found = {}
    for hit in find_neighbours(str(path), query, 99, layers="top").nearest:
        place = (hit.location.number, hit.location.name, hit.record_index)
        found[" ".join(hit.sentence)] = place
    assert found == {
        "The cat sat .": (1, "1", 0),
        "It ran .": (1, "1", 1),
        "A dog ran .": (3, "3", 2),
        "He saw it .": (3, "3", 3),
        "It sat .": (3, "3", 4),
    }


def test_a_table_of_target_words_is_recognized_by_its_content(
    tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "text.txt").write_text("The cat sat\nA cat ran\n")
    (tmp_path / "words.txt").write_text("cat\n")
    words = ["--words", str(tmp_path / "words.txt"), "--model", str(TINY)]
    query = np.ones(tiny.width)
    for name in ("cats.parquet", "cats.pq", "cats.table"):
        path = tmp_path / name
        result = elmo(
            "occurrences", tmp_path / "text.txt", path, *words, "--format", "parquet"
        )
        assert result.exit_code == 0, result.output
        nearest = find_neighbours(str(path), query, 9, layers="top").nearest
        assert {hit.location.number for hit in nearest} == {1, 2}


def test_outputs_of_all_commands_are_searched_together(
    tmp_path: Path, tiny: ElmoEmbedder
) -> None:
    pytest.importorskip("pyarrow")
    texts = {
        "a.txt": "A cat sat\n",
        "b.csv": "id,text\nx,The cat ran\n",
        "c.txt": "My cat ate\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in ("a.hdf5", "b.hdf5", "parts", "w.parquet")]
    tiny.embed_file(tmp_path / "a.txt", paths[0], "top")
    tiny.embed_file(tmp_path / "b.csv", paths[1], "top")
    options = ["--engine", "none", "--model", str(TINY), "--layers", "top"]
    result = elmo("distribute", tmp_path / "c.txt", paths[2], *options)
    assert result.exit_code == 0, result.output
    write_occurrences(tiny, tmp_path / "a.txt", paths[3], ["cat"])
    query = tiny.word_vector(["My", "cat", "ate"], "cat", layers="top")
    nearest = find_neighbours(paths, query, 99, layers="top").nearest
    cats = [hit.location for hit in nearest if hit.token == "cat"]
    assert {(location.path, location.name) for location in cats} == {
        (paths[0], "1"),
        (paths[1], "x"),
        (paths[2], "1"),
        (paths[3], "1"),
    }
    assert cats[0].path == paths[2]


@pytest.mark.parametrize(
    ("changes", "layers", "message"),
    [
        ({}, "1", " has only the top layer."),
        ({"attributes": {"layers": "0,2"}}, "1", " has only layers 0 and 2."),
        ({"attributes": {}}, None, ": the file does not record which layer it has"),
        (
            {"records": [Record("a b c", [*"abc"])]},
            "top",
            ", record 1: the sentence has 3 tokens",
        ),
        ({}, "top", ": the file does not contain the tokens"),
    ],
)
def test_a_file_that_cannot_answer_a_query_is_refused(
    changes: dict[str, Any], layers: str | None, message: str, tmp_path: Path
) -> None:
    there = corpus([2])._replace(**changes)
    path = tmp_path / "v.hdf5"
    write(there, path, "packed", forget_sentences=message.endswith("the tokens"))
    with open_activations(path) as activations, pytest.raises(ElmoError) as error:
        find_neighbours(activations, np.ones((1, 4)), layers=layers)
    assert f"{path}{message}" in str(error.value)


@pytest.mark.parametrize(
    ("layers", "pooling", "message"),
    [
        (
            "top",
            None,
            "layers: required, because v.hdf5 has only the top layer. Name the layers "
            "of your vectors, such as layers='top'.",
        ),
        (
            "1,2",
            None,
            "layers: required, because v.hdf5 has only layers 1,2. Name the layers of "
            "your vectors, such as layers='1,2'.",
        ),
        (
            "all",
            "mean",
            "layers: required, because v.hdf5 has one vector per sentence. Name the "
            "layers of your vectors, such as layers='average'.",
        ),
    ],
)
def test_vectors_of_unknown_layers_are_not_compared(
    layers: str, pooling: Pooling | None, message: str, folder: Path, tiny: ElmoEmbedder
) -> None:
    path = folder / "v.hdf5"
    embed(path, "a cat ran\n", layers, tiny, layout="packed", pooling=pooling)
    query = tiny.encode("a cat", layers="top")
    with pytest.raises(SettingsError, match=f"^{re.escape(message)}$"):
        find_neighbours("v.hdf5", query)
    assert len(find_word_neighbours(tiny, "v.hdf5", ("a cat", "cat")).nearest) > 0


def test_the_vector_of_a_word_finds_what_the_word_finds(
    folder: Path, tiny: ElmoEmbedder
) -> None:
    embed(folder / "v.hdf5", "The cat sat .\nA dog ran .\n", "all", tiny)
    query = ("A cat ran .", "cat")
    for layers in (None, "1,2", "0", -1):
        expected = find_word_neighbours(tiny, "v.hdf5", query, layers=layers)
        vector = tiny.word_vector(*query, layers=layers)
        found = find_neighbours("v.hdf5", vector, layers=layers)
        assert [hit.marked for hit in found.nearest] == [
            hit.marked for hit in expected.nearest
        ]
        assert found.nearest[0].cosine == pytest.approx(
            expected.nearest[0].cosine, abs=1e-6
        )


def test_a_query_of_another_shape_is_refused(tmp_path: Path) -> None:
    write(corpus([2]), tmp_path / "v.hdf5")
    with open_activations(tmp_path / "v.hdf5") as activations:
        problem = "vectors: expected the shape (W,) or (Q, W), found the shape (1, 1"
        with pytest.raises(ElmoError, match=re.escape(problem)):
            find_neighbours(activations, np.ones((1, 1, 4)), layers="top")
        with pytest.raises(ElmoError, match=r"^top: expected 1 or more"):
            find_neighbours(activations, np.ones((1, 4)), 0, layers="top")
        problem = "v.hdf5: expected vectors of width 3, as the query has, found 4"
        with pytest.raises(ElmoError, match=re.escape(problem)):
            find_neighbours(activations, np.ones((1, 3)), layers="top")


def test_the_cosine_of_planted_vectors() -> None:
    one = np.array([3, 4], np.float32)
    other = np.array([4, 3], np.float32)
    assert cosine_similarity(one, other) == pytest.approx(24 / 25)
    assert cosine_similarity(one, 10 * one) == pytest.approx(1)
    assert cosine_similarity(one, -one) == pytest.approx(-1)
    assert cosine_similarity(one, np.array([-4, 3], np.float32)) == 0
    assert cosine_similarity(one, np.zeros(2, np.float32)) == 0


def test_a_word_is_found_in_a_sentence() -> None:
    assert find_occurrence("We sat by the river bank.", "bank").index == 5
    twice = ["bank", "after", "bank"]
    assert find_occurrence(twice, "bank", 1).index == 0
    assert find_occurrence(twice, "bank", 2).index == 2


@pytest.mark.parametrize(
    ("sentence", "word", "number", "message"),
    [
        (
            ["bank", "after", "bank"],
            "bank",
            None,
            "'bank' occurs 2 times in 'bank after bank'. Add occurrence=1 or "
            "occurrence=2.",
        ),
        (
            ["bank", "after", "bank"],
            "bank",
            3,
            "'bank' occurs 2 times in 'bank after bank', not 3 times. "
            "Use occurrence=1 or occurrence=2.",
        ),
        (
            ["We", "sat"],
            "We",
            2,
            "'We' occurs once in 'We sat', not 2 times. Use occurrence=1.",
        ),
        (
            "the banks",
            "bank",
            2,
            "'bank' is not a token of 'the banks'. Did you mean 'banks'?",
        ),
        ([], "bank", None, "'bank' is not a token of an empty sentence"),
    ],
)
def test_a_word_that_is_not_found_is_an_error_with_the_tokens(
    sentence: str | list[str], word: str, number: int | None, message: str
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        find_occurrence(sentence, word, number)
