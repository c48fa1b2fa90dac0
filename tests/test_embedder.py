import gzip
import hashlib
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import elmo_cli
from elmo_cli import ElmoEmbedder, SettingsError, TextSettings
from elmo_cli.arrays import FloatArray
from elmo_cli.inference import encoder as sentence_states
from elmo_cli.inference.batching import BATCH_TOKENS
from elmo_cli.inference.device import CPU
from elmo_cli.inference.precision import find_arithmetic
from elmo_cli.options.model import InitialState
from elmo_cli.options.selection import Pooling
from elmo_cli.pretrained.model_files import ModelFiles
from tests.support.commands import TINY
from tests.support.golden import Golden
from tests.support.processors import needs_int8
from tests.support.runs import assert_same_values, content
from tests.support.states import GOLDEN_BATCHES
from tests.support.strategies import (
    RandomModel,
    batches,
    make_model,
    models,
    small_architecture,
)

TOLERANCE = 1e-5


def load(files: ModelFiles, **settings: Any) -> ElmoEmbedder:
    return ElmoEmbedder(files.options, files.weights, **settings)


def assert_close(
    actual: FloatArray, expected: FloatArray, tolerance: float = TOLERANCE
) -> None:
    # Relative too: one sentence of tanh-clip is 40 times the same word, and grows until
    # the golden figures themselves, in float32, are 1.4e-5 from figures in float64.
    assert_allclose(actual, expected, atol=tolerance, rtol=tolerance)


# Golden figures


def test_sentences_from_the_zero_state_get_allennlps_activations(
    golden: Golden, device: str
) -> None:
    embedder = load(golden.files, device=device)
    # In the sentence of 40 equal words, an H200 is 1.5e-5 from the golden figures.
    tolerance = TOLERANCE if device == "cpu" else 3 * TOLERANCE
    for i, activations in enumerate(embedder.embed_batch(golden.sentences)):
        assert_close(activations, golden.expected[f"stateless/{i}"][()], tolerance)
    embeddings, mask = embedder.batch_to_embeddings(golden.sentences[:2])
    assert embeddings.device.type == device
    assert mask.device.type == device
    n_tokens = mask[0].sum()
    first = embeddings[0, :, :n_tokens].cpu().numpy()
    assert_close(first, golden.expected["stateless/0"][()])


def carrying(golden: Golden, device: str) -> list[ElmoEmbedder]:
    """Return embedders; on the CPU, which is fast, also some with small batches."""
    sizes = [None, 9, 1] if device == "cpu" else [None]
    embedders = []
    for batch_tokens in sizes:
        embedder = load(
            golden.files, state="carry", batch_tokens=batch_tokens, device=device
        )
        embedders.append(embedder)
    return embedders


def test_carried_state_gives_allennlps_activations(golden: Golden, device: str) -> None:
    for embedder in carrying(golden, device):
        for index, batch in enumerate(GOLDEN_BATCHES):
            actual = embedder.embed_batch([golden.sentences[i] for i in batch])
            for i, activations in zip(batch, actual, strict=True):
                expected = golden.expected[f"stateful/{index}/{i}"][()]
                assert_allclose(
                    activations, expected, atol=golden.tolerance(i), rtol=TOLERANCE
                )


def test_carried_state_of_empty_sentences_is_allennlps(
    golden: Golden, device: str
) -> None:
    for embedder in carrying(golden, device):
        for index, batch in enumerate(json.loads(golden.with_empty.attrs["batches"])):
            for slot, activations in enumerate(embedder.embed_batch(batch)):
                if not batch[slot]:
                    assert activations.shape[1] == 0
                else:
                    expected = golden.with_empty[f"stateful/{index}/{slot}"][()]
                    assert_close(activations, expected)


def test_carried_state_of_blank_lines_is_allennlps(
    golden: Golden, tmp_path: Path
) -> None:
    text = "the cat sat\na\nb c\nx\n\ny z\n"
    batch = [line.split() for line in text.splitlines()]
    last = [["q"], ["q"]]
    by_file = load(golden.files, state="carry")
    by_batch = load(golden.files, state="carry")
    by_file.embed_file(io.StringIO(text), tmp_path / "out", batch_size=3)
    _, _, datasets = content(tmp_path / "out")
    assert datasets["4"].shape[1] == 0
    by_batch.embed_batch(batch[:3])
    by_batch.embed_batch(batch[3:])
    _, actual = by_file.embed_batch(last)
    _, expected = by_batch.embed_batch(last)
    assert_array_equal(actual, expected)


# What a result does not depend on


@settings(max_examples=15)
@given(
    model=models(),
    batch=batches(max_size=6),
    state=st.sampled_from(["zero", "warm"]),
    data=st.data(),
)
def test_batch_window_cache_and_order_do_not_change_a_sentence(
    model: RandomModel, batch: list[list[str]], state: str, data: st.DataObject
) -> None:
    together = load(model.files, state=state).embed_batch(batch)
    order = data.draw(st.permutations(range(len(batch))), "order")
    with pytest.MonkeyPatch.context() as patch:
        cached = data.draw(st.integers(1, 12), "tokens cached")
        window = data.draw(st.integers(1, 3), "window")
        batch_tokens = data.draw(st.integers(1, 20), "tokens")
        patch.setattr(sentence_states, "CACHED_TOKENS", cached)
        patch.setattr("elmo_cli.engine.WINDOW_BATCHES", window)
        other = load(model.files, state=state, batch_tokens=batch_tokens)
        again = other.embed_sentences([batch[i] for i in order])
        for i, activations in zip(order, again, strict=True):
            assert_close(activations, together[i])
        alone = data.draw(st.sampled_from(range(len(batch))), "alone")
        assert_close(other.embed_sentence(batch[alone]), together[alone])


def test_equal_sentences_of_a_window_are_computed_once(
    tiny: ElmoEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Mock(wraps=tiny.engine.encoder.run)
    monkeypatch.setattr(tiny.engine.encoder, "run", run)
    activations = tiny.embed_batch([["a", "b"], ["c"]] * 2)
    computed = []
    for call in run.call_args_list:
        computed += call.args[0]
    assert sorted(computed) == [["a", "b"], ["c"]]
    activations[0][:] = 0  # an array is its sentence's own
    assert activations[2].all()


# Shapes


def test_a_batch_becomes_one_padded_tensor_and_its_mask(tiny: ElmoEmbedder) -> None:
    batch = [["a", "b", "c"], [], ["d"]]
    activations, mask = tiny.batch_to_embeddings(batch)
    assert activations.shape == (3, 3, 3, 32)
    assert activations.dtype == torch.float32
    assert mask.tolist() == [[1, 1, 1], [0, 0, 0], [1, 0, 0]]
    assert mask.dtype == torch.int64
    for row, alone in zip(activations, tiny.embed_batch(batch), strict=True):
        n_tokens = alone.shape[1]
        assert_allclose(row[:, :n_tokens], alone)
        assert not row[:, n_tokens:].any()
    assert not activations.requires_grad


@pytest.mark.parametrize("batch", [[], [[]], [[], []]])
def test_a_batch_without_tokens_becomes_empty_tensors(
    tiny: ElmoEmbedder, batch: list[list[str]]
) -> None:
    activations, mask = tiny.batch_to_embeddings(batch)
    assert activations.shape == (len(batch), 3, 0, 32)
    assert activations.dtype == torch.float32
    assert mask.shape == (len(batch), 0)
    assert mask.dtype == torch.int64


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_a_sentence_without_tokens_has_empty_activations(state: InitialState) -> None:
    embedder = ElmoEmbedder(model=TINY, state=state)
    empty = embedder.embed_sentence([])
    assert empty.shape == (3, 0, 32)
    assert empty.dtype == np.float32
    before, one, after = embedder.embed_batch([[], ["a"], []])
    assert before.shape == (3, 0, 32)
    assert one.shape == (3, 1, 32)
    assert after.shape == (3, 0, 32)
    assert embedder.embed_batch([]) == []
    assert list(embedder.embed_sentences([])) == []


# Streams


@pytest.mark.parametrize(
    ("state", "window"),
    [
        ("zero", 4),
        ("warm", 4),
        ("carry", 3),
    ],
)
def test_a_stream_is_read_a_window_at_a_time(state: InitialState, window: int) -> None:
    # Two batches of 4 tokens, or one of 3 sentences: these are 4 and 3 sentences.
    read: list[int] = []

    def endless() -> Iterator[list[str]]:
        for number in count():
            read.append(number)
            yield ["word", str(number)]

    embedder = ElmoEmbedder(model=TINY, state=state, batch_tokens=4)
    stream = embedder.embed_sentences(endless(), batch_size=3)
    assert read == []
    for n_windows in (1, 2, 3):
        for _ in range(window):
            next(stream)
            assert len(read) == n_windows * window


def test_a_word_level_model_takes_its_vocabulary_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files = make_model({"lstm": small_architecture()["lstm"]}, 1, tmp_path)
    beside = ElmoEmbedder(files.options, files.weights)
    assert files.vocabulary is not None
    elsewhere = files.vocabulary.rename(tmp_path / "other" / "words.txt")
    with_file = ElmoEmbedder(
        files.options, files.weights, vocabulary_file=str(elsewhere)
    )
    cat = with_file.embed_sentence(["cat"])
    dog = with_file.embed_sentence(["dog"])
    assert np.array_equal(cat, beside.embed_sentence(["cat"]))
    assert not np.array_equal(cat, dog)


@pytest.mark.parametrize(
    "precision",
    [
        "bfloat16",
        "float16",
        pytest.param("int8", marks=needs_int8),
    ],
)
def test_a_lower_precision_is_near(golden: Golden, precision: str) -> None:
    embedder = load(golden.files)
    exact = np.concatenate(embedder.embed_batch(golden.sentences), axis=1)
    lower = load(golden.files, precision=precision)
    approximate = np.concatenate(lower.embed_batch(golden.sentences), axis=1)
    assert approximate.dtype == np.float32
    difference = np.linalg.norm(approximate - exact) / np.linalg.norm(exact)
    assert 1e-5 < difference < 0.03


# Files

TEXT = "The cat sat\n\nbank\nThe cat sat\n"
SOURCES: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "path": Path,
    "standard input": lambda _: "-",
    "open": lambda _: io.StringIO(TEXT),
    "gzip": lambda path: path.with_suffix(".gz"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_embed_file_takes_paths_and_open_files(
    kind: str, tiny: ElmoEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text"
    path.write_text(TEXT)
    (tmp_path / "text.gz").write_bytes(gzip.compress(TEXT.encode()))
    standard_input = io.TextIOWrapper(io.BytesIO(TEXT.encode()))
    monkeypatch.setattr(sys, "stdin", standard_input)
    output = tmp_path / "out.hdf5"
    source = SOURCES[kind](path)
    tiny.embed_file(source, str(output) if kind == "str" else output)
    _, index, datasets = content(output)
    assert index == {"The cat sat": "3", "bank": "2"}
    expected = tiny.embed_batch([line.split() for line in TEXT.splitlines()])
    assert datasets.keys() == {"0", "1", "2", "3"}
    for line, values in datasets.items():
        assert values.dtype == np.float32
        assert_close(values, expected[int(line)])
    assert not list(tmp_path.glob("*partial"))


def test_a_file_says_what_made_it(tiny: ElmoEmbedder, tmp_path: Path) -> None:
    warm = ElmoEmbedder(model=TINY, state="warm", precision="bfloat16")
    warm.embed_file(io.StringIO("a\n"), tmp_path / "out", "top")
    attributes, _, _ = content(tmp_path / "out")
    options = json.loads(attributes.pop("options"))
    assert options["lstm"]["projection_dim"] == 16
    assert options["char_cnn"]["filters"] == [[1, 4], [2, 8], [3, 16], [4, 20]]
    weights = (TINY / "weights.hdf5").read_bytes()
    assert attributes == {
        "model": str(TINY),
        "records_sha256": hashlib.sha256(b"1 1 1 None None None True\naa").hexdigest(),
        "model_sha256": hashlib.sha256(weights).hexdigest(),
        "input_sha256": hashlib.sha256(b"a\n").hexdigest(),
        "elmo_cli_version": elmo_cli.__version__,
        "layers": "top",
        "state": "warm",
        "precision": find_arithmetic("bfloat16", CPU),
        "dtype": "float32",
        "format": "text",
        "layout": "allennlp",
        "records": "1",
        "input_records": "1",
        "forget_sentences": "False",
        "sentence_keys": "False",
    }


def test_the_arguments_of_allennlps_embed_file_keep_their_order(
    tiny: ElmoEmbedder, tmp_path: Path
) -> None:
    text = io.StringIO("a b\n\nnaïve 東京\n")
    tiny.embed_file(text, tmp_path / "out", "top", 64, True, True)
    _, index, datasets = content(tmp_path / "out")
    assert sorted(datasets) == ["a b", "naïve 東京"]
    assert index is None
    top = tiny.embed_sentence(["a", "b"])[2]
    assert_close(datasets["a b"], top)


def test_embed_file_takes_the_layers_by_their_name(
    tiny: ElmoEmbedder, tmp_path: Path
) -> None:
    tiny.embed_file(io.StringIO("a b\n"), tmp_path / "new", layers=[0, 2])
    tiny.embed_file(io.StringIO("a b\n"), tmp_path / "old", "0,2")
    assert (tmp_path / "new").read_bytes() == (tmp_path / "old").read_bytes()
    _, _, datasets = content(tmp_path / "new")
    assert_close(datasets["0"], tiny.embed_sentence(["a", "b"])[[0, 2]])


def test_embed_file_takes_text_settings_or_their_fields(
    tiny: ElmoEmbedder, tmp_path: Path
) -> None:
    table = tmp_path / "a.csv"
    table.write_text("review,x\nThe cat.,1\nIt sat.,2\n")
    settings = TextSettings(text_column="review", tokenizer="moses", shard="2/2")
    tiny.embed_file(table, tmp_path / "one.hdf5", text_settings=settings)
    tiny.embed_file(
        table,
        tmp_path / "other.hdf5",
        text_column="review",
        tokenizer="moses",
        shard="2/2",
    )
    assert (tmp_path / "one.hdf5").read_bytes() == (
        tmp_path / "other.hdf5"
    ).read_bytes()
    with pytest.raises(SettingsError, match=r"^text_settings: cannot be combined"):
        tiny.embed_file(
            table, tmp_path / "new", text_settings=settings, text_column="x"
        )


def test_tokenize_splits_texts_as_encode_does(tiny: ElmoEmbedder) -> None:
    assert tiny.tokenize("The cat, it sat.") == ["The", "cat", ",", "it", "sat", "."]
    assert tiny.tokenize(["a cat.", ["b", "c d"]]) == [["a", "cat", "."], ["b", "c d"]]
    assert tiny.tokenize(["a cat."], tokenizer="whitespace") == [["a", "cat."]]
    assert tiny.tokenize([]) == []


def test_threads_do_not_disturb_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_states, "CACHED_TOKENS", 30)  # so that it is full
    random = Random(0)
    words = [f"w{number}" for number in range(200)]
    sentences = [random.choices(words, k=8) for _ in range(80)]
    embedder = ElmoEmbedder(model=TINY)
    expected = [embedder.embed_sentence(sentence) for sentence in sentences]
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(embedder.embed_sentence, sentences))
    for one, other in zip(actual, expected, strict=True):
        assert_allclose(one, other, atol=1e-5)


# Encoding of texts

TEXTS = ["The bank, I'd say.", "", "A bank."]
TOKENS = [
    ["The", "bank", ",", "I", "'d", "say", "."],
    [],
    ["A", "bank", "."],
]


def test_a_text_is_the_mean_of_the_average_of_its_layers(tiny: ElmoEmbedder) -> None:
    vectors: Any = tiny.encode(TEXTS)
    assert vectors.shape == (3, 32)
    assert vectors.dtype == np.float32
    for vector, values in zip(vectors, tiny.embed_batch(TOKENS), strict=True):
        has_tokens = values.shape[1] > 0
        expected = values.mean(axis=(0, 1)) if has_tokens else np.zeros(32)
        assert_allclose(vector, expected, atol=1e-6)


def test_one_text_becomes_one_vector(tiny: ElmoEmbedder) -> None:
    expected = tiny.encode(TEXTS)
    assert_same_values(tiny.encode(TEXTS[0]), expected[0])


def test_tokens_are_encoded_as_they_are(tiny: ElmoEmbedder) -> None:
    expected = tiny.encode(TEXTS)
    assert_same_values(tiny.encode(TOKENS), expected)
    vectors = tiny.encode(["A bank ."], tokenizer="whitespace")
    assert_same_values(vectors, expected[2:])


def test_raw_texts_follow_the_rules_of_their_language(tiny: ElmoEmbedder) -> None:
    raw = ["Tee bzw. Kaffee."]
    expected = tiny.encode([["Tee", "bzw.", "Kaffee", "."]])
    assert_same_values(tiny.encode(raw, language="de"), expected)
    # English has no such abbreviation, so the full stop becomes a token.
    separated = [["Tee", "bzw", ".", "Kaffee", "."]]
    assert_same_values(tiny.encode(raw), tiny.encode(separated))
    # A tokenized text is split at its spaces in every language.
    tokenized = ["Tee bzw. Kaffee ."]
    assert_same_values(tiny.encode(tokenized, language="de"), expected)


@pytest.mark.parametrize(
    ("choice", "shape"),
    [
        ("all", (3, 32)),
        ("top", (32,)),
        ("0,2", (2, 32)),
    ],
)
def test_layers_are_an_axis_of_their_own(
    tiny: ElmoEmbedder, choice: str, shape: tuple[int, ...]
) -> None:
    for texts in (TEXTS, []):
        vectors: Any = tiny.encode(texts, layers=choice)
        assert vectors.shape == (len(texts), *shape)


def test_without_pooling_a_text_has_a_vector_a_token(tiny: ElmoEmbedder) -> None:
    activations: Any = tiny.encode(TEXTS, layers="all", pooling=None)
    assert isinstance(activations, list)
    for values, expected in zip(activations, tiny.embed_batch(TOKENS), strict=True):
        assert_allclose(values, expected, atol=1e-6)
    assert tiny.encode([], pooling=None) == []
    alone = tiny.encode(TEXTS[2], pooling=None, layers="all")
    assert_allclose(alone, activations[2], atol=1e-6)


def test_normalized_vectors_have_length_one_or_zero(tiny: ElmoEmbedder) -> None:
    plain = tiny.encode(TEXTS)
    normalized = tiny.encode(TEXTS, normalize=True)
    assert_array_equal(tiny.encode(TEXTS, normalize_embeddings=True), normalized)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert_allclose(normalized, plain / np.maximum(lengths, 1e-12), atol=1e-6)
    assert_array_equal(normalized[1], np.zeros(32))


def test_encode_returns_a_tensor_and_shows_a_bar_on_request(
    tiny: ElmoEmbedder, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = tiny.encode(TEXTS)
    assert capsys.readouterr().err == ""
    vectors = tiny.encode(
        TEXTS, convert_to_tensor=True, show_progress_bar=True, device="cpu"
    )
    assert isinstance(vectors, torch.Tensor)
    assert_array_equal(vectors.numpy(), expected)
    assert "3/3" in capsys.readouterr().err


def test_encode_takes_the_arguments_of_sentence_transformers(
    tiny: ElmoEmbedder,
) -> None:
    expected = tiny.encode(TEXTS)
    defaults: dict[str, Any] = {
        "prompt_name": None,
        "prompt": None,
        "batch_size": 32,
        "show_progress_bar": None,
        "output_value": "sentence_embedding",
        "precision": "float32",
        "convert_to_numpy": True,
        "convert_to_tensor": False,
        "device": None,
        "normalize_embeddings": False,
        "truncate_dim": None,
        "pool": None,
        "chunk_size": None,
    }
    assert_array_equal(tiny.encode(inputs=TEXTS, **defaults), expected)
    assert_array_equal(tiny.encode(sentences=TEXTS), expected)
    tensors = tiny.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(tensors, list)
    assert_array_equal(torch.stack(tensors).numpy(), expected)
    tokens = tiny.encode(TEXTS, output_value="token_embeddings")
    assert [tuple(values.shape) for values in tokens] == [(7, 32), (0, 32), (3, 32)]
    assert_array_equal(tokens[2].numpy(), tiny.encode(TEXTS[2], pooling=None))


def test_unknown_arguments_of_encode_are_type_errors(tiny: ElmoEmbedder) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'normalise'"):
        tiny.encode(TEXTS, normalise=True)
    with pytest.raises(TypeError, match="got 'sentences' and the texts before it"):
        tiny.encode(TEXTS, sentences=TEXTS)


# Words in sentences


def test_the_vector_of_a_word_is_that_of_its_token(tiny: ElmoEmbedder) -> None:
    activations = tiny.embed_sentence(TOKENS[0])
    for sentence in (TEXTS[0], TOKENS[0]):
        vector = tiny.word_vector(sentence, "bank", layers=2)
        assert_allclose(vector, activations[2, 1], atol=1e-6)
        default = tiny.word_vector(sentence, "bank")
        assert_allclose(default, activations[1:, 1].mean(axis=0), atol=1e-6)
        all_layers = tiny.word_vector(sentence, "bank", layers="all")
        assert_allclose(all_layers, activations[:, 1].mean(axis=0), atol=1e-6)
    second = tiny.word_vector("a bank a", "a", layers="top", occurrence=2)
    assert_allclose(second, tiny.embed_sentence(["a", "bank", "a"])[2, 2], atol=1e-6)


def test_similarity_is_the_cosine_of_each_layer(tiny: ElmoEmbedder) -> None:
    found = tiny.similarity("bank", TEXTS[0], TEXTS[2])
    assert found.first.marked == "The [bank] , I 'd say ."
    for index, cosine in enumerate(found.layers):
        one = tiny.word_vector(TEXTS[0], "bank", layers=index)
        other = tiny.word_vector(TEXTS[2], "bank", layers=index)
        lengths = np.linalg.norm(one) * np.linalg.norm(other)
        assert cosine == pytest.approx(float(one @ other / lengths), abs=1e-5)
    other_word = tiny.similarity("say", TEXTS[0], TEXTS[2], word2="A")
    assert other_word.second.token == "A"
    assert tiny.similarities([(found.first, found.second)]) == [found]


def test_similarities_take_a_word_with_two_sentences(tiny: ElmoEmbedder) -> None:
    found = tiny.similarity("bank", TEXTS[0], TEXTS[2])
    assert tiny.similarities([("bank", TEXTS[0], TEXTS[2])]) == [found]
    tokens = ("bank", list(TOKENS[0]), list(TOKENS[2]))
    assert tiny.similarities([tokens]) == [found]
    assert tiny.similarities([(found.first, found.second)]) == [found]


def test_a_similarity_shows_what_the_command_prints(tiny: ElmoEmbedder) -> None:
    same = tiny.similarity("bank", "The bank.", "The bank.")
    cosines = [*same.layers, same.average]
    assert max(cosines) <= 1
    assert repr(same) == (
        "Similarity('The [bank] .', 'The [bank] .', layers=[1.0000, 1.0000, 1.0000], "
        "average=1.0000)"
    )


def test_similarity_averages_the_chosen_layers(tiny: ElmoEmbedder) -> None:
    found = tiny.similarity("bank", TEXTS[0], TEXTS[2], layers=[0, 2])
    one, other = (
        tiny.word_vector(text, "bank", layers=[0, 2]) for text in (TEXTS[0], TEXTS[2])
    )
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    assert found.average == pytest.approx(float(one @ other / lengths), abs=1e-5)
    assert len(found.layers) == 3
    top = tiny.similarity("bank", TEXTS[0], TEXTS[2], layers=-1)
    assert top.average == pytest.approx(top.layers[2], abs=1e-6)


@pytest.mark.parametrize("batch_tokens", [7, None])
def test_another_device_has_the_same_settings(
    batch_tokens: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = ElmoEmbedder(
        model=TINY, state="warm", precision="bfloat16", batch_tokens=batch_tokens
    )
    device = torch.device("cpu", 0)
    monkeypatch.setattr("elmo_cli.engine.choose_device", lambda name: device)
    monkeypatch.setitem(BATCH_TOKENS, "cpu", 9)  # default of the other device
    other = embedder.engine.on_device("another")
    assert other is not embedder.engine
    assert other.state == "warm"
    assert other.settings.precision == "bfloat16"
    assert other.batch_tokens == (batch_tokens or 9)


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_another_device_gives_equal_vectors(
    tiny: ElmoEmbedder, gpu: str, pooling: Pooling
) -> None:
    expected = tiny.encode(TEXTS, pooling=pooling)
    vectors: Any = tiny.encode(
        TEXTS, device=gpu, pooling=pooling, convert_to_tensor=True
    )
    assert vectors.device.type == gpu
    assert_allclose(vectors.cpu(), expected, atol=1e-5)


def test_a_missing_method_names_what_to_use(tiny: ElmoEmbedder) -> None:
    embedder: Any = tiny
    for name, advice in (
        ("to", "Use ElmoEmbedder(model, device=...)."),
        ("get_sentence_embedding_dimension", "Use width."),
    ):
        problem = f"'ElmoEmbedder' object has no attribute '{name}'. {advice}"
        with pytest.raises(AttributeError, match=f"^{re.escape(problem)}$"):
            getattr(embedder, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'encod'$"):
        embedder.encod(["a"])
    assert not hasattr(tiny, "predict_proba")
    assert tiny.n_layers == 3
    assert tiny.width == 32


def test_a_raw_file_that_is_split_at_white_space_is_a_warning(
    tiny: ElmoEmbedder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw = tmp_path / "raw.txt"
    raw.write_text("We sat, then we left.\nIt rained.\n")
    tiny.embed_file(raw, tmp_path / "old.hdf5")
    assert caplog.messages == [
        f"{raw}: the text seems raw, but is split at white space, as in AllenNLP. Use "
        "tokenizer='auto'."
    ]
    _, index, _ = content(tmp_path / "old.hdf5")
    assert index == {"We sat, then we left.": "0", "It rained.": "1"}
    caplog.clear()
    tiny.embed_file(raw, tmp_path / "new.hdf5", tokenizer="auto")
    tiny.embed_file(raw, tmp_path / "split.hdf5", tokenizer="whitespace")
    raw.write_text("We sat , then we left .\nIt rained .\n")
    tiny.embed_file(raw, tmp_path / "tokenized.hdf5")
    assert caplog.messages == []


def test_a_raw_file_with_typographic_marks_has_one_remedy(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("raw.txt").write_text(
        "We sat, then we left.\nAnn—who’d left—returned.\n", encoding="utf-8"
    )
    ElmoEmbedder("mini").embed_file("raw.txt", "vectors.hdf5")
    assert caplog.messages == [
        "raw.txt: the text seems raw, but is split at white space, as in AllenNLP. Use "
        "tokenizer='auto'.",
        "2 tokens with typographic marks (Ann—who’d left—returned.), which the model "
        "hardly knows, the first in line 2",
    ]
