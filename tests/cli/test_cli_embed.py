"""`elmo embed`: AllenNLP's files, what it prints, layers, pooling, raw text."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import click
import h5py
import numpy as np
import pytest
from click.testing import Result
from numpy.testing import assert_allclose

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.cli.progress_bar import progress_bar, show_summary
from elmo_cli.inference.device import CPU
from elmo_cli.inference.precision import find_arithmetic
from elmo_cli.pretrained.registry import PublishedModel
from elmo_cli.runs.file_sink import Summary
from tests.support.commands import (
    TINY,
    Terminal,
    assert_fails,
    elmo,
    start_elmo,
)
from tests.support.golden import Golden
from tests.support.table_files import read_rows

TEXT = "The cat sat\n\nbank\nThe cat sat on the mat\n"
LINES = ["The bank, I'd say. It's \u201copen\u201d!", "", "A bank."]
MOSES = [
    ["The", "bank", ",", "I", "'d", "say", ".", "It", "'s", '"', "open", '"', "!"],
    [],
    ["A", "bank", "."],
]
SENTENCES = ["The bank, I'd say.", "It's \u201copen\u201d!", "A bank."]
OF_SENTENCES = [
    ["The", "bank", ",", "I", "'d", "say", "."],
    ["It", "'s", '"', "open", '"', "!"],
    ["A", "bank", "."],
]
OUTPUTS = (
    "out.hdf5",
    "out.hdf5 --layout packed",
    "out.jsonl",
    "out.npz",
    "out.parquet",
)


pytestmark = pytest.mark.usefixtures("raw_and_tokenized")


@pytest.fixture
def raw_and_tokenized(folder: Path) -> None:
    """Write a tokenized and a raw text into the current folder."""
    Path("text").write_text(TEXT)
    Path("raw.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")


def datasets(path: str | Path) -> dict[str, Any]:
    """Return the values of all datasets of a file by their names."""
    with h5py.File(path, "r") as file:
        return {name: file[name][()] for name in file}


def embed(source: str, output: str, *options: str) -> Result:
    """Run `elmo embed` with the tiny model."""
    return elmo("embed", source, output, "--model", TINY, *options)


@pytest.mark.parametrize("layers", ["all", "top", "average"])
def test_files_are_the_same_as_allennlps(golden: Golden, layers: str) -> None:
    text = "".join(" ".join(sentence) + "\n" for sentence in golden.sentences)
    Path("sentences").write_text(text, encoding="utf-8")
    result = elmo(
        "embed",
        "sentences",
        "out.hdf5",
        f"--{layers}",
        "--state",
        "carry",
        "--batch-size",
        "4",
        "--options-file",
        golden.files.options,
        "--weight-file",
        golden.files.weights,
    )
    assert result.exit_code == 0
    assert "--batch-size requires" not in result.stderr
    actual = datasets("out.hdf5")
    expected = datasets(golden.folder / f"allennlp-{layers}.hdf5")
    assert list(actual) == list(expected)
    [index] = actual.pop("sentence_to_index")
    [expected_index] = expected.pop("sentence_to_index")
    assert json.loads(index) == json.loads(expected_index)
    for name, values in expected.items():
        assert actual[name].shape == values.shape
        assert actual[name].dtype == np.float32
        tolerance = golden.tolerance(int(name))
        assert_allclose(actual[name], values, atol=tolerance, rtol=1e-5)


def test_an_old_command_line_still_works() -> None:
    result = elmo(
        "embed",
        "text",
        "out.hdf5",
        "--top",
        "--batch-size",
        "2",
        "--cuda-device",
        "-1",
        "--forget-sentences",
        "--vocab-path",
        "vocabulary",
        "--include-package",
        "a.b",
        "--options-file",
        TINY / "options.json",
        "--weight-file",
        TINY / "weights.hdf5",
    )
    assert result.exit_code == 0
    assert result.stderr.splitlines()[:2] == [
        "Warning: --vocab-path has no effect. It is only accepted for old scripts.",
        "Warning: --include-package has no effect. "
        "It is only accepted for old scripts.",
    ]
    shapes = [values.shape for values in datasets("out.hdf5").values()]
    assert shapes == [(3, 32), (0, 32), (1, 32), (6, 32)]


@pytest.mark.parametrize("flag", ["--all", "--top", "--average"])
def test_an_old_flag_writes_hdf5_whatever_the_suffix(
    flag: str, caplog: pytest.LogCaptureFixture
) -> None:
    embed("text", "new.hdf5", "--layers", flag.removeprefix("--"))
    for name in ("out.txt", "out.json", "out.npz", "out.parquet", "out", "out.h5"):
        caplog.clear()
        embed("text", name, flag)
        warning = f"{name} will be HDF5. Choose another format with file_format."
        assert (warning in caplog.messages) == (name not in ("out", "out.h5"))
        assert Path(name).read_bytes() == Path("new.hdf5").read_bytes()
    caplog.clear()
    embed("text", "lines", flag, "--format", "jsonl")
    assert "will be HDF5" not in caplog.text
    assert len(Path("lines").read_text().splitlines()) == 4


def test_model_and_size_are_said_with_v_and_the_outcome_always() -> None:
    result = embed("text", "out.hdf5")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    [outcome] = result.stderr.splitlines()
    verbose = embed("text", "other.hdf5", "-v").stderr
    assert f"\nModel: {TINY}\n" in verbose
    assert re.search(
        r"\nOutput: about 5\.4 kB to be written, [\d.,]+ [kMGT]B free\n", verbose
    )
    assert outcome.startswith("Wrote out.hdf5: 4 sentences, 10 tokens")
    assert re.search(r" tokens(, [\d,]+ tokens/s)?$", outcome)


def test_the_size_is_said_if_little_space_is_left() -> None:
    Path("long").write_text(3000 * "the cat sat\n")
    usage = SimpleNamespace(free=1000)
    with patch("shutil.disk_usage", return_value=usage):
        result = embed("long", "out.hdf5", "--batch-tokens", "100")
    size = r"about \S+ MB to be written, 1\.0 kB free"
    output, warning, _ = result.stderr.splitlines()
    assert re.fullmatch(f"Output: {size}", output)
    assert re.match(rf"Warning: out\.hdf5: {size}\. Use --layers average", warning)


def test_a_model_that_nobody_named_is_said_once_and_for_files_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = "Model: mini (bundled). For better vectors, use --model original.\n"
    wrong = elmo("embed", "text", "out.hdf5", "--layers", "7")
    assert wrong.exit_code == 2
    assert "Model: " not in wrong.stderr
    result = elmo("embed", "text", "out.hdf5")
    assert result.stderr.startswith(model)
    assert result.stderr.count("Model: ") == 1
    printed = elmo("embed", "text", "-", "--format", "jsonl", "--layers", "0")
    assert "Model: " not in printed.stderr
    Path("latin.txt").write_bytes(b"a cat\nM\xfcnchen\n")
    for command in ("embed", "word-vectors"):
        [line] = elmo(command, "latin.txt", "new.hdf5").stderr.splitlines()
        assert line.startswith("Error: latin.txt, line 2, column 2: not valid UTF-8")
    monkeypatch.setenv("ELMO_MODEL", "mini")
    assert "Model: " not in elmo("embed", "text", "other.hdf5").stderr
    with h5py.File("out.hdf5", "r") as file:
        assert file["0"].shape == (3, 3, 1024)
        assert file["1"].shape == (3, 0, 1024)
        assert file["2"].shape == (3, 1, 1024)
        assert file["3"].shape == (3, 6, 1024)
        assert file.attrs["model"] == "mini"


def test_options_are_recorded_in_the_file() -> None:
    result = embed(
        "text",
        "out.hdf5",
        "--dtype",
        "float16",
        "--precision",
        "bfloat16",
        "--state",
        "warm",
        "--batch-tokens",
        "2",
        "--layers",
        "0, 2",
    )
    assert result.exit_code == 0
    with h5py.File("out.hdf5", "r") as file:
        assert file["0"].dtype == np.float16
        assert file.attrs["model"] == str(TINY)
        assert file.attrs["layers"] == "0,2"
        assert file.attrs["state"] == "warm"
        assert file.attrs["precision"] == find_arithmetic("bfloat16", CPU)


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_a_token_and_a_line_may_be_very_long(layout: str) -> None:
    token = "x" * 1_000_000
    lines = ["the cat", token, "a " * 1000, f"sat {token[:60]}", token[:60]]
    Path("long").write_text("\n".join(lines) + "\n")
    assert embed("long", "out", "--layout", layout).exit_code == 0
    with open_activations("out") as activations:
        assert [values.shape[1] for values in activations] == [2, 1, 1000, 2, 1]
        assert activations.index_of(token) == 1
        # The model reads the first 50 bytes of a token.
        assert_allclose(activations[1], activations[4], atol=1e-6)


def test_progress_as_lines_needs_no_terminal() -> None:
    result = embed("text", "out.hdf5", "--file-friendly-logging")
    assert "\r" not in result.stderr
    first, *_, last, _ = result.stderr.splitlines()
    assert first.startswith("0%|")
    assert re.fullmatch(r"100%\|.* tokens/s\]", last)


@pytest.mark.parametrize(
    ("stderr", "stdin", "source", "verbosity", "shows"),
    [
        (Terminal(), Terminal(), "1000-bytes", 0, True),
        (Terminal(), Terminal(), "1000-bytes", -1, False),
        (io.StringIO(), Terminal(), "1000-bytes", 0, False),
        (Terminal(), io.StringIO(), "-", 0, True),
        # It would stand before what is typed.
        (Terminal(), Terminal(), "-", 0, False),
    ],
)
def test_progress_shows_on_a_terminal_unless_quiet(
    stderr: io.StringIO,
    stdin: io.StringIO,
    source: str,
    verbosity: int,
    shows: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("1000-bytes").write_bytes(b"a" * 1000)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "stdin", stdin)
    with click.Context(click.Command("elmo")).scope() as context:
        context.meta["verbosity"] = verbosity
        with progress_bar(source=source) as bar:
            show_summary(bar, Summary(1, 70, 400, 0.1))
            show_summary(bar, Summary(2, 90, 1000, 0.2))
    shown = stderr.getvalue()
    assert bool(shown) == shows
    if shows and source != "-":
        # the share, the bytes, the time left and the speed
        assert re.search(r"100%.* 1\.00k/1\.00k .*<.* tokens/s", shown)


def test_an_output_that_cannot_be_written_is_an_error() -> None:
    long = "x" * 300
    result = embed("text", long)
    message = f"{long}: cannot write the output: File name too long"
    assert_fails(result, message)
    assert sorted(os.listdir()) == ["raw.txt", "text"]


def test_ctrl_c_says_what_the_same_command_does_next() -> None:
    process = start_elmo(
        "embed", "-", "out.hdf5", "--model", TINY, stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b"The cat sat on the mat\n" * 5)
    process.stdin.flush()
    # until the output is open
    while not Path("out.hdf5.partial").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    # The pipe stays open.
    process.wait(timeout=60)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert errors.decode() == (
        "Stopping after the current batch. Press Ctrl-C again to stop immediately.\n"
        "Stopped after line 0, before the first checkpoint, which is made at 131,072 "
        "tokens. The same command starts over.\n"
    )
    assert not [*Path().glob("out*")]


@pytest.mark.parametrize("command", ["embed", "occurrences --words words"])
def test_an_output_is_locked_before_standard_input_is_read(command: str) -> None:
    Path("words").write_text("cat\n")
    options: list[str | Path] = ["out.hdf5", "--model", TINY]
    waiting = start_elmo(*command.split(), "-", *options, stdin=subprocess.PIPE)
    while not Path("out.hdf5.partial.lock").exists():
        assert waiting.poll() is None
        time.sleep(0.05)
    problem = "out.hdf5: another process is writing it. Wait, or stop it."
    assert_fails(elmo(*command.split(), "text", *options), problem)
    assert_fails(elmo(*command.split(), "-", *options, stdin=""), problem)
    waiting.communicate(b"The cat sat\n", timeout=60)
    assert waiting.returncode == 0
    assert sorted(os.listdir()) == ["out.hdf5", "raw.txt", "text", "words"]


# Layers and pooling


def embed_text(*options: str) -> tuple[list[Any], dict[str, str]]:
    """Return the datasets and attributes that `elmo embed` writes."""
    result = embed("text", "out.hdf5", "--overwrite", *options)
    assert "Wrote out.hdf5: 4 sentences, 10 tokens" in result.stderr, result.stderr
    with h5py.File("out.hdf5") as file:
        values = [file[str(line)][()] for line in range(4)]
        return values, dict(file.attrs)


@pytest.mark.parametrize(
    ("name", "layer", "width"),
    [("word_emb", 0, 16), ("lstm1", 1, 32), ("lstm2", 2, 32)],
)
def test_layers_have_the_names_of_tf_hubs_outputs(
    name: str, layer: int, width: int, tiny: ElmoEmbedder
) -> None:
    layers = tiny.embed_sentence(["The", "cat", "sat"])
    datasets, attributes = embed_text("--layers", name)
    assert_allclose(datasets[0], layers[layer, :, :width], atol=1e-5)
    assert attributes["layers"] == name
    assert not {"mix", "gamma", "pooling"} & set(attributes)


def test_a_trained_mix_is_applied(tiny: ElmoEmbedder) -> None:
    layers = tiny.embed_sentence(["The", "cat", "sat"])
    exponentials = np.exp([0.2, -0.3, 0.5])
    weights = exponentials / exponentials.sum()
    datasets, attributes = embed_text("--mix", "0.2,-0.3,0.5", "--gamma", "1.2")
    assert [values.shape for values in datasets] == [(3, 32), (0, 32), (1, 32), (6, 32)]
    mixed = 1.2 * np.einsum("l,ltw->tw", weights, layers)
    assert_allclose(datasets[0], mixed, atol=1e-5)
    assert attributes["layers"] == "mix"
    assert attributes["mix"] == "0.2,-0.3,0.5"
    assert attributes["gamma"] == "1.2"
    assert "pooling" not in attributes


def test_a_mix_may_start_with_a_minus_and_gamma_is_1_by_default() -> None:
    mixed, attributes = embed_text("--mix", "-1e3,-1e3, -1e3")
    averages, _ = embed_text("--average")
    assert_allclose(mixed[0], averages[0], atol=1e-5)
    assert attributes["gamma"] == "1.0"


@pytest.mark.parametrize(
    "choice",
    [
        [],
        ["--layers", "0,2"],
        ["--layers", "word_emb"],
        ["--mix", "0.2,-0.3,0.5", "--gamma", "1.2"],
    ],
)
def test_a_sentence_may_become_one_vector(choice: list[str]) -> None:
    tokens, _ = embed_text(*choice)
    # The vector of a sentence without tokens is zero.
    tokens[1] = np.zeros_like(tokens[2])
    pools: dict[str, Callable[[Any], Any]] = {
        "mean": lambda values: values.mean(axis=-2),
        "max": lambda values: values.max(axis=-2),
        "first": lambda values: values[..., 0, :],
        "last": lambda values: values[..., -1, :],
    }
    for pooling, pool in pools.items():
        pooled, attributes = embed_text("--pooling", pooling, *choice)
        assert attributes["pooling"] == pooling
        for actual, values in zip(pooled, tokens, strict=True):
            expected = pool(values)
            assert actual.shape == expected.shape
            assert_allclose(actual, expected, atol=1e-5)


# Raw text


def records_of(path: str) -> list[dict[str, Any]]:
    """Return the records of an output in the form of JSON lines, with their values."""
    if path.endswith((".jsonl", ".parquet")):
        return read_rows(path)
    records: list[dict[str, Any]] = []
    if path.endswith(".npz"):
        with np.load(path) as file:
            for line in file["records.jsonl"].decode().splitlines():
                row = json.loads(line)
                row["activations"] = file[str(row["index"])]
                records.append(row)
        return records
    with open_activations(path) as activations:
        for record, values in activations.records():
            row = {
                "sentence": record.text,
                "tokens": record.tokens,
                "activations": values,
            }
            if "line_index" in record.attributes:
                row["line"] = record.attributes["line_index"] + 1
            records.append(row)
    return records


def assert_top_layer_of(tokens: list[list[str]], rows: list[dict[str, Any]]) -> None:
    """Assert that rows have the top layer of these sentences."""
    top = ElmoEmbedder(model=TINY).embed_sentences(tokens, layers="top")
    for row, expected in zip(rows, top, strict=True):
        actual = np.array(row["activations"], np.float32).reshape(expected.shape)
        assert_allclose(actual, expected, atol=2e-6)


@pytest.mark.parametrize("options", OUTPUTS)
def test_tokens_are_stored_with_their_sentence(options: str) -> None:
    output, *layout = options.split()
    result = embed(
        "raw.txt", output, "--layers", "top", "--tokenizer", "moses", *layout
    )
    assert result.exit_code == 0
    rows = records_of(output)
    assert [row["tokens"] for row in rows] == MOSES
    assert [row["sentence"] for row in rows] == LINES
    assert not any("line" in row for row in rows)
    assert_top_layer_of(MOSES, rows)


@pytest.mark.parametrize("options", OUTPUTS)
def test_sentences_that_were_split_have_the_line_of_their_text(options: str) -> None:
    pytest.importorskip("sentencex")
    output, *layout = options.split()
    result = embed(
        "raw.txt",
        output,
        "--layers",
        "top",
        "--split-sentences",
        "--tokenizer",
        "moses",
        *layout,
    )
    assert result.exit_code == 0
    rows = records_of(output)
    assert [row["tokens"] for row in rows] == OF_SENTENCES
    assert [row["sentence"] for row in rows] == SENTENCES
    assert [row["line"] for row in rows] == [1, 1, 3]
    assert_top_layer_of(OF_SENTENCES, rows)


def test_tokens_do_not_disturb_readers_of_allennlps_files() -> None:
    embed("raw.txt", "out.hdf5", "--tokenizer", "moses")
    with h5py.File("out.hdf5") as file:
        assert sorted(file) == ["0", "1", "2", "sentence_to_index"]
        index = json.loads(file["sentence_to_index"][0])
        assert index == {LINES[0]: "0", LINES[2]: "2"}
        assert file["0"].shape == (3, len(MOSES[0]), 32)
        assert json.loads(file["0"].attrs["tokens"]) == MOSES[0]


def test_forgotten_sentences_have_no_tokens() -> None:
    embed("raw.txt", "bare.hdf5", "--tokenizer", "moses", "--forget-sentences")
    with h5py.File("bare.hdf5") as file:
        assert list(file["0"].attrs) == []
    with open_activations("bare.hdf5") as activations:
        assert activations.tokens(0) is None


def test_shards_of_split_sentences_join_into_the_whole() -> None:
    pytest.importorskip("sentencex")

    def embed_raw(output: str, *options: str) -> None:
        embed("raw.txt", output, "--tokenizer", "moses", "--split-sentences", *options)

    embed_raw("1.hdf5", "--shard", "1/2")
    embed_raw("2.hdf5", "--shard", "2/2")
    embed_raw("whole.hdf5")
    with open_activations("1.hdf5", "2.hdf5") as merged:
        found = [record for record, _ in merged.records()]
    with open_activations("whole.hdf5") as whole:
        expected = [record for record, _ in whole.records()]
    assert found == expected


def test_the_language_is_the_models_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    mini = PublishedModel("mini", language_code="fr")
    monkeypatch.setattr("elmo_cli.pretrained.registry.MODELS", (mini,))
    elmo(
        "embed",
        "-",
        "out.jsonl",
        "--model",
        "mini",
        "--tokenizer",
        "moses",
        stdin="L'eau.\n",
    )
    [row] = records_of("out.jsonl")
    assert row["tokens"] == ["L'", "eau", "."]
    ElmoEmbedder().embed_file("raw.txt", "out.hdf5", tokenizer="moses")
    with open_activations("out.hdf5") as activations:
        assert activations.attributes["tokenizer"] == "moses:fr"


def test_a_language_may_be_named_for_a_model_without_one() -> None:
    french = elmo(
        "cosine",
        "eau",
        "L'eau est froide.",
        "De l'eau !",
        "--language",
        "fr",
        "--layers",
        "0",
        "--model",
        TINY,
    )
    assert float(french.stdout) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("start", ["x" * 48, "é" * 24])
def test_a_model_reads_48_bytes_of_a_token(start: str) -> None:
    tokens = [f"{start}a", f"{start}b", f"{start[:-1]}a", f"{start[:-1]}b"]
    Path("long.txt").write_text("\n".join(tokens), encoding="utf-8")
    options = ["--tokenizer", "whitespace"]
    result = elmo("embed", "long.txt", "long.hdf5", "--model", TINY, *options)
    assert result.exit_code == 0
    warning = "2 tokens are longer than the 48 bytes that the model reads. The rest is "
    assert warning in result.stderr
    with open_activations("long.hdf5") as activations:
        longer, same, shorter, other = list(activations)
    np.testing.assert_array_equal(longer, same)
    assert not np.allclose(shorter, other)


def test_word_vectors_split_raw_text() -> None:
    pytest.importorskip("sentencex")

    def average(corpus: str, output: str, *options: str) -> None:
        """Average the vectors of all words of a corpus."""
        result = elmo(
            "word-vectors",
            corpus,
            output,
            "--model",
            TINY,
            "--min-count",
            "1",
            *options,
        )
        assert result.exit_code == 0

    tokenized = "".join(" ".join(tokens) + "\n" for tokens in OF_SENTENCES)
    Path("tokenized.txt").write_text(tokenized)
    average("tokenized.txt", "expected.vec")
    average("raw.txt", "found.vec", "--tokenizer", "moses", "--split-sentences")
    assert Path("found.vec").read_text() == Path("expected.vec").read_text()


def test_a_line_that_is_skipped_is_counted_among_the_sentences() -> None:
    pytest.importorskip("sentencex")
    Path("raw.txt").write_bytes(b"One. Two.\n\xff\nThree.\n")
    result = embed("raw.txt", "out.hdf5", "--split-sentences", "--skip-errors")
    assert "Skipped: raw.txt, line 2, column 1: not valid UTF-8" in result.stderr
    with open_activations("out.hdf5") as activations:
        lines = [record.attributes["line_index"] for record, _ in activations.records()]
        assert lines == [0, 0, 1, 2]
        assert json.loads(activations.attributes["skipped"]).keys() == {"2"}
        assert activations[2].shape == (3, 0, 32)


@pytest.mark.parametrize("pooling", [[], ["--pooling", "max"]])
def test_vectors_may_be_scaled_to_length_1(pooling: list[str]) -> None:
    embed("raw.txt", "plain.hdf5", "--layers", "1,2", *pooling)
    embed("raw.txt", "out.hdf5", "--layers", "1,2", *pooling, "--normalize")
    with (
        open_activations("plain.hdf5") as plain,
        open_activations("out.hdf5") as normalized,
    ):
        assert normalized.attributes["normalize"] is True
        for values, scaled in zip(plain, normalized, strict=True):
            lengths = np.linalg.norm(values, axis=-1, keepdims=True)
            expected = values / np.maximum(lengths, 1e-12)
            assert_allclose(scaled, expected, atol=1e-6)
    rerun = embed("raw.txt", "out.hdf5", "--layers", "1,2", *pooling)
    assert "other options: --normalize" in rerun.stderr
