import gzip
import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from commands import TINY
from conftest import Golden, needs_int8
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from runs import content
from states import GOLDEN_BATCHES
from strategies import RandomModel, batches, make_model, models, small_architecture

import elmo_cli
from elmo_cli import ElmoEmbedder, batch_to_ids
from elmo_cli.embed_file import Summary
from elmo_cli.errors import InputError
from elmo_cli.inference import encoder as sentence_states
from elmo_cli.pretrained.files import ModelFiles
from elmo_cli.pretrained.manage import convert_weights
from elmo_cli.settings import InitialState

Array = NDArray[np.float32]

OPTIONS, WEIGHTS = TINY / "options.json", TINY / "weights.hdf5"
TOLERANCE = 1e-5
SHAPES = {"all": (3, 2, 32), "top": (2, 32), "average": (2, 32), "sum": (2, 32), "0,2": (2, 2, 32)}
"""Shapes of the activations of two tokens, for each choice of layers."""


def load(files: ModelFiles, **settings: Any) -> ElmoEmbedder:
    return ElmoEmbedder(files.options, files.weights, **settings)


def assert_close(actual: Array, expected: Array) -> None:
    # Relative too: one sentence of tanh-clip is 40 times the same word, and grows until the
    # golden figures themselves, in float32, are 1.4e-5 from figures in float64.
    assert_allclose(actual, expected, atol=TOLERANCE, rtol=TOLERANCE)


# Golden figures


def test_sentences_from_the_zero_state_get_allennlps_activations(
    golden: Golden, device: str
) -> None:
    embedder = load(golden.files, device=device)
    for i, activations in enumerate(embedder.embed_batch(golden.sentences)):
        assert_close(activations, golden.expected[f"stateless/{i}"][()])
    embeddings, mask = embedder.batch_to_embeddings(golden.sentences)
    assert embeddings.device.type == mask.device.type == device
    assert_close(
        embeddings[0, :, : mask[0].sum()].cpu().numpy(), golden.expected["stateless/0"][()]
    )


@pytest.mark.parametrize("batch_tokens", [None, 9])  # or more than is computed at once
def test_carried_state_gives_allennlps_activations(
    golden: Golden, batch_tokens: int | None, device: str
) -> None:
    carrying = load(golden.files, state="carry", batch_tokens=batch_tokens, device=device)
    for number, batch in enumerate(GOLDEN_BATCHES):
        actual = carrying.embed_batch([golden.sentences[i] for i in batch])
        for i, activations in zip(batch, actual, strict=True):
            expected = golden.expected[f"stateful/{number}/{i}"][()]
            assert_allclose(activations, expected, atol=golden.tolerance(i), rtol=TOLERANCE)


@pytest.mark.parametrize("batch_tokens", [None, 1])
def test_carried_state_of_empty_sentences_is_allennlps(
    golden: Golden, batch_tokens: int | None, device: str
) -> None:
    batches = json.loads(golden.with_empty.attrs["batches"])
    carrying = load(golden.files, state="carry", batch_tokens=batch_tokens, device=device)
    actual = [carrying.embed_batch(batch) for batch in batches]
    for number, batch in enumerate(batches):
        for slot in range(len(batch)):
            activations = actual[number][slot]
            if not batch[slot]:
                assert activations.shape[1] == 0
            else:
                assert_close(activations, golden.with_empty[f"stateful/{number}/{slot}"][()])


def test_carried_state_of_blank_lines_is_allennlps(golden: Golden, tmp_path: Path) -> None:
    batch = [["the", "cat", "sat"], ["a"], ["b", "c"], ["x"], [], ["y", "z"]]
    text = io.StringIO("".join(" ".join(sentence) + "\n" for sentence in batch))
    carrying = load(golden.files, state="carry")
    carrying.embed_file(text, tmp_path / "out", batch_size=3)
    assert content(tmp_path / "out")[2]["4"].shape[1] == 0
    (*_, actual) = carrying.embed_batch([["q"], ["q"]])
    again = load(golden.files, state="carry")
    (*_, expected) = [again.embed_batch(each) for each in (batch[:3], batch[3:], [["q"], ["q"]])]
    assert np.array_equal(actual, expected[1])


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
        patch.setattr(sentence_states, "CACHED_TOKENS", cached)
        patch.setattr("elmo_cli.engine.WINDOW_BATCHES", data.draw(st.integers(1, 3), "window"))
        other = load(model.files, state=state, batch_tokens=data.draw(st.integers(1, 20), "tokens"))
        again = other.embed_sentences([batch[i] for i in order])
        for i, activations in zip(order, again, strict=True):
            assert_close(activations, together[i])
        alone = data.draw(st.sampled_from(range(len(batch))), "alone")
        assert_close(other.embed_sentence(batch[alone]), together[alone])


def test_equal_sentences_of_a_window_are_computed_once(
    tiny: ElmoEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[list[str]] = []
    run = tiny.engine.encoder.run

    def counting(sentences: list[list[str]], slots: list[int]) -> torch.Tensor:
        computed.extend(sentences)
        return run(sentences, slots)

    monkeypatch.setattr(tiny.engine.encoder, "run", counting)
    activations = tiny.embed_batch([["a", "b"], ["c"], ["a", "b"], ["c"]])
    assert sorted(computed) == [["a", "b"], ["c"]]
    activations[0][:] = 0  # an array is its sentence's own
    assert activations[2].all()


@settings(max_examples=10)
@given(model=models(), batch=batches(max_size=5))
def test_results_equal_the_readable_bilm(model: RandomModel, batch: list[list[str]]) -> None:
    fast = load(model.files)
    readable = fast.elmo_bilm
    for sentence, activations in zip(batch, fast.embed_batch(batch), strict=True):
        if sentence:
            expected = readable(readable.token_encoder.token_ids(sentence)[None]).layers[:, 0, 1:-1]
            assert_close(activations, expected.numpy())


Call = Callable[[ElmoEmbedder, Any], object]
BATCH = "^(batch|sentences)"
SENTENCE_CALLS: list[Call] = [
    lambda elmo, sentence: elmo.embed_sentence(sentence),
    lambda elmo, sentence: batch_to_ids([sentence]),
]
BATCH_CALLS: list[Call] = [
    lambda elmo, batch: elmo.embed_batch(batch),
    lambda elmo, batch: list(elmo.embed_sentences(batch)),
    lambda elmo, batch: elmo.batch_to_embeddings(batch),
    lambda elmo, batch: elmo.elmo_bilm.sentence_ids(batch),
    lambda elmo, batch: batch_to_ids(batch),
]


@pytest.mark.parametrize(
    ("calls", "value", "message"),
    [
        (
            SENTENCE_CALLS,
            "The cat",
            r"^(sentence|batch\[0\]): expected a list.*, found the string 'T",
        ),
        (SENTENCE_CALLS, None, "list of tokens, found None"),
        (SENTENCE_CALLS, iter(["The"]), "list of tokens, found a value of type list_iterator"),
        (SENTENCE_CALLS, {"The"}, "list of tokens, found a value of type set"),
        (SENTENCE_CALLS, {"tokens": ["The"]}, "list of tokens, found a value of type dict"),
        (SENTENCE_CALLS, ["The", 2], r"\[1\]: expected a string, found 2"),
        (SENTENCE_CALLS, [b"The"], r"\[0\]: expected a string, found bytes"),
        (BATCH_CALLS, "The cat", f"{BATCH}: expected a list.*, found the string 'T"),
        (BATCH_CALLS, ["The cat"], rf"{BATCH}\[0\]: expected a list.*, found the string 'T"),
        (
            BATCH_CALLS,
            {"tokens": [["a"]]},
            f"{BATCH}: expected a list, found a value of type dict. ",
        ),
        (BATCH_CALLS, None, f"{BATCH}: expected a list, found None. "),
        (
            BATCH_CALLS,
            [["a"], ["b", float("nan")]],
            rf"{BATCH}\[1\]\[1\]: expected a string, found nan\.$",
        ),
    ],
)
def test_what_is_no_sentence_or_batch_is_reported(
    calls: list[Call], value: Any, message: str, tiny: ElmoEmbedder
) -> None:
    for call in calls:
        with pytest.raises(InputError, match=message):
            call(tiny, value)


def test_warm_starts_agree_in_two_embedders_and_differ_from_zero(tiny: ElmoEmbedder) -> None:
    one, other = (ElmoEmbedder(OPTIONS, WEIGHTS, state="warm") for _ in range(2))
    sentence = ["The", "cat"]
    assert np.array_equal(one.embed_sentence(sentence), other.embed_sentence(sentence))
    assert np.array_equal(one.embed_sentence(sentence), one.embed_sentence(sentence))
    assert abs(one.embed_sentence(sentence) - tiny.embed_sentence(sentence)).max() > 1e-3


# Shapes


def test_a_batch_becomes_one_padded_tensor_and_its_mask(tiny: ElmoEmbedder) -> None:
    batch = [["a", "b", "c"], [], ["d"]]
    activations, mask = tiny.batch_to_embeddings(batch)
    assert (activations.shape, activations.dtype) == ((3, 3, 3, 32), torch.float32)
    assert (mask.tolist(), mask.dtype) == ([[1, 1, 1], [0, 0, 0], [1, 0, 0]], torch.int64)
    for row, sentence, alone in zip(activations, batch, tiny.embed_batch(batch), strict=True):
        assert_allclose(row[:, : len(sentence)], alone)
        assert not row[:, len(sentence) :].any()
    assert not activations.requires_grad


@pytest.mark.parametrize("batch", [[], [[]], [[], []]])
def test_a_batch_without_tokens_becomes_empty_tensors(
    tiny: ElmoEmbedder, batch: list[list[str]]
) -> None:
    activations, mask = tiny.batch_to_embeddings(batch)
    assert (activations.shape, activations.dtype) == ((len(batch), 3, 0, 32), torch.float32)
    assert (mask.shape, mask.dtype) == ((len(batch), 0), torch.int64)


@pytest.mark.parametrize("state", ["zero", "warm", "carry"])
def test_a_sentence_without_tokens_has_empty_activations(state: InitialState) -> None:
    embedder = ElmoEmbedder(OPTIONS, WEIGHTS, state=state)
    empty = embedder.embed_sentence([])
    assert (empty.shape, empty.dtype) == ((3, 0, 32), np.dtype(np.float32))
    assert [array.shape for array in embedder.embed_batch([[], ["a"], []])] == [
        *((3, 0, 32), (3, 1, 32), (3, 0, 32)),
    ]
    assert embedder.embed_batch([]) == []
    assert list(embedder.embed_sentences([])) == []


# Streams


def endless(read: list[int]) -> Iterator[list[str]]:
    """Yield sentences without end, and record their numbers."""
    for number in count():
        read.append(number)
        yield ["word", str(number)]


@pytest.mark.parametrize(("state", "window"), [("zero", 4), ("warm", 4), ("carry", 3)])
def test_a_stream_is_read_a_window_at_a_time(state: InitialState, window: int) -> None:
    # Two batches of 4 tokens, or one of 3 sentences: these are 4 and 3 sentences.
    read: list[int] = []
    stream = ElmoEmbedder(OPTIONS, WEIGHTS, state=state, batch_tokens=4).embed_sentences(
        endless(read), batch_size=3
    )
    assert read == []
    for number in range(2 * window + 1):
        next(stream)
        assert len(read) == (number // window + 1) * window


# Construction


def test_files_may_be_strings_or_paths_and_a_model_a_folder() -> None:
    sentence = ["a"]
    expected = ElmoEmbedder(OPTIONS, WEIGHTS).embed_sentence(sentence)
    for other in (
        ElmoEmbedder(str(OPTIONS), str(WEIGHTS)),
        ElmoEmbedder(options_file=OPTIONS, weight_file=str(WEIGHTS), cuda_device=-1),
        ElmoEmbedder(model=OPTIONS.parent),
        ElmoEmbedder(model=str(OPTIONS.parent)),
    ):
        assert np.array_equal(other.embed_sentence(sentence), expected)
        assert other.cuda_device == -1


@pytest.mark.parametrize(
    "files",
    [
        {"weight_file": WEIGHTS},
        {"model": "mini", "weight_file": WEIGHTS},
        {"model": "mini", "options_file": OPTIONS, "weight_file": WEIGHTS},
    ],
)
def test_files_that_are_given_in_part_are_refused(files: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^Give either options_file and weight_file, or"):
        ElmoEmbedder(**files)


def test_a_word_level_model_takes_its_vocabulary_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files = make_model({"lstm": small_architecture()["lstm"]}, 1, tmp_path)
    beside = ElmoEmbedder(files.options, files.weights)
    assert files.vocabulary is not None
    elsewhere = files.vocabulary.rename(tmp_path / "other" / "words.txt")
    with_file = ElmoEmbedder(files.options, files.weights, vocabulary_file=str(elsewhere))
    assert np.array_equal(beside.embed_sentence(["cat"]), with_file.embed_sentence(["cat"]))
    assert not np.array_equal(with_file.embed_sentence(["cat"]), with_file.embed_sentence(["dog"]))


@pytest.mark.parametrize(
    "precision", ["bfloat16", "float16", pytest.param("int8", marks=needs_int8)]
)
def test_a_lower_precision_is_near(golden: Golden, precision: str) -> None:
    exact = np.concatenate(load(golden.files).embed_batch(golden.sentences), axis=1)
    lower = load(golden.files, precision=precision).embed_batch(golden.sentences)
    approximate = np.concatenate(lower, axis=1)
    assert approximate.dtype == np.float32
    difference = np.linalg.norm(approximate - exact) / np.linalg.norm(exact)
    assert 1e-5 < difference < 0.03


# Files

TEXT = "The cat sat\n\nbank\nThe cat sat\n"
LINES = ["The cat sat", "", "bank", "The cat sat"]


def assert_holds(path: Path, tiny: ElmoEmbedder) -> None:
    """Assert that an output file contains the activations of `TEXT`."""
    _, index, datasets = content(path)
    assert sorted(datasets) == ["0", "1", "2", "3"]
    assert index == {"The cat sat": "3", "bank": "2"}
    for line, expected in enumerate(tiny.embed_batch([line.split() for line in LINES])):
        assert datasets[str(line)].dtype == np.float32
        assert datasets[str(line)].shape == expected.shape
        assert_close(datasets[str(line)], expected)


@pytest.mark.parametrize("kind", ["str", "path", "open", "gzip", "standard input"])
def test_a_text_file_may_be_given_in_many_ways(
    kind: str, tiny: ElmoEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, compressed = tmp_path / "text", tmp_path / "text.gz"
    plain.write_text(TEXT, encoding="utf-8")
    compressed.write_bytes(gzip.compress(TEXT.encode()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    sources: dict[str, Any] = {
        "str": str(plain),
        "path": plain,
        "open": io.StringIO(TEXT),
        "gzip": compressed,
        "standard input": "-",
    }
    output = tmp_path / "out.hdf5"
    tiny.embed_file(sources[kind], str(output) if kind == "str" else output)
    assert_holds(output, tiny)
    assert not list(tmp_path.glob("*partial"))


@pytest.mark.parametrize("layers", SHAPES)
def test_a_file_holds_the_layers_asked_for(layers: str, tiny: ElmoEmbedder, tmp_path: Path) -> None:
    tiny.embed_file(io.StringIO("a b\n\n"), tmp_path / "out", layers)
    attributes, _, datasets = content(tmp_path / "out")
    (expected,) = tiny.embed_sentences([["a", "b"]], layers=layers)
    assert_close(datasets["0"], expected)
    assert datasets["1"].shape == (*SHAPES[layers][:-2], 0, 32)
    assert attributes["layers"] == layers


def test_a_file_says_what_made_it(tiny: ElmoEmbedder, tmp_path: Path) -> None:
    warm = ElmoEmbedder(OPTIONS, WEIGHTS, state="warm", precision="bfloat16")
    warm.embed_file(io.StringIO("a\n"), tmp_path / "out", "top")
    attributes, _, _ = content(tmp_path / "out")
    options = json.loads(attributes.pop("options"))
    assert options["lstm"]["projection_dim"] == 16
    assert options["char_cnn"]["filters"] == [[1, 4], [2, 8], [3, 16], [4, 20]]
    assert attributes == {
        "model": str(WEIGHTS),
        "model_sha256": hashlib.sha256(WEIGHTS.read_bytes()).hexdigest(),
        "layers": "top",
        "state": "warm",
        "precision": "bfloat16",
        "elmo_cli_version": elmo_cli.__version__,
        "format": "text",
        "layout": "allennlp",
        "dtype": "float32",
        "forget_sentences": "False",
        "sentence_keys": "False",
        "records": "1",
        "input_records": "1",
        "input_sha256": hashlib.sha256(b"a\n").hexdigest(),
    }


def test_the_arguments_of_allennlps_embed_file_keep_their_order(
    tiny: ElmoEmbedder, tmp_path: Path
) -> None:
    text = io.StringIO("a b\n\nnaïve 東京\n")
    tiny.embed_file(text, tmp_path / "out", "top", 64, True, True)
    _, index, datasets = content(tmp_path / "out")
    assert (sorted(datasets), index) == (["a b", "naïve 東京"], None)
    assert_close(datasets["a b"], tiny.embed_sentence(["a", "b"])[2])


@pytest.mark.parametrize("source", [["s.txt"], ("a b",), iter(["a b"])])
def test_embed_file_refuses_lists(source: Any, tiny: ElmoEmbedder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a path or an open text file, found a "):
        tiny.embed_file(source, tmp_path / "out.hdf5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrites", [True, False])
def test_a_run_that_fails_leaves_the_old_file_as_it_was(overwrites: bool, tmp_path: Path) -> None:
    text, output = tmp_path / "text", tmp_path / "out"
    text.write_bytes(b"good line\n" * 99 + b"caf\xe9\n" + b"good line\n" * 5)
    if overwrites:
        output.write_bytes(b"old")
    with pytest.raises(InputError) as caught:
        ElmoEmbedder(OPTIONS, WEIGHTS, batch_tokens=8).embed_file(text, output, overwrite=True)
    assert str(caught.value).startswith(f"{text}, line 100, column 4: not valid UTF-8 (byte 0x")
    assert output.exists() == overwrites
    assert not overwrites or output.read_bytes() == b"old"


def test_on_progress_gets_bytes_sentences_and_tokens(tiny: ElmoEmbedder, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text(TEXT, encoding="utf-8")
    summaries: list[Summary] = []
    summary = tiny.embed_file(text, tmp_path / "out", on_progress=summaries.append)
    last = summaries[-1]
    assert (last.n_bytes, last.n_sentences, last.n_tokens) == (len(TEXT), 4, 7)
    assert (summary.n_sentences, summary.n_tokens, summary.resumed_from) == (4, 7, 0)
    assert summary.seconds > 0


@pytest.mark.parametrize(
    ("source", "description"),
    [
        (io.BytesIO(b"a b\n"), "a binary file"),
        (None, "None"),
        (b"text.txt", "bytes"),
        ({"tokens": ["a"]}, "a value of type dict"),
    ],
)
@pytest.mark.parametrize("input_format", [None, "fasta"])
def test_embed_file_rejects_other_sources(
    tiny: ElmoEmbedder, tmp_path: Path, source: Any, description: str, input_format: str | None
) -> None:
    message = f"^the input: expected a path or an open text file, found {description}.$"
    with pytest.raises(InputError, match=message):
        tiny.embed_file(source, tmp_path / "out", input_format=input_format)
    assert not list(tmp_path.iterdir())


def test_a_batch_may_be_an_array(tiny: ElmoEmbedder) -> None:
    (activations,) = tiny.embed_batch(np.array([["The", "cat"]]))  # type: ignore[arg-type]
    assert np.array_equal(activations, tiny.embed_sentence(["The", "cat"]))


def test_threads_do_not_disturb_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_states, "CACHED_TOKENS", 30)  # so that it is full
    random = Random(0)
    sentences = [random.choices([f"w{n}" for n in range(200)], k=8) for _ in range(80)]
    embedder = ElmoEmbedder(OPTIONS, WEIGHTS)
    expected = [embedder.embed_sentence(sentence) for sentence in sentences]
    with ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(embedder.embed_sentence, sentences))
    for one, other in zip(actual, expected, strict=True):
        assert_allclose(one, other, atol=1e-5)


def test_a_batch_has_a_sentence(tmp_path: Path) -> None:
    embedder = ElmoEmbedder(OPTIONS, WEIGHTS, state="carry")
    match = "^batch_size 0: expected 1 or more$"
    with pytest.raises(InputError, match=match):
        list(embedder.embed_sentences([["a"]], 0))
    with pytest.raises(InputError, match=match):
        embedder.embed_file(io.StringIO("a\n"), tmp_path / "out", "all", 0)
    assert not (tmp_path / "out").exists()


def test_values_of_a_file_are_of_a_known_type(tiny: ElmoEmbedder, tmp_path: Path) -> None:
    match = r"^dtype 'float64': expected float32 or float16$"
    with pytest.raises(InputError, match=match):
        tiny.embed_file(io.StringIO("a\n"), tmp_path / "out", dtype="float64")
    with pytest.raises(InputError, match=match):
        convert_weights(WEIGHTS, tmp_path / "out.hdf5", "float64")
