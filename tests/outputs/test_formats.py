"""Files of other formats than HDF5, and compression."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from commands import TINY, assert_misused, elmo, start_elmo
from hypothesis import given
from hypothesis import strategies as st
from layouts import Array, Corpus, assert_holds, corpora, line_record, open_writer, write
from numpy.testing import assert_array_equal

from elmo_cli import open_activations
from elmo_cli.errors import ElmoError, InputError, OutputError
from elmo_cli.outputs.output_formats import COMPRESSIONS, LAYOUTS

FORMATS = ("jsonl", "npz", "npy", "parquet")


def lines(*texts: str, pooled: bool = False) -> Corpus:
    random = np.random.default_rng(0)
    values = [
        random.normal(size=(2, 3) if pooled else (2, len(text.split()), 3)).astype(np.float32)
        for text in texts
    ]
    pooling = {"pooling": "mean"} if pooled else {}
    return Corpus([line_record(text) for text in texts], values, {"layers": "0,1", **pooling})


def read(path: Path, form: str, corpus: Corpus) -> list[Array]:
    """Read the values of a file as other programs do."""
    names = [record.id or str(number) for number, record in enumerate(corpus.records)]
    if form == "jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        return [np.array(each["activations"], np.float32) for each in rows]
    if form == "npz":
        with np.load(path) as arrays:
            assert sorted(arrays) == sorted(names)
            return [arrays[name] for name in names]
    if form == "npy":
        return list(np.load(path))
    from pyarrow import parquet

    table = parquet.read_table(path)
    if not corpus.records:
        assert len(table) == 0
        return []
    return [np.array(each, np.float32) for each in table["activations"].to_pylist()]


@pytest.mark.parametrize("form", FORMATS)
@given(corpus=corpora(), stops=st.sets(st.integers(0, 12), max_size=1))
def test_every_format_holds_the_values(
    form: str, corpus: Corpus, stops: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / f"out.{form}"
    if form == "npy" and "pooling" not in corpus.attributes:
        with pytest.raises(InputError, match="format npy requires --pooling"):
            write(corpus, path)
        return
    write(corpus, path, stops=stops)
    arrays = read(path, form, corpus)
    assert len(arrays) == len(corpus.values)
    for values, expected in zip(arrays, corpus.values, strict=True):
        assert_array_equal(values.reshape(expected.shape), expected)
        assert values.shape == expected.shape or expected.size == 0  # lists of nothing
    has_ids = form == "npy" and any(record.id for record in corpus.records)
    names = {path.name, f"{path.name}.ids.txt"} if has_ids else {path.name}
    assert {name.name for name in path.parent.iterdir()} == names


def test_json_lines_name_records_and_write_null_for_nan(
    tmp_path: Path,
) -> None:
    corpus = lines('a "b"', "", "東京")
    corpus.values[0][0, 0, :2] = [np.inf, -np.inf]
    corpus.values[0][1, 0, 0] = np.nan
    write(corpus, tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    sentences = [(each["index"], each["sentence"]) for each in rows]
    assert sentences == [(0, 'a "b"'), (1, ""), (2, "東京")]
    assert rows[0]["activations"][0][0][:2] == [None, None]
    assert rows[0]["activations"][1][0][0] is None
    assert rows[1]["activations"] == [[], []]


def test_parquet_has_fixed_width_columns_and_attributes(tmp_path: Path) -> None:
    from pyarrow import parquet

    write(lines("a b", "", "c"), tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["index"].to_pylist() == [0, 1, 2]
    assert table["sentence"].to_pylist() == ["a b", "", "c"]
    assert "fixed_size_list<element: list<element: fixed_size_list<element: float>[3]>>[2]" in str(
        table.schema.field("activations").type
    )
    metadata = parquet.ParquetFile(tmp_path / "out.parquet").metadata.metadata
    assert json.loads(metadata[b"elmo"])["layers"] == "0,1"
    assert json.loads(metadata[b"elmo"])["records"] == "3"


def test_many_rows_of_parquet_are_written_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet

    monkeypatch.setattr("elmo_cli.outputs.vector_rows.ROW_GROUP_BYTES", 20_000)
    corpus = lines(*(f"line {i}" for i in range(50)))
    write(corpus, tmp_path / "out.parquet")
    assert parquet.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3
    for values, expected in zip(
        read(tmp_path / "out.parquet", "parquet", corpus), corpus.values, strict=True
    ):
        assert_array_equal(values, expected)


@pytest.mark.parametrize("form", ["npz", "npy", "parquet", "jsonl"])
def test_a_killed_run_starts_over_and_writes_an_equal_file(form: str, tmp_path: Path) -> None:
    corpus = lines("a b", "c", pooled=True)
    child = os.fork()
    if child == 0:
        with open_writer(tmp_path / f"out.{form}", corpus.attributes) as writer:
            writer.write(corpus.records[1], corpus.values[1])
            writer.checkpoint({"place": [1, ""]})
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (tmp_path / f"out.{form}.partial").exists()
    for name in ("out", "other"):
        write(corpus, tmp_path / f"{name}.{form}")
    assert_array_equal(read(tmp_path / f"out.{form}", form, corpus)[0], corpus.values[0])
    contents = [path.read_bytes() for path in tmp_path.iterdir()]
    assert (len(contents), contents[0]) == (2, contents[1])


def test_an_unfinished_run_of_hdf5_is_not_lost_to_another_format(tmp_path: Path) -> None:
    corpus = lines("a b", "c")
    with open_writer(tmp_path / "out", corpus.attributes) as writer:
        writer.write(corpus.records[0], corpus.values[0])
        writer.checkpoint({"place": [1, ""]})
    with pytest.raises(
        OutputError,
        match=r"is an unfinished run with other options: --format \(hdf5, not npz",
    ):
        open_writer(tmp_path / "out", corpus.attributes, file_format="npz")
    open_writer(tmp_path / "out", corpus.attributes, file_format="npz", overwrite=True).__exit__(
        None
    )
    assert list(tmp_path.iterdir()) == []


# Compression.


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_compressed_file_is_smaller_and_holds_the_same(
    layout: str, compression: str, tmp_path: Path
) -> None:
    values = [np.ones((3, n, 64), np.float32) for n in (200, 0, 500)]
    records = [line_record(" ".join(["a"] * len(value[0]))) for value in values]
    corpus = Corpus(records, values, {"layers": "all"})
    write(corpus, tmp_path / "plain", layout)
    write(corpus, tmp_path / "small", layout, compression=compression)
    assert_holds(tmp_path / "small", corpus)
    assert (tmp_path / "small").stat().st_size < (tmp_path / "plain").stat().st_size / 5
    with h5py.File(tmp_path / "small") as file:
        assert file["0" if layout == "allennlp" else "activations"].shuffle


def test_packages_that_are_not_installed_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lines("a"), tmp_path / "zstd", "packed", compression="zstd")
    for package in ("hdf5plugin", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    for act in (
        lambda: write(lines("a"), tmp_path / "out", compression="zstd"),
        lambda: open_activations(tmp_path / "zstd"),
    ):
        with pytest.raises(ElmoError, match=r'with pip install .*\[zstd\]"\.$'):
            act()
    with pytest.raises(ElmoError, match=r'with pip install .*\[parquet\]"\.$'):
        write(lines("a"), tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["zstd"]


# The commands.


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("The cat sat\n\nbank\n", encoding="utf-8")
    return Path("text")


def test_lines_go_to_standard_output(text: Path) -> None:
    options = ("--model", TINY, "--pooling", "mean", "--layers", "top")
    elmo("embed", text, "out.jsonl", *options)
    result = elmo("embed", "-", "-", *options, "--format", "jsonl", stdin=text.read_bytes())
    assert result.exit_code == 0
    assert result.stdout == Path("out.jsonl").read_text(encoding="utf-8")
    assert result.stderr.splitlines()[-1].startswith("Wrote to standard output: 3 sentences, ")


def test_a_reader_that_goes_away_ends_the_run_in_silence(text: Path) -> None:
    text.write_text("The cat sat\n" * 500, encoding="utf-8")
    options = ("--model", TINY, "--pooling", "mean", "--format", "jsonl", "-q")
    with start_elmo("embed", text, "-", *options, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert json.loads(run.stdout.readline())["index"] == 0
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 1


def test_a_suffix_of_no_format_gives_hdf5_and_a_warning(text: Path) -> None:
    warning = "Warning: out.dat will be HDF5. Choose another format with --format.\n"
    result = elmo("embed", text, "out.dat", "--model", TINY)
    assert (result.exit_code, warning in result.stderr) == (0, True)
    assert h5py.is_hdf5("out.dat")
    assert "will be HDF5" not in elmo("embed", text, "v", "--model", TINY).stderr
    options = ("--format", "jsonl")
    assert "will be HDF5" not in elmo("embed", text, "out.txt", "--model", TINY, *options).stderr


@pytest.mark.parametrize("suffix", [".csv", ".TSV", ".txt", ".json"])
def test_a_name_of_text_needs_a_format(suffix: str, text: Path) -> None:
    message = (
        f"out{suffix}: vectors are not written as {suffix.lower()}. Choose .hdf5, .jsonl, .npz "
        "or .parquet, or name a format with --format."
    )
    assert_misused(elmo("embed", text, f"out{suffix}"), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-",), "format hdf5 cannot go to standard output. Use --format jsonl."),
        (("out.npy",), "format npy requires --pooling: one vector per line."),
        (("o.npz", "--layout", "packed"), "--layout requires HDF5, found the output format npz"),
        (
            ("o.jsonl", "--compression", "gzip"),
            "--compression requires HDF5, found the output format jsonl",
        ),
        (
            ("out.hdf5", "--layout", "packed", "--use-sentence-keys"),
            "--use-sentence-keys requires HDF5 of --layout allennlp, found --layout packed",
        ),
        (
            ("out.jsonl", "--use-sentence-keys"),
            "--use-sentence-keys requires HDF5 of --layout allennlp, found the output format jsonl",
        ),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    arguments: tuple[str, ...], message: str, text: Path
) -> None:
    assert_misused(elmo("embed", text, *arguments), message)
    assert [path.name for path in Path().iterdir()] == ["text"]
