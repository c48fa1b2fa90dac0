import gzip
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import reference
from commands import assert_fails, assert_misused, elmo
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from strategies import WORDS, make_language_model, make_model, small_architecture

from elmo_cli import ElmoEmbedder, write_token_vectors
from elmo_cli.analysis import word_vectors
from elmo_cli.errors import InputError, OutputError

MODEL = ("--model", "model")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a character model and its softmax in `model`."""
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    make_language_model(small_architecture(), 3, Path("model"))
    return tmp_path


def words_file(*words: str) -> Path:
    Path("words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return Path("words.txt")


def read(path: str) -> NDArray[np.float32]:
    with h5py.File(path, "r") as file:
        assert list(file) == ["embedding"]
        assert file["embedding"].dtype == np.float32
        values: NDArray[np.float32] = file["embedding"][:]
    return values


def test_vectors_are_those_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "CHUNK_WORDS", 2)
    words = ["<S>", "</S>", "New York", "", "cat", "cat", "x" * 70]
    seen: list[int] = []
    n_words = write_token_vectors(
        words_file(*words), "out.hdf5", model="model", on_progress=seen.append
    )
    assert (n_words, seen) == (7, [2, 2, 2, 1])
    options = json.loads(Path("model/options.json").read_text())
    arrays = reference.read_arrays("model/weights.hdf5")
    expected = [reference.token_vector(word, options, arrays) for word in words]
    assert_allclose(read("out.hdf5"), expected, atol=1e-5)
    assert sorted(path.name for path in Path().iterdir()) == ["model", "out.hdf5", "words.txt"]


def test_they_are_the_token_layer() -> None:
    write_token_vectors(words_file("the", "cat"), "out.h5", model="model")
    layers = ElmoEmbedder(model="model").embed_sentence(["the", "cat"])
    assert_allclose(read("out.h5"), layers[0, :, :3], atol=1e-6)


def test_a_word_level_model_made_of_them_gives_the_same_layers(folder: Path) -> None:
    write_token_vectors(words_file(*WORDS), "out.hdf5", model="model")
    (folder / "words").mkdir()
    options = small_architecture()
    del options["char_cnn"]
    make_model(options, 1, folder / "words")
    with (
        h5py.File("model/weights.hdf5", "r") as characters,
        h5py.File("words/weights.hdf5", "w") as file,
    ):
        file["embedding"] = read("out.hdf5")
        for direction in ("RNN_0", "RNN_1"):
            characters.copy(direction, file)
    sentence = ["the", "cat", "sat"]
    assert_allclose(
        ElmoEmbedder(model="words").embed_sentence(sentence),
        ElmoEmbedder(model="model").embed_sentence(sentence),
        atol=1e-5,
    )
    # The words of a word-level model are looked up.
    write_token_vectors(words_file("cat", "dog"), "again.hdf5", model="words")
    assert_array_equal(read("again.hdf5"), read("out.hdf5")[[4, 2]])


@pytest.mark.parametrize("name", ["out.txt", "out.vec", "out.w2v", "out.vec.gz"])
def test_text_is_that_of_word2vec(name: str) -> None:
    words = words_file("the", "naïve", "東京")
    write_token_vectors(words, "out.hdf5", model="model")
    write_token_vectors(words, name, model="model")
    raw = Path(name).read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    header, *lines = text.split("\n")[:-1]
    assert header == "3 3"
    rows = [line.split(" ") for line in lines]
    assert [row[0] for row in rows] == ["the", "naïve", "東京"]
    values = np.array([[float(value) for value in row[1:]] for row in rows])
    assert_allclose(values, read("out.hdf5"), rtol=1e-5)


def test_vectors_of_the_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "CHUNK_WORDS", 4)
    words = words_file("東京", "the", "cat", "sat", "dog", "naïve")
    write_token_vectors(words, "out.hdf5", softmax=True, model="model")
    weight = reference.read_arrays("model/softmax.hdf5")["softmax/W"]
    assert_array_equal(read("out.hdf5"), weight[[7, 3, 4, 5, 2, 6]])


def test_the_command(folder: Path) -> None:
    result = elmo("word-vectors", words_file("the", "cat"), "out.hdf5", *MODEL)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Model: model\nout.hdf5: 2 words\n"
    whole = elmo("word-vectors", "model/vocab.txt", "w.hdf5", "--softmax", *MODEL, "-q")
    assert (whole.exit_code, whole.stderr) == (0, "")
    weight = reference.read_arrays("model/softmax.hdf5")["softmax/W"]
    assert_array_equal(read("w.hdf5"), weight)
    (folder / "model" / "softmax.hdf5").rename("other.hdf5")
    other = ("--softmax-file", "other.hdf5", "--overwrite", "-q")
    assert (
        elmo("word-vectors", "model/vocab.txt", "w.hdf5", "--softmax", *MODEL, *other).exit_code
        == 0
    )
    without = elmo("word-vectors", "model/vocab.txt", "x.hdf5", "--softmax", *MODEL)
    assert "Error: model: no softmax, which" in without.stderr
    assert not Path("x.hdf5").exists()


def test_what_goes_wrong(folder: Path) -> None:
    words = words_file("the", "New York")
    suffix = elmo("word-vectors", words, "out.npy", *MODEL)
    assert_fails(
        suffix,
        "out.npy: expected a name that ends in .hdf5, .h5 for HDF5, or in .txt, .vec, .w2v for "
        "word2vec's text (.gz may follow)",
    )
    assert_fails(
        elmo("word-vectors", words, words, *MODEL), "words.txt is the input; choose another output"
    )
    Path("out.vec").touch()
    there = elmo("word-vectors", words, "out.vec", *MODEL)
    assert_fails(there, "out.vec exists already; --overwrite replaces it")
    with pytest.raises(InputError, match=r"words.txt, line 2: .* white space, found 'New York'"):
        write_token_vectors(words, "out.vec", model="model", overwrite=True)
    assert Path("out.vec").read_bytes() == b""
    Path("words.txt").write_bytes(b"")
    with pytest.raises(InputError, match=r"words.txt: expected a word a line, found nothing"):
        write_token_vectors(words, "out.hdf5", model="model")
    missing = elmo("word-vectors", "no.txt", "out.hdf5", *MODEL, "-q")
    assert_fails(missing, "no.txt: cannot read the vocabulary: No such file or directory")
    stream = elmo("word-vectors", "-", "out.hdf5", *MODEL)
    assert_misused(stream, "VOCABULARY: expected a file, found -; standard input is not read")
    with pytest.raises(OutputError, match=r"cannot be written|does not exist"):
        write_token_vectors("model/vocab.txt", "no/out.hdf5", model="model")
