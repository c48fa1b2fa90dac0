"""`elmo embed`: the files of AllenNLP and what it prints, layers and pooling, raw text."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose

from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.cli.progress import progress_bar, show_summary
from elmo_cli.embed_file import Summary
from elmo_cli.pretrained.registry import PublishedModel
from tests.support.commands import (
    LOADED,
    TINY,
    Terminal,
    assert_fails,
    elmo,
    start_elmo,
)
from tests.support.golden import Golden
from tests.support.table_files import read_rows

TINY_MODEL = ("--model", str(TINY))
MIX = ("--mix", "0.2,-0.3,0.5", "--gamma", "1.2")
RAW = "The bank, I'd say. It's \u201copen\u201d!\n\nA bank.\n"
LINES = RAW.splitlines()
MOSES = [
    line.split()
    for line in ("The bank , I 'd say . It 's \" open \" !", "", "A bank .")
]
SENTENCES = ["The bank, I'd say.", "It's \u201copen\u201d!", "A bank."]
OF_SENTENCES = [MOSES[0][:7], MOSES[0][7:], MOSES[2]]
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
    Path("text").write_text("The cat sat\n\nbank\nThe cat sat on the mat\n")
    Path("raw.txt").write_text(RAW, encoding="utf-8")


def datasets(path: str | Path) -> dict[str, Any]:
    with h5py.File(path, "r") as file:
        return {name: file[name][()] for name in file}


@pytest.mark.parametrize("layers", ["all", "top", "average"])
def test_the_files_of_allennlp_come_out_again(golden: Golden, layers: str) -> None:
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
    assert (result.exit_code, "--batch-size requires" in result.stderr) == (0, False)
    actual = datasets("out.hdf5")
    expected = datasets(golden.folder / f"allennlp-{layers}.hdf5")
    assert list(actual) == list(expected)
    (index,), (expected_index,) = (
        each.pop("sentence_to_index") for each in (actual, expected)
    )
    assert json.loads(index) == json.loads(expected_index)
    for name, values in expected.items():
        assert (actual[name].shape, actual[name].dtype) == (values.shape, np.float32)
        assert_allclose(
            actual[name], values, atol=golden.tolerance(int(name)), rtol=1e-5
        )


def test_an_old_command_line_works_as_it_is() -> None:
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
    assert result.stderr.splitlines()[:3] == [
        "Warning: --vocab-path has no effect. It is accepted for old scripts.",
        "Warning: --include-package has no effect. It is accepted for old scripts.",
        f"Model: {TINY / 'weights.hdf5'}",
    ]
    shapes = [values.shape for values in datasets("out.hdf5").values()]
    assert shapes == [(3, 32), (0, 32), (1, 32), (6, 32)]


@pytest.mark.parametrize("flag", ["--all", "--top", "--average"])
def test_an_old_flag_writes_hdf5_whatever_the_name(flag: str) -> None:
    elmo("embed", "text", "new.hdf5", "--layers", flag.removeprefix("--"), *TINY_MODEL)
    for name in ("out.txt", "out.json", "out.npz", "out.parquet", "out", "out.h5"):
        result = elmo("embed", "text", name, flag, *TINY_MODEL)
        warning = (
            f"Warning: {name} will be HDF5. Choose another format with --format.\n"
        )
        assert (warning in result.stderr) == (name not in ("out", "out.h5"))
        assert Path(name).read_bytes() == Path("new.hdf5").read_bytes()
    chosen = elmo("embed", "text", "lines", flag, "--format", "jsonl", *TINY_MODEL)
    assert "will be HDF5" not in chosen.stderr
    assert len(Path("lines").read_text().splitlines()) == 4


def test_model_and_outcome_are_logged_in_one_line_each() -> None:
    result = elmo("embed", "text", "out.hdf5", *TINY_MODEL)
    assert (result.exit_code, result.stdout) == (0, "")
    model, size, outcome = result.stderr.splitlines()
    assert model + "\n" == LOADED
    assert re.fullmatch(
        r"Output: about 5\.4 kB to be written, [\d.,]+ [kMGT]B free", size
    )
    assert outcome.startswith("Wrote out.hdf5: 4 sentences, 10 tokens, ")
    assert outcome.endswith(" tokens/s")


def test_the_bundled_model_is_the_default_and_is_logged() -> None:
    result = elmo("embed", "text", "out.hdf5")
    model = "Model: mini (bundled, small; the published model is --model original)\n"
    assert result.stderr.startswith(model)
    with h5py.File("out.hdf5", "r") as file:
        assert [file[name].shape for name in "0123"] == [
            (3, n, 1024) for n in (3, 0, 1, 6)
        ]
        assert file.attrs["model"] == "mini"


def test_options_reach_the_file() -> None:
    result = elmo(
        "embed",
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
        *TINY_MODEL,
    )
    assert result.exit_code == 0
    chosen = {
        "model": str(TINY),
        "layers": "0,2",
        "state": "warm",
        "precision": "bfloat16",
    }
    with h5py.File("out.hdf5", "r") as file:
        assert file["0"].dtype == np.float16
        assert dict(file.attrs).items() >= chosen.items()


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_a_token_and_a_line_may_be_very_long(layout: str) -> None:
    token = "x" * 1_000_000
    Path("long").write_text(
        f"the cat\n{token}\n{'a ' * 1000}\nsat {token[:60]}\n{token[:60]}\n"
    )
    assert (
        elmo("embed", "long", "out", "--model", TINY, "--layout", layout).exit_code == 0
    )
    with open_activations("out") as activations:
        assert [values.shape[1] for values in activations] == [2, 1, 1000, 2, 1]
        assert activations.number_of(token) == 1
        # The model reads the first 50 bytes of a token.
        assert_allclose(activations[1], activations[4], atol=1e-6)


def test_progress_as_lines_needs_no_terminal() -> None:
    result = elmo("embed", "text", "out.hdf5", "--file-friendly-logging", *TINY_MODEL)
    assert "\r" not in result.stderr
    _, first, *_, last, _ = result.stderr.splitlines()
    assert first.startswith("0%|")
    assert re.fullmatch(r"100%\|.* tokens/s\]", last)


def test_progress_shows_on_a_terminal_unless_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("1000-bytes").write_bytes(b"a" * 1000)
    for stderr, stdin, source, verbosity, shows in (
        (Terminal(), Terminal(), "1000-bytes", 0, True),
        (Terminal(), Terminal(), "1000-bytes", -1, False),
        (io.StringIO(), Terminal(), "1000-bytes", 0, False),
        (Terminal(), io.StringIO(), "-", 0, True),
        (Terminal(), Terminal(), "-", 0, False),  # It would stand before what is typed.
    ):
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setattr(sys, "stdin", stdin)
        with click.Context(click.Command("elmo")).scope() as context:
            context.meta["verbosity"] = verbosity
            with progress_bar(source=source) as bar:
                show_summary(bar, Summary(1, 70, 400, 0.1))
                show_summary(bar, Summary(2, 90, 1000, 0.2))
        assert bool(stderr.getvalue()) == shows
        if shows and source != "-":  # the share, the bytes, the time left and the speed
            assert re.search(r"100%.* 1\.00k/1\.00k .*<.* tokens/s", stderr.getvalue())


def test_an_output_that_cannot_be_written_is_an_error() -> None:
    long = "x" * 300
    result = elmo("embed", "text", long, *TINY_MODEL)
    assert_fails(
        result, f"{long}: cannot write the output: File name too long", loads=True
    )
    assert sorted(os.listdir()) == ["raw.txt", "text"]


def test_ctrl_c_explains_what_a_rerun_does() -> None:
    process = start_elmo("embed", "-", "out.hdf5", *TINY_MODEL, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"The cat sat on the mat\n" * 5)
    process.stdin.flush()
    while not Path("out.hdf5.partial").exists():  # until the output is open
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)  # The pipe stays open.
    _, errors = process.communicate()
    assert (process.returncode, errors.decode()) == (
        130,
        f"{LOADED}Stopping after the current batch. Press Ctrl-C again to stop immediately.\n"
        "Stopped after line 0. The same command starts over.\n",
    )
    assert not [*Path().glob("out*")]


# Layers and pooling


def embed(*options: str) -> tuple[list[Any], dict[str, str]]:
    """Return the datasets and attributes that `elmo embed` writes with these options."""
    result = elmo("embed", "text", "out.hdf5", *options, *TINY_MODEL)
    assert "\nWrote out.hdf5: 4 sentences, 10 tokens, " in result.stderr, result.stderr
    with h5py.File("out.hdf5") as file:
        return [file[str(line)][()] for line in range(4)], dict(file.attrs)


def test_layers_have_the_names_of_tf_hubs_outputs(tiny: ElmoEmbedder) -> None:
    layers = tiny.embed_sentence(["The", "cat", "sat"])
    for number, (name, width) in enumerate(
        (("word_emb", 16), ("lstm1", 32), ("lstm2", 32))
    ):
        datasets, attributes = embed("--layers", name, "--overwrite")
        assert_allclose(datasets[0], layers[number, :, :width], atol=1e-5)
        assert attributes["layers"] == name
        assert not {"mix", "gamma", "pooling"} & set(attributes)


def test_a_trained_mix_is_applied(tiny: ElmoEmbedder) -> None:
    layers = tiny.embed_sentence(["The", "cat", "sat"])
    weights = np.exp([0.2, -0.3, 0.5]) / np.exp([0.2, -0.3, 0.5]).sum()
    datasets, attributes = embed(*MIX)
    assert [values.shape for values in datasets] == [(3, 32), (0, 32), (1, 32), (6, 32)]
    assert_allclose(
        datasets[0], 1.2 * np.einsum("l,ltw->tw", weights, layers), atol=1e-5
    )
    assert (
        attributes.items() >= {"layers": "mix", "mix": MIX[1], "gamma": "1.2"}.items()
    )
    assert "pooling" not in attributes
    # A mix may start with a minus, and gamma is 1.
    datasets, attributes = embed("--mix", "-1e3,-1e3, -1e3", "--overwrite")
    averages, _ = embed("--average", "--overwrite")
    assert_allclose(datasets[0], averages[0], atol=1e-5)
    assert attributes["gamma"] == "1.0"


@pytest.mark.parametrize(
    "choice", [(), ("--layers", "0,2"), ("--layers", "word_emb"), MIX]
)
def test_a_sentence_may_be_one_vector(choice: tuple[str, ...]) -> None:
    tokens, _ = embed(*choice)
    tokens[1] = np.zeros_like(
        tokens[2]
    )  # The vector of a sentence without tokens is zero.
    for pooling, expected in {
        "mean": [values.mean(axis=-2) for values in tokens],
        "max": [values.max(axis=-2) for values in tokens],
        "first": [values[..., 0, :] for values in tokens],
        "last": [values[..., -1, :] for values in tokens],
    }.items():
        pooled, attributes = embed(*choice, "--pooling", pooling, "--overwrite")
        assert attributes["pooling"] == pooling
        for actual, vector in zip(pooled, expected, strict=True):
            assert actual.shape == vector.shape
            assert_allclose(actual, vector, atol=1e-5)


# Raw text


def records_of(path: str) -> list[dict[str, Any]]:
    """Return the records of an output in the form of JSON lines, with their values."""
    if path.endswith((".jsonl", ".parquet")):
        return read_rows(path)
    if path.endswith(".npz"):
        with np.load(path) as file:
            rows = [
                json.loads(line) for line in file["records.jsonl"].decode().splitlines()
            ]
            return [{**row, "activations": file[str(row["index"])]} for row in rows]
    with open_activations(path) as activations:
        return [
            {"sentence": record.text, "tokens": record.tokens, "activations": values}
            | {name: int(str(value)) + 1 for name, value in record.attributes.items()}
            for record, values in activations.records()
        ]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    ("split", "sentences", "tokens"),
    [((), LINES, MOSES), (("--split-sentences",), SENTENCES, OF_SENTENCES)],
)
def test_the_embedded_tokens_are_stored_next_to_the_sentence(
    output: str, split: tuple[str, ...], sentences: list[str], tokens: list[list[str]]
) -> None:
    pytest.importorskip("sentencex")
    arguments = (
        "embed",
        "raw.txt",
        *output.split(),
        *TINY_MODEL,
        "--layers",
        "top",
        *split,
    )
    assert elmo(*arguments, "--tokenizer", "moses").exit_code == 0
    records = records_of(output.split()[0])
    assert [row["tokens"] for row in records] == tokens
    assert [row["sentence"] for row in records] == sentences
    assert [row.get("line", 3) for row in records] == (
        [1, 1, 3] if split else [3, 3, 3]
    )
    top = ElmoEmbedder(model=TINY).embed_sentences(tokens, layers="top")
    for row, expected in zip(records, top, strict=True):
        actual = np.array(row["activations"], np.float32).reshape(expected.shape)
        assert_allclose(actual, expected, atol=2e-6)


def test_a_reader_of_allennlps_files_sees_what_it_always_saw() -> None:
    elmo("embed", "raw.txt", "out.hdf5", *TINY_MODEL, "--tokenizer", "moses")
    with h5py.File("out.hdf5") as file:
        assert sorted(file) == ["0", "1", "2", "sentence_to_index"]
        assert json.loads(file["sentence_to_index"][0]) == {
            LINES[0]: "0",
            LINES[2]: "2",
        }
        assert file["0"].shape == (3, len(MOSES[0]), 32)
        assert json.loads(file["0"].attrs["tokens"]) == MOSES[0]
    elmo(
        "embed",
        "raw.txt",
        "bare.hdf5",
        *TINY_MODEL,
        "--tokenizer",
        "moses",
        "--forget-sentences",
    )
    with h5py.File("bare.hdf5") as file:
        assert list(file["0"].attrs) == []
    with open_activations("bare.hdf5") as activations:
        assert activations.tokens(0) is None


def test_shards_of_sentences_are_read_as_the_whole_file() -> None:
    pytest.importorskip("sentencex")
    cut = ("--tokenizer", "moses", "--split-sentences")
    for shard in "12":
        elmo(
            "embed",
            "raw.txt",
            f"{shard}.hdf5",
            *TINY_MODEL,
            *cut,
            "--shard",
            f"{shard}/2",
        )
    elmo("embed", "raw.txt", "whole.hdf5", *TINY_MODEL, *cut)
    with (
        open_activations("1.hdf5", "2.hdf5") as merged,
        open_activations("whole.hdf5") as whole,
    ):
        found, expected = (
            [record for record, _ in each.records()] for each in (merged, whole)
        )
    assert found == expected


def test_the_language_defaults_to_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
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
    # It can be set if the model has none.
    sentences = ("L'eau est froide.", "De l'eau !")
    french = elmo(
        "cosine", "eau", *sentences, "--language", "fr", "--layer", "0", *TINY_MODEL
    )
    assert float(french.stdout) == pytest.approx(1, abs=1e-6)


def test_word_vectors_split_raw_text() -> None:
    pytest.importorskip("sentencex")
    Path("tokenized.txt").write_text(
        "".join(" ".join(each) + "\n" for each in OF_SENTENCES)
    )
    average = ("word-vectors", *TINY_MODEL, "--min-count", "1", "--corpus")
    assert elmo(*average, "tokenized.txt", "expected.vec").exit_code == 0
    cut = ("--tokenizer", "moses", "--split-sentences")
    assert elmo(*average, "raw.txt", "found.vec", *cut).exit_code == 0
    assert Path("found.vec").read_text() == Path("expected.vec").read_text()


def test_a_line_that_is_skipped_is_counted_among_the_sentences() -> None:
    pytest.importorskip("sentencex")
    Path("raw.txt").write_bytes(b"One. Two.\n\xff\nThree.\n")
    options = ("--split-sentences", "--skip-errors", *TINY_MODEL)
    result = elmo("embed", "raw.txt", "out.hdf5", *options)
    assert "Skipped: raw.txt, line 2, column 1: not valid UTF-8" in result.stderr
    with open_activations("out.hdf5") as activations:
        lines = [record.attributes["line"] for record, _ in activations.records()]
        assert lines == [0, 0, 1, 2]
        assert json.loads(activations.attributes["skipped"]).keys() == {"2"}
        assert activations[2].shape == (3, 0, 32)


@pytest.mark.parametrize("pooling", [(), ("--pooling", "max")])
def test_vectors_may_be_scaled_to_length_one(pooling: tuple[str, ...]) -> None:
    arguments = ("embed", "raw.txt", *TINY_MODEL, "--layers", "1,2", *pooling)
    elmo(*arguments, "plain.hdf5")
    elmo(*arguments, "out.hdf5", "--normalize")
    with (
        open_activations("plain.hdf5") as plain,
        open_activations("out.hdf5") as normalized,
    ):
        assert normalized.attributes["normalize"] is True
        for values, scaled in zip(plain, normalized, strict=True):
            lengths = np.linalg.norm(values, axis=-1, keepdims=True)
            assert_allclose(scaled, values / np.maximum(lengths, 1e-12), atol=1e-6)
    assert "other options: --normalize" in elmo(*arguments, "out.hdf5").stderr
