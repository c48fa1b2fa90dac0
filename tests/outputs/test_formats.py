"""Files of other formats than HDF5, and compression."""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from pyarrow import parquet

from elmo_cli import ElmoEmbedder, open_activations, write_occurrences
from elmo_cli.arrays import AnyArray
from elmo_cli.errors.exceptions import ElmoError, InputError, OutputError
from elmo_cli.options.output import LAYOUTS, OUTPUT_COMPRESSIONS
from elmo_cli.outputs.saved_output import ResumePoint
from elmo_cli.records.progress import Progress
from tests.support.accept import CheckExample
from tests.support.commands import TINY, elmo, start_elmo
from tests.support.layouts import (
    Corpus,
    assert_holds,
    corpora,
    line_record,
    lines,
    open_writer,
    write,
)
from tests.support.table_files import read_rows
from tests.support.transcripts import Example, each_example

FORMATS = ("jsonl", "npz", "npy", "parquet")


def read(path: Path, names: list[str]) -> list[AnyArray]:
    """Read the values of records as other programs do."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            assert sorted(arrays) == sorted(names)
            return [arrays[name] for name in names]
    if path.suffix == ".npy":
        return list(np.load(path))
    return [np.array(row["activations"], np.float32) for row in read_rows(path)]


@pytest.mark.parametrize("form", FORMATS)
@given(corpus=corpora(), stops=st.sets(st.integers(0, 12), max_size=1))
def test_every_format_holds_the_values(
    form: str, corpus: Corpus, stops: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / f"out.{form}"
    if form == "npy" and "pooling" not in corpus.attributes:
        with pytest.raises(InputError, match="npy holds one vector per sentence"):
            write(corpus, path)
        return
    write(corpus, path, stops=stops)
    names = [record.id or str(index) for index, record in enumerate(corpus.records)]
    arrays = read(path, names)
    for values, expected in zip(arrays, corpus.values, strict=True):
        assert_array_equal(values.reshape(expected.shape), expected)
        assert values.shape == expected.shape or expected.size == 0  # lists of nothing
    files = {path.name}
    if form == "npy" and any(record.id for record in corpus.records):
        files.add(f"{path.name}.ids.txt")
    assert {file.name for file in path.parent.iterdir()} == files


def test_an_unfinished_run_of_hdf5_is_not_lost_to_another_format(
    tmp_path: Path,
) -> None:
    corpus = lines("a b", "c")
    with open_writer(tmp_path / "out", corpus.attributes) as writer:
        writer.write(corpus.records[0], corpus.values[0])
        writer.checkpoint(ResumePoint(Progress(1, "")))
    message = r"other options: file_format \(it has hdf5, this run has npz"
    with pytest.raises(OutputError, match=message):
        open_writer(tmp_path / "out", corpus.attributes, file_format="npz")
    writer = open_writer(
        tmp_path / "out", corpus.attributes, file_format="npz", overwrite=True
    )
    writer.__exit__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compression", OUTPUT_COMPRESSIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_compression_keeps_values(
    layout: str, compression: str, tmp_path: Path
) -> None:
    lengths = [200, 0, 500]
    values = [np.ones((3, length, 64), np.float32) for length in lengths]
    records = [line_record("a " * length) for length in lengths]
    corpus = Corpus(records, values, {"layers": "all"})
    plain = tmp_path / "plain"
    small = tmp_path / "small"
    write(corpus, plain, layout)
    write(corpus, small, layout, compression=compression)
    assert_holds(small, corpus)
    assert small.stat().st_size < plain.stat().st_size / 5
    with h5py.File(small) as file:
        assert file["0" if layout == "allennlp" else "activations"].shuffle


def test_missing_packages_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lines("a"), tmp_path / "zstd", "packed", compression="zstd")
    for package in ("hdf5plugin", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    message = r'with pip install .*\[zstd\]"\.$'
    with pytest.raises(ElmoError, match=message):
        write(lines("a"), tmp_path / "out", compression="zstd")
    with pytest.raises(ElmoError, match=message):
        open_activations(tmp_path / "zstd")
    with pytest.raises(ElmoError, match=r'with pip install .*\[parquet\]"\.$'):
        write(lines("a"), tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["zstd"]


JSON_LINES = ("--model", TINY, "--pooling", "mean", "--layers", "top")
"""Options that JSON lines can hold: one vector per sentence."""


@pytest.fixture
def text(folder: Path) -> Path:
    Path("text").write_text("The cat sat\n\nbank\n")
    return Path("text")


def test_a_reader_that_goes_away_ends_the_run_in_silence(text: Path) -> None:
    text.write_text("The cat sat\n" * 500)
    run = start_elmo(
        "embed",
        text,
        "-",
        "--format",
        "jsonl",
        "-q",
        *JSON_LINES,
        stdout=subprocess.PIPE,
    )
    with run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert json.loads(run.stdout.readline())["index"] == 0
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 1


def test_json_lines_name_records_and_write_null_for_nan(tmp_path: Path) -> None:
    corpus = lines('a "b"', "", "東京")
    corpus.values[0][:, 0, 0] = [np.inf, np.nan]
    write(corpus, tmp_path / "out.jsonl")
    rows = read_rows(tmp_path / "out.jsonl")
    sentences = [(row["index"], row["sentence"]) for row in rows]
    assert sentences == [(0, 'a "b"'), (1, ""), (2, "東京")]
    assert [layer[0][0] for layer in rows[0]["activations"]] == [None, None]
    assert rows[1]["activations"] == [[], []]


def test_parquet_has_fixed_width_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmo_cli.outputs.parquet_writer.ROW_GROUP_BYTES", 20_000)
    corpus = lines("", *(f"line {i}" for i in range(50)))
    write(corpus, tmp_path / "out.parquet")
    file = parquet.ParquetFile(tmp_path / "out.parquet")
    assert file.num_row_groups == 3
    assert file.read()["index"].to_pylist() == list(range(51))
    kind = (
        "fixed_size_list<element: list<element: fixed_size_list<element: float>[3]>>[2]"
    )
    assert str(file.schema_arrow.field("activations").type) == kind
    metadata = json.loads(file.metadata.metadata[b"elmo"])
    assert metadata["layers"] == "0,1"
    assert metadata["records"] == "51"


def test_json_lines_go_to_standard_output(text: Path) -> None:
    elmo("embed", text, "out.jsonl", *JSON_LINES)
    content = text.read_bytes()
    result = elmo("embed", "-", "-", *JSON_LINES, "--format", "jsonl", stdin=content)
    assert result.exit_code == 0
    assert result.stdout == Path("out.jsonl").read_text(encoding="utf-8")
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Wrote to standard output: 3 sentences, ")


def test_an_unknown_suffix_gives_hdf5_and_a_warning(
    text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = elmo("embed", text, "out.dat", "--model", TINY)
    assert result.exit_code == 0
    warning = "out.dat will be HDF5. Choose another format with file_format."
    assert warning in caplog.messages
    assert h5py.is_hdf5("out.dat")
    Path("words.txt").write_text("cat\n")
    words = ["--words", "words.txt"]
    result = elmo("occurrences", text, "bank.foo", *words, "--model", TINY)
    assert result.exit_code == 0
    warning = "bank.foo will be HDF5. Choose another format with file_format."
    assert warning in caplog.messages
    assert h5py.is_hdf5("bank.foo")


def test_python_warns_of_an_unknown_suffix_too(
    text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = ElmoEmbedder(model=TINY)
    embedder.embed_file(text, "out.foo")
    warning = "out.foo will be HDF5. Choose another format with file_format."
    assert warning in caplog.messages
    caplog.clear()
    embedder.embed_file(text, "out.txt", file_format="hdf5")
    embedder.embed_file(text, "out")
    assert not [each for each in caplog.messages if "will be HDF5" in each]
    write_occurrences(embedder, text, "bank.foo", ["sat"])
    warning = "bank.foo will be HDF5. Name a file with .parquet or .hdf5."
    assert warning in caplog.messages
    caplog.clear()
    write_occurrences(embedder, text, "bank", ["sat"])
    assert not [each for each in caplog.messages if "will be HDF5" in each]


@pytest.mark.parametrize("options", ["v", "v.txt --format jsonl"])
def test_no_suffix_and_a_named_format_give_no_warning(
    options: str, text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = elmo("embed", text, *options.split(), "--model", TINY)
    assert result.exit_code == 0
    assert "will be HDF5" not in caplog.text
    if options == "v":
        assert h5py.is_hdf5("v")
    else:
        assert not h5py.is_hdf5("v.txt")


@each_example(__file__)
def test_an_error_has_this_text(
    example: Example,
    check_example: CheckExample,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_MODEL", str(TINY))
    check_example(example)
