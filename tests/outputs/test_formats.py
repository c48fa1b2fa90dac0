"""Files of other formats, conversions between any two, and compression."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from commands import TINY, assert_fails, assert_misused, elmo, start_elmo
from conftest import GOLDEN
from hypothesis import given
from hypothesis import strategies as st
from layouts import Array, Corpus, assert_holds, corpora, write
from numpy.testing import assert_array_equal

from elmo_cli import open_activations
from elmo_cli.errors import ElmoError, InputError
from elmo_cli.outputs.compression import COMPRESSIONS
from elmo_cli.outputs.convert_activations import convert_activations
from elmo_cli.outputs.form import LAYOUTS
from elmo_cli.text.lines import line_record

FORMATS = ("jsonl", "tsv", "npz", "npy", "safetensors", "parquet")


def lines(*texts: str, pooled: bool = False) -> Corpus:
    random = np.random.default_rng(0)
    values = [
        random.normal(size=(2, 3) if pooled else (2, len(text.split()), 3)).astype(np.float32)
        for text in texts
    ]
    pooling = {"pooling": "mean"} if pooled else {}
    return Corpus([line_record(text) for text in texts], values, {"layers": "0,1", **pooling})


def read(path: Path, form: str, corpus: Corpus) -> list[Array]:
    """The values of a file as other programs read them."""
    names = [record.key or str(number) for number, record in enumerate(corpus.records)]
    if form == "jsonl":
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        return [np.array(each["activations"], np.float32) for each in found]
    if form == "npz":
        with np.load(path) as arrays:
            assert sorted(arrays) == sorted(names)
            return [arrays[name] for name in names]
    if form == "npy":
        return list(np.load(path))
    if form == "safetensors":
        from safetensors.numpy import load_file

        tensors = load_file(path)
        assert sorted(tensors) == sorted(names)
        return [tensors[name] for name in names]
    from pyarrow import parquet

    table = parquet.read_table(path)
    if not corpus.records:
        assert len(table) == 0
        return []
    return [np.array(each, np.float32) for each in table["activations"].to_pylist()]


# Any layout to any layout, and to every format.


@given(corpus=corpora(), first=st.sampled_from(LAYOUTS), second=st.sampled_from(LAYOUTS))
def test_any_layout_to_any_layout_keeps_everything(
    corpus: Corpus, first: str, second: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("files")
    write(corpus, folder / "first", first)
    convert_activations(folder / "first", folder / "second", layout=second)
    keyed = corpus.attributes["format"] == "fasta"
    assert_holds(folder / "second", corpus, in_order=not keyed or first == second == "packed")
    with open_activations(folder / "second") as activations:
        assert activations.layout == second
        kept = {name: activations.attributes[name] for name in corpus.attributes}
        assert kept == corpus.attributes
    # And back again: the file of a run over the same lines.
    convert_activations(folder / "second", folder / "third", layout=first)
    assert_holds(folder / "third", corpus, in_order=not keyed)


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "tsv"])
@given(corpus=corpora(), stops=st.sets(st.integers(0, 12), max_size=1))
def test_every_format_holds_the_values(
    form: str, corpus: Corpus, stops: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / f"out.{form}"
    if form == "npy" and "pooling" not in corpus.attributes:
        with pytest.raises(InputError, match="one array of one vector a line, of `elmo embed"):
            write(corpus, path)
        return
    write(corpus, path, stops=stops)
    found = read(path, form, corpus)
    assert len(found) == len(corpus.values)
    for values, expected in zip(found, corpus.values, strict=True):
        assert_array_equal(values.reshape(expected.shape), expected)
        assert values.shape == expected.shape or expected.size == 0  # lists of nothing
    assert [name.name for name in path.parent.iterdir()] == [path.name]


@given(corpus=corpora(keyed=False), stops=st.sets(st.integers(0, 12), max_size=1))
def test_rows_of_text_hold_the_values(
    corpus: Corpus, stops: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("file") / "out.tsv"
    write(corpus, path, stops=stops)
    text = path.read_text(encoding="utf-8")
    rows = [row.split("\t") for row in text.split("\n")[1:-1]]
    pooled = "pooling" in corpus.attributes
    found = iter(rows)
    for number, (record, values) in enumerate(zip(*corpus[:2], strict=True)):
        n_layers = 1 if values.ndim == (1 if pooled else 2) else len(values)
        width = values.shape[-1]
        by_token = values.reshape(n_layers, -1, width).swapaxes(0, 1)
        for position, layers in enumerate(by_token):
            for layer, expected in enumerate(layers):
                row = next(found)
                head, numbers = row[:-width], [np.float32(number) for number in row[-width:]]
                assert_array_equal(numbers, expected)
                sentence = [" ".join(record.tokens)] if pooled else []
                token = [] if pooled else [str(position), record.tokens[position]]
                assert head[: 1 + len(sentence + token)] == [str(number), *sentence, *token]
                assert (head[-1] == str(layer)) or n_layers == 1
    assert next(found, None) is None


def test_json_lines_say_what_each_record_is(tmp_path: Path) -> None:
    write(lines('a "b"', "", "東京"), tmp_path / "out.jsonl")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(each["number"], each["sentence"]) for each in found] == [
        (0, 'a "b"'),
        (1, ""),
        (2, "東京"),
    ]
    assert found[1]["activations"] == [[], []]


def test_what_is_no_number_is_null_in_json(tmp_path: Path) -> None:
    corpus = lines("a")
    corpus.values[0][0, 0, :2] = [np.inf, -np.inf]
    corpus.values[0][1, 0, 0] = np.nan
    write(corpus, tmp_path / "out.jsonl")
    found = json.loads((tmp_path / "out.jsonl").read_text())["activations"]
    assert found[0][0][:2] == [None, None]
    assert found[1][0][0] is None


def test_rows_have_names(tmp_path: Path) -> None:
    write(lines("a b", "c"), tmp_path / "out.tsv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.tsv").read_text()), delimiter="\t"))
    assert list(rows[0]) == ["number", "position", "token", "layer", "0", "1", "2"]
    assert [(row["number"], row["token"], row["layer"]) for row in rows] == [
        *(("0", "a", "0"), ("0", "a", "1"), ("0", "b", "0"), ("0", "b", "1")),
        *(("1", "c", "0"), ("1", "c", "1")),
    ]
    write(lines("a\tb", "c", pooled=True), tmp_path / "pooled.tsv", forget_sentences=True)
    assert (
        (tmp_path / "pooled.tsv").read_text().startswith("number\tsentence\tlayer\t0\t1\t2\n0\t\t")
    )


def test_parquet_has_columns_of_fixed_width_and_says_how_it_was_made(tmp_path: Path) -> None:
    from pyarrow import parquet

    write(lines("a b", "", "c"), tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["number"].to_pylist() == [0, 1, 2]
    assert table["sentence"].to_pylist() == ["a b", "", "c"]
    assert "fixed_size_list<element: list<element: fixed_size_list<element: float>[3]>>[2]" in str(
        table.schema.field("activations").type
    )
    assert json.loads(table.schema.metadata[b"elmo"])["layers"] == "0,1"


def test_many_rows_of_parquet_are_written_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet

    monkeypatch.setattr("elmo_cli.outputs.exports._ROW_GROUP_BYTES", 1000)
    monkeypatch.setattr("elmo_cli.outputs.packed_file._BLOCK_BYTES", 100)
    corpus = lines(*(f"line {i}" for i in range(50)))
    write(corpus, tmp_path / "out.parquet")
    assert parquet.ParquetFile(tmp_path / "out.parquet").num_row_groups > 3
    for found, expected in zip(
        read(tmp_path / "out.parquet", "parquet", corpus), corpus.values, strict=True
    ):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["npz", "parquet"])
def test_a_run_killed_in_its_last_step_does_it_again(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = lines("a b", "c")

    def fail(*arguments: Any) -> None:
        Path(arguments[2]).write_text("half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("elmo_cli.outputs.writer.export", fail)
        with pytest.raises(OSError, match="make room and run the command again"):
            write(corpus, tmp_path / f"out.{form}")
    assert {path.name for path in tmp_path.iterdir()} == {
        f"out.{form}.partial",
        f"out.{form}.partial.log",
    }
    write(corpus, tmp_path / f"out.{form}")
    assert_array_equal(read(tmp_path / f"out.{form}", form, corpus)[0], corpus.values[0])
    assert [path.name for path in tmp_path.iterdir()] == [f"out.{form}"]


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
    write(corpus, tmp_path / "small", layout, compression=compression, stops=[1])
    assert_holds(tmp_path / "small", corpus)
    assert (tmp_path / "small").stat().st_size < (tmp_path / "plain").stat().st_size / 5
    with h5py.File(tmp_path / "small") as file:
        assert file["0" if layout == "allennlp" else "activations"].shuffle


def test_packages_that_are_not_installed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lines("a"), tmp_path / "zstd", "packed", compression="zstd")
    for package in ("hdf5plugin", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    for act in (
        lambda: write(lines("a"), tmp_path / "out", compression="zstd"),
        lambda: open_activations(tmp_path / "zstd"),
    ):
        with pytest.raises(ElmoError, match=r'not installed; pip install "elmo-cli\[zstd\]"$'):
            act()
    with pytest.raises(ElmoError, match=r'not installed; pip install "elmo-cli\[parquet\]"$'):
        write(lines("a"), tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["zstd"]


# The commands.


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("The cat sat\n\nbank\n", encoding="utf-8")
    return Path("text")


@pytest.mark.parametrize("form", FORMATS)
def test_embed_and_convert_write_the_same_file(form: str, text: Path) -> None:
    options = ("--model", TINY, "--pooling", "mean", "--layers", "0,2")
    assert elmo("embed", text, "out.hdf5", *options).exit_code == 0
    assert elmo("embed", text, f"direct.{form}", *options).exit_code == 0
    result = elmo("convert", "out.hdf5", f"converted.{form}")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"converted.{form}: 3 records, float32, ")
    if form != "npz":  # which has the time in it
        assert Path(f"converted.{form}").read_bytes() == Path(f"direct.{form}").read_bytes()


@pytest.mark.parametrize("form", ["jsonl", "tsv"])
def test_lines_go_to_standard_output(form: str, text: Path) -> None:
    options = ("--model", TINY, "--pooling", "mean", "--layers", "top")
    elmo("embed", text, f"out.{form}", *options)
    result = elmo("embed", "-", "-", *options, "--format", form, stdin=text.read_bytes())
    assert result.exit_code == 0
    assert result.stdout == Path(f"out.{form}").read_text(encoding="utf-8")
    assert result.stderr.splitlines()[-1].startswith("standard output: 3 sentences, ")
    converted = elmo("embed", text, "out.hdf5", *options)
    converted = elmo("convert", "out.hdf5", "-", "--format", form)
    assert converted.stdout == result.stdout
    assert converted.stderr == "standard output: 3 records, float32\n"
    message = "expected activations of HDF5, or weights of HDF5 or safetensors"
    again = elmo("convert", f"out.{form}", "out.h5")
    assert_misused(again, f"out.{form}: {message}; {form} is written, not read")


@pytest.mark.parametrize("option", [["--overwrite"], ["--checkpoint-seconds", "30"]])
def test_options_of_files_are_misused_with_standard_output(option: list[str], text: Path) -> None:
    result = elmo("embed", text, "-", "--format", "jsonl", *option, "--model", TINY)
    assert_misused(result, f"{option[0]} goes with a file for OUTPUT")


def test_a_reader_that_goes_away_ends_the_run_in_silence(text: Path) -> None:
    text.write_text("The cat sat\n" * 500, encoding="utf-8")
    options = ("--model", TINY, "--pooling", "mean", "--format", "jsonl", "-q")
    with start_elmo("embed", text, "-", *options, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert json.loads(run.stdout.readline())["number"] == 0
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 1


def test_a_suffix_of_no_format_gives_hdf5_and_a_warning(text: Path) -> None:
    warning = "Warning: out.csv will be HDF5; --format or the suffix names another format.\n"
    result = elmo("embed", text, "out.csv", "--model", TINY)
    assert (result.exit_code, warning in result.stderr) == (0, True)
    assert h5py.is_hdf5("out.csv")
    assert "Warning" not in elmo("embed", text, "v", "--model", TINY).stderr
    options = ("--format", "tsv")
    assert "Warning" not in elmo("embed", text, "out.txt", "--model", TINY, *options).stderr
    assert elmo("convert", "v", "v.jsonl.gz").stderr.startswith("Warning: v.jsonl.gz will be HDF5")


def test_standard_output_without_room_is_one_line(text: Path) -> None:
    options = ("--model", TINY, "--pooling", "mean", "--format", "jsonl", "-q")
    with (
        open("/dev/full", "wb") as full,
        start_elmo("embed", text, "-", *options, stdout=full) as run,
    ):
        assert run.stderr is not None
        message = b"Error: standard output: cannot write it: No space left on device\n"
        assert run.stderr.read() == message
    assert run.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-",), "format hdf5 cannot go to standard output; --format jsonl or --format tsv can"),
        (
            ("out.npy",),
            "format npy is one array of one vector a line, of `elmo embed --pooling`; write .npz",
        ),
        (("out.npz", "--layout", "packed"), "--layout is for HDF5, and the output is npz"),
        (("o.tsv", "--compression", "lzf"), "--compression is for HDF5, and the output is tsv"),
        (
            ("out.hdf5", "--layout", "packed", "--use-sentence-keys"),
            "--use-sentence-keys names datasets of HDF5, which --layout allennlp has; the output "
            "is --layout packed",
        ),
        (
            ("out.jsonl", "--use-sentence-keys"),
            "--use-sentence-keys names datasets of HDF5, which --layout allennlp has; the output "
            "is jsonl",
        ),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    arguments: tuple[str, ...], message: str, text: Path
) -> None:
    assert_misused(elmo("embed", text, *arguments), message)
    assert [path.name for path in Path().iterdir()] == ["text"]


def test_options_of_activations_are_not_for_weights(tmp_path: Path) -> None:
    weights = TINY / "weights.hdf5"
    assert_misused(
        elmo("convert", weights, tmp_path / "out.h5", "--layout", "packed"),
        f"--layout is for activations, and {weights} is none",
    )


def test_files_of_allennlp_are_converted(tmp_path: Path) -> None:
    source = GOLDEN / "relu" / "allennlp-all.hdf5"
    elmo("convert", source, tmp_path / "packed.hdf5", "--layout", "packed", "--dtype", "float16")
    elmo("convert", tmp_path / "packed.hdf5", tmp_path / "back.hdf5", "--layout", "allennlp")
    with h5py.File(source) as file, h5py.File(tmp_path / "back.hdf5") as back:
        assert list(back) == list(file)
        assert json.loads(back["sentence_to_index"][0]) == json.loads(file["sentence_to_index"][0])
        for name in set(file) - {"sentence_to_index"}:
            assert_array_equal(back[name][()], file[name][()].astype(np.float16))


def test_a_file_is_not_converted_onto_itself(text: Path) -> None:
    elmo("embed", text, "out.hdf5", "--model", TINY)
    result = elmo("convert", "out.hdf5", "out.hdf5", "--overwrite")
    assert_fails(result, "out.hdf5 is the input; choose another output")
