import gzip
import json
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from elmo_cli import (
    ElmoEmbedder,
    InputError,
    SettingsError,
    TextSettings,
    average_word_vectors,
    write_token_vectors,
    write_word_vectors,
)
from elmo_cli.engine import Engine
from elmo_cli.options.selection import Selection
from tests.support import reference
from tests.support.commands import elmo
from tests.support.strategies import (
    WORDS,
    make_language_model,
    make_model,
    small_architecture,
)
from tests.support.table_files import write_table

pytestmark = pytest.mark.usefixtures("character_model")


@pytest.fixture
def character_model(folder: Path) -> None:
    """Write a character model and its softmax into `model` in the current folder."""
    Path("model").mkdir()
    make_language_model(small_architecture(), 3, Path("model"))


def words_file(*words: str) -> Path:
    Path("words.txt").write_text(
        "".join(f"{word}\n" for word in words), encoding="utf-8"
    )
    return Path("words.txt")


def read(path: str) -> NDArray[np.float32]:
    with h5py.File(path, "r") as file:
        values: NDArray[np.float32] = file["embedding"][:]
    assert values.dtype == np.float32
    return values


def words_of_hdf5(path: str) -> list[str]:
    with h5py.File(path, "r") as file:
        words: list[str] = file["words"].asstr()[:].tolist()
    return words


def test_vectors_match_the_reference() -> None:
    words = ["<S>", "</S>", "New York", "", "cat", "cat", "x" * 70]
    progress: list[int] = []
    n_words = write_token_vectors(
        ElmoEmbedder("model"),
        words_file(*words),
        "out.hdf5",
        on_progress=progress.append,
    )
    assert n_words == 7
    assert sum(progress) == 7
    options = json.loads(Path("model/options.json").read_text())
    arrays = reference.read_arrays("model/weights.hdf5")
    expected = [reference.token_vector(word, options, arrays) for word in words]
    assert_allclose(read("out.hdf5"), expected, atol=1e-5)
    assert words_of_hdf5("out.hdf5") == words
    assert sorted(os.listdir()) == ["model", "out.hdf5", "words.txt"]


def test_a_word_level_model_of_the_vectors_gives_equal_layers() -> None:
    write_token_vectors(ElmoEmbedder("model"), words_file(*WORDS), "out.hdf5")
    Path("words").mkdir()
    make_model({"lstm": small_architecture()["lstm"]}, 1, Path("words"))
    with (
        h5py.File("model/weights.hdf5") as source,
        h5py.File("words/weights.hdf5", "w") as file,
    ):
        file["embedding"] = read("out.hdf5")
        for direction in ("RNN_0", "RNN_1"):
            source.copy(direction, file)
    sentence = ["the", "cat", "sat"]
    one = ElmoEmbedder(model="words").embed_sentence(sentence)
    other = ElmoEmbedder(model="model").embed_sentence(sentence)
    assert_allclose(one, other, atol=1e-5)
    # The words of a word-level model are looked up.
    write_token_vectors(ElmoEmbedder("words"), ["cat", "dog"], "again.hdf5")
    cat, dog = read("again.hdf5")
    assert_array_equal(cat, read("out.hdf5")[4])
    assert_array_equal(dog, read("out.hdf5")[2])


def test_vectors_of_the_softmax() -> None:
    words = words_file("東京", "the", "cat", "sat", "dog", "naïve")
    write_token_vectors(ElmoEmbedder("model"), words, "out.hdf5", softmax=True)
    weight = reference.read_arrays("model/softmax.hdf5")["softmax/W"]
    rows = [7, 3, 4, 5, 2, 6]
    assert_array_equal(read("out.hdf5"), weight[rows])


def test_another_file_may_have_the_softmax() -> None:
    weight = reference.read_arrays("model/softmax.hdf5")["softmax/W"]
    Path("model/softmax.hdf5").rename("other.hdf5")
    command = "word-vectors --words model/vocab.txt w.tsv --softmax --model model"
    result = elmo(*command.split(), "--softmax-file", "other.hdf5")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == "Wrote w.tsv: 8 words\n"
    assert_allclose(np.loadtxt("w.tsv"), weight, rtol=1e-5)
    assert Path("w.metadata.tsv").read_bytes() == Path("model/vocab.txt").read_bytes()


def read_words(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Read a file as numpy, the projector or gensim does: words end at a space."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            assert set(arrays) <= {"words", "vectors", "counts"}
            return arrays["words"].tolist(), arrays["vectors"]
    if path.suffix == ".tsv":
        metadata = path.with_suffix(".metadata.tsv").read_text(encoding="utf-8")
        lines = metadata.removesuffix("\n").split("\n")
        if lines[0] == "word\tcount":
            del lines[0]
        words = [line.split("\t")[0] for line in lines]
        return words, np.loadtxt(path, np.float32, delimiter="\t")
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    header, rest = content.split(b"\n", 1)
    n_words, width = map(int, header.split())
    words = []
    rows = []
    for _ in range(n_words):
        word, rest = rest.split(b" ", 1)
        words.append(word.decode())
        if path.suffix == ".bin":
            rows.append(np.frombuffer(rest, np.float32, width))
            end = rest[4 * width : 4 * width + 1]
            rest = rest[4 * width + 1 :]
            assert end == b"\n"
        else:
            line, rest = rest.split(b"\n", 1)
            rows.append(np.array(line.split(b" "), np.float32))
    assert rest == b""
    vectors = np.stack(rows)
    assert vectors.shape == (n_words, width)
    return words, vectors


@pytest.mark.parametrize(
    "suffix", ["txt.gz", "vec", "w2v", "vec.gz", "bin", "tsv", "npz"]
)
@pytest.mark.filterwarnings("default")
def test_every_format_has_words_and_vectors(
    suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"out.{suffix}"
    tokens = ["東京", "New York", "a\tb", "c\nd", "\u00a0", "x\u3000y", "x"]
    write_table("corpus.jsonl", [{"tokens": tokens}])
    for output in ("out.hdf5", name):
        n_words = write_word_vectors(
            ElmoEmbedder(model="model"), "corpus.jsonl", output, min_count=1
        )
        assert n_words == len(tokens)
    words, values = read_words(Path(name))
    vectors = read("out.hdf5")
    assert words_of_hdf5("out.hdf5") == tokens
    assert_allclose(values, vectors, rtol=0 if suffix in ("bin", "npz") else 1e-5)
    if suffix == "npz":
        assert words == tokens
        assert caplog.messages == []
        return
    if suffix == "tsv":
        city = "New York"
        changed = "white space in 4 words becomes _, for example in 'a\\tb'"
    else:
        city = "New_York"
        changed = "white space in 5 words becomes _, for example in 'New York'"
    assert words == ["東京", city, "a_b", "c_d", "_", "x_y", "x"]
    warning = f"{name}: {changed}. npz and HDF5 keep it."
    assert caplog.messages == [warning]
    if suffix in ("vec", "vec.gz", "bin"):
        models = pytest.importorskip("gensim.models", exc_type=ImportError)
        keyed_vectors = models.KeyedVectors.load_word2vec_format(
            name, binary=suffix == "bin"
        )
        assert keyed_vectors.index_to_key == words
        assert_allclose(keyed_vectors.vectors, vectors, rtol=1e-5)


# Averages over the uses in a corpus

SENTENCES = [
    line.split() for line in ("the cat sat", "the dog", "", "the cat ran off", "a dog")
]


def means_by_hand(
    words: Sequence[str], layers: list[int], at_most: int = 99
) -> list[Any]:
    """Return the mean over the first occurrences of each word."""
    embedder = ElmoEmbedder(model="model")
    uses = defaultdict[str, list[Any]](list)
    for sentence in SENTENCES:
        values = embedder.embed_sentence(sentence)[layers].astype(float).mean(axis=0)
        for token, vector in zip(sentence, values, strict=True):
            uses[token].append(vector)
    return [np.mean(uses[word][:at_most], axis=0) for word in words]


@pytest.mark.parametrize(
    ("layers", "rows"),
    [
        (None, [1, 2]),
        ("0", [0]),
        ("top", [2]),
        ("0,2", [0, 2]),
    ],
)
@pytest.mark.parametrize(
    ("batch_tokens", "min_count", "at_most"),
    [
        (1, 1, 99),
        (100, 1, 99),
        (100, 2, 2),
    ],
)
def test_a_vector_is_the_mean_over_the_occurrences(
    layers: str | None,
    rows: list[int],
    batch_tokens: int,
    min_count: int,
    at_most: int,
) -> None:
    averages = average_word_vectors(
        ElmoEmbedder(model="model", batch_tokens=batch_tokens),
        iter(SENTENCES),
        layers=layers,
        min_count=min_count,
        at_most=at_most,
    )
    # The most frequent words are first, then they are in the order of the text.
    words = ["the", "cat", "dog"]
    counts = [3, 2, 2]
    if min_count == 1:
        words += ["sat", "ran", "off", "a"]
        counts += [1, 1, 1, 1]
    assert averages.words == words
    assert averages.counts == counts
    assert averages.vectors.dtype == np.float32
    expected = means_by_hand(words, rows, at_most)
    assert_allclose(averages.vectors, expected, atol=1e-6)


def test_at_most_cannot_be_less_than_min_count() -> None:
    embedder = ElmoEmbedder(model="model")
    with pytest.raises(InputError, match=r"^at_most: expected min_count \(2\)"):
        average_word_vectors(embedder, SENTENCES, min_count=2, at_most=1)


def test_sentences_without_the_words_are_not_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedder = ElmoEmbedder(model="model")
    embed = Engine.embed_window
    computed = list[list[str]]()

    def noted(engine: Engine, window: list[list[str]], selection: Selection) -> Any:
        computed.extend(window)
        return embed(engine, window, selection)

    monkeypatch.setattr(Engine, "embed_window", noted)
    averages = average_word_vectors(
        embedder, SENTENCES, ["dog", "cat", "fish"], min_count=1, at_most=1
    )
    assert averages.words == ["dog", "cat"]
    assert averages.counts == [2, 2]
    assert computed == SENTENCES[:2]


def test_a_corpus_is_tokenized_in_the_language_of_the_model() -> None:
    Path("corpus.txt").write_text("L'eau est froide.\n")
    files = ElmoEmbedder(model="model").files
    for language, words in (("fr", ["L'", "eau"]), ("en", ["L", "'eau"])):
        embedder = ElmoEmbedder(model=replace(files, language=language))
        write_word_vectors(
            embedder,
            "corpus.txt",
            f"{language}.npz",
            min_count=1,
            text_settings=TextSettings(tokenizer="moses"),
        )
        assert read_words(Path(f"{language}.npz"))[0] == [*words, "est", "froide", "."]
    command = "word-vectors corpus.txt out.npz --min-count 1 --model model"
    result = elmo(*command.split(), "--tokenizer", "moses", "--language", "fr")
    assert result.exit_code == 0
    assert read_words(Path("out.npz"))[0] == ["L'", "eau", "est", "froide", "."]


def test_a_corpus_is_tokenized_as_the_training_text_was() -> None:
    options = json.loads(Path("model/options.json").read_text())
    trained = {**options, "training": {"tokenizer": "moses:en"}}
    Path("model/options.json").write_text(json.dumps(trained))
    Path("corpus.txt").write_text("The cat, it sat.\n")
    embedder = ElmoEmbedder("model")
    write_word_vectors(embedder, "corpus.txt", "out.npz", min_count=1)
    words = ["The", "cat", ",", "it", "sat", "."]
    assert read_words(Path("out.npz"))[0] == words
    averages = average_word_vectors(embedder, ["The cat, it sat."], min_count=1)
    assert averages.words == words


def test_words_are_a_list_or_a_file() -> None:
    Path("corpus.txt").write_text("\n".join(map(" ".join, SENTENCES)))
    embedder = ElmoEmbedder("model")
    words = ["dog", "cat"]
    for name, given in (("list.npz", words), ("file.npz", words_file(*words))):
        n_words = write_word_vectors(
            embedder, "corpus.txt", name, given, min_count=2, layers=1
        )
        assert n_words == 2
        found, vectors = read_words(Path(name))
        assert found == words
        assert_allclose(vectors, means_by_hand(words, [1]), atol=1e-6)


def test_the_default_minimum_count_is_that_of_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sentences = ["the cat sat"] * 5 + ["the dog"] * 4
    Path("corpus.txt").write_text("\n".join(sentences))
    monkeypatch.setenv("ELMO_MODEL", "model")
    embedder = ElmoEmbedder()
    assert write_word_vectors(embedder, "corpus.txt", "python.npz") == 3
    result = elmo("word-vectors", "corpus.txt", "command.npz")
    assert result.exit_code == 0
    frequent = ["the", "cat", "sat"]
    for name in ("python.npz", "command.npz"):
        assert read_words(Path(name))[0] == frequent
    texts = [sentence.split() for sentence in sentences]
    assert average_word_vectors(embedder, texts).words == frequent


@pytest.mark.parametrize("option", ["shard", "keep_columns"])
def test_settings_without_an_effect_are_an_error(option: str) -> None:
    Path("corpus.csv").write_text("text,a\nthe cat,1\n")
    values: dict[str, Any] = {"shard": "1/2", "keep_columns": ["a"]}
    settings = TextSettings(**{option: values[option]})
    problem = f"^{option} has no effect on mean vectors of words$"
    with pytest.raises(SettingsError, match=problem):
        write_word_vectors(
            ElmoEmbedder("model"),
            "corpus.csv",
            "out.vec",
            min_count=1,
            text_settings=settings,
        )


def test_words_that_are_too_rare_are_an_error() -> None:
    embedder = ElmoEmbedder("model")
    rare = "no word occurs 5 times or more; the most frequent occurs"
    problem = f"{rare} 3 times. Use min_count=3."
    with pytest.raises(InputError, match=f"^texts: {re.escape(problem)}$"):
        average_word_vectors(embedder, SENTENCES)
    Path("corpus.txt").write_text("the cat\n")
    problem = f"{rare} once. Use min_count=1."
    with pytest.raises(InputError, match=f"^corpus.txt: {re.escape(problem)}$"):
        write_word_vectors(embedder, "corpus.txt", "out.vec")


def test_listed_words_without_a_vector_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder = ElmoEmbedder("model")
    texts = ["the cat", "the dog", "the cat"]
    words = ["dog", "the", "zebra"]
    average_word_vectors(embedder, texts, words, min_count=3)
    average_word_vectors(embedder, texts, words, min_count=1)
    average_word_vectors(embedder, texts, ["the", "cat"], min_count=2)
    assert caplog.messages == [
        "texts: 2 of 3 words of the list occur fewer than 3 times and get no vector, "
        "such as 'dog' (1 time). For all words that occur, use min_count=1.",
        "texts: 1 of 3 words of the list does not occur and gets no vector: 'zebra'",
    ]


def test_vectors_without_a_context_have_the_changed_weights() -> None:
    embedder = ElmoEmbedder("model")
    write_token_vectors(embedder, ["cat"], "old.hdf5")
    for parameter in embedder.elmo_bilm.token_encoder.parameters():
        parameter.data = parameter.data / 2
    write_token_vectors(embedder, ["cat"], "new.hdf5")
    layers = embedder.embed_sentence(["cat"])
    [expected] = embedder.embed_sentences([["cat"]], layers="word_emb")
    assert layers.shape == (3, 1, 2 * expected.shape[-1])
    assert_allclose(read("new.hdf5"), expected, atol=1e-6)
    assert abs(read("new.hdf5") - read("old.hdf5")).max() > 1e-3


def test_the_command_averages_over_a_corpus() -> None:
    Path("corpus.txt").write_text("\n".join(map(" ".join, SENTENCES)))
    command = "word-vectors corpus.txt out.tsv --min-count 2 --model model"
    result = elmo(*command.split())
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == "Wrote out.tsv: 3 words\n"
    metadata = Path("out.metadata.tsv").read_text()
    assert metadata == "word\tcount\nthe\t3\ncat\t2\ndog\t2\n"
    vectors = np.loadtxt("out.tsv", delimiter="\t")
    expected = means_by_hand(["the", "cat", "dog"], [1, 2])
    assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)


def test_the_command_averages_over_the_uses_of_some_words() -> None:
    Path("corpus.txt").write_text("\n".join(map(" ".join, SENTENCES)))
    words_file("dog", "fish")
    command = "word-vectors corpus.txt out.hdf5 --words words.txt --min-count 2"
    elmo(*command.split(), "--layers", "2", "--model", "model")
    assert_allclose(read("out.hdf5"), means_by_hand(["dog"], [2]), atol=1e-6)
    assert words_of_hdf5("out.hdf5") == ["dog"]
    with h5py.File("out.hdf5") as file:
        assert file["counts"][:].tolist() == [2]


def test_a_zero_byte_in_a_word_of_hdf5_becomes_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    write_token_vectors(ElmoEmbedder("model"), ["a\0b", "cat"], "out.hdf5")
    assert words_of_hdf5("out.hdf5") == ["a_b", "cat"]
    warning = "zero bytes in 1 word become _, for example in 'a\\x00b'"
    assert caplog.messages == [f"out.hdf5: {warning}. npz keeps them."]


def test_the_command_averages_over_json_lines() -> None:
    write_table("corpus.jsonl", [{"tokens": ["cat"]}])
    command = "word-vectors corpus.jsonl out.npz --min-count 1 --model model"
    elmo(*command.split())
    with np.load("out.npz") as arrays:
        assert arrays["words"].tolist() == ["cat"]
        assert arrays["counts"].tolist() == [1]


def test_the_command_averages_over_a_table_of_words() -> None:
    Path("rows.csv").write_text("story,word\n1,the\n1,cat.\n")
    command = "word-vectors rows.csv out.npz --word-column word"
    options = "--id-column story --min-count 1 --model model"
    elmo(*command.split(), *options.split())
    words, _ = read_words(Path("out.npz"))
    assert words == ["the", "cat", "."]
