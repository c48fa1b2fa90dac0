"""Rows, beside `answers.txt`: for the readers that people use, with ids, and of language models."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.cli.rows import LIKE_MISSING, RowWriter, cell
from tests.support.commands import TINY, elmo, run_r
from tests.support.table_files import csv_rows, read_rows, write_table

HARD = [
    '"',
    '""',
    "'",
    '"a',
    'a"b',
    ",",
    "\t",
    "\n",
    "a\nb",
    "\\",
    '\\"',
    "#",
    "# a",
    " ",
    " a ",
    "=1+1",
    "-",
    "--",
    ";",
    "|",
    "a;b|c",
    "T",
    "TRUE",
    "1",
    "01",
    "1e5",
    "0x10",
    "Inf",
    "東京",
    "a\rb",
    "a\r\nb",
    "\r",
    "\N{NO-BREAK SPACE}",
    "\u2028",
    "\x85",
    "\x0b",
    "é",
    "e\u0301",
    "😀",
    "<S>",
    "%s",
    "`",
    "/*",
]
"""Tokens that a reader may misread."""
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
)
DELIMITERS = {"csv": ",", "tsv": "\t"}
formats = st.sampled_from([*DELIMITERS])


pytestmark = pytest.mark.usefixtures("text_and_model")


@pytest.fixture
def text_and_model(word_model: None) -> None:
    """Write a language model and a text into the current folder."""
    Path("text.txt").write_text("the cat sat\n\nthe dog sat\n")


def table(tokens: Sequence[object], row_format: str = "csv") -> str:
    written: list[str] = []
    writer = RowWriter(written.append, row_format, ["id", "token", "surprisal"])
    for number, token in enumerate(tokens):
        writer.write([(f"s{number}", token, 0.5)], {"kept": 0.1 + 0.2})
    return "".join(written)


@given(st.lists(texts, min_size=1), formats)
def test_python_reads_back_every_text(tokens: list[str], row_format: str) -> None:
    text = io.StringIO(table(tokens, row_format), newline="")
    _, found, _, kept = zip(
        *csv.reader(text, delimiter=DELIMITERS[row_format]), strict=True
    )
    assert (found, {*kept}) == (("token", *tokens), {"kept", "0.30000000000000004"})
    assert [
        json.loads(line)["token"] for line in table(tokens, "jsonl").split("\n")[:-1]
    ] == tokens


def test_missing_values_and_numbers_are_cells() -> None:
    values: list[Any] = [None, "", True, 3, 2.0, 1.5e-7, -0.0123456789, 0.0]
    assert [cell(value) for value in values] == [
        "",
        '""',
        "1",
        "3",
        "2.000000",
        "1.5e-07",
        "-0.012346",
        "0.000000",
    ]


def read_with(package: str, path: Path) -> list[tuple[str, str, object]]:
    """Return the ids, tokens and surprisals of a table."""
    if package == "R":
        read = "read.csv" if path.suffix == ".csv" else "read.delim"
        code = (
            f"rows <- {read}('{path}'); stopifnot(is.numeric(rows$surprisal))\n"
            "for (n in 1:nrow(rows)) cat(rows$id[n], utf8ToInt(rows$token[n]), '\\n')"
        )
        lines = [line.split() for line in run_r(code).splitlines()]
        return [
            (name, "".join(map(chr, map(int, codes))), 0.5) for name, *codes in lines
        ]
    module = pytest.importorskip(package)
    if package == "duckdb":
        query = f"SELECT id, token, surprisal FROM '{path}'"
        found: list[tuple[str, str, object]] = module.sql(query).fetchall()
        return found
    option = "sep" if package == "pandas" else "separator"
    frame = module.read_csv(path, **{option: DELIMITERS[path.suffix[1:]]})
    return list(zip(frame["id"], frame["token"], frame["surprisal"], strict=True))


@pytest.mark.parametrize("row_format", DELIMITERS)
@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb", "R"])
def test_readers_give_every_row_and_token(
    row_format: str, package: str, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{row_format}"
    path.write_text(table(["the", *HARD], row_format), encoding="utf-8", newline="")
    # R reads every line end in a text as a line feed.
    tokens = [
        re.sub("\r\n?", "\n", each) if package == "R" else each
        for each in ["the", *HARD]
    ]
    expected = [(f"s{number}", token, 0.5) for number, token in enumerate(tokens)]
    assert read_with(package, path) == expected


@given(
    st.lists(texts.filter(lambda text: text not in LIKE_MISSING), min_size=1), formats
)
def test_pandas_reads_back_every_text(tokens: list[str], row_format: str) -> None:
    pandas = pytest.importorskip("pandas")
    # The first token keeps pandas from reading a column of numbers.
    content = io.BytesIO(table(["the", *tokens], row_format).encode())
    found = pandas.read_csv(content, sep=DELIMITERS[row_format])["token"]
    assert list(found) == ["the", *tokens]


# Ids that repeat, are missing, or are not read

MODEL = ("--model", "model")
SENTENCES = ("the cat sat", "the dog", "the cat")
REPEATED = "1 record has the id of an earlier record. See their line or index."


def write(*ids: object, name: str = "in.csv") -> str:
    rows = [{"id": i, "text": text} for i, text in zip(ids, SENTENCES, strict=False)]
    return write_table(name, rows)


@pytest.mark.parametrize(
    "name", ["in.csv", "in.json", "in.jsonl", "in.conllu", "in.parquet"]
)
def test_rows_of_repeated_ids_have_the_line_too(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write("a", "b", "a", name=name)
    for command in (
        ["surprisal", path, "--json"],
        ["perplexity", path, "--per-sentence", "--json"],
        ["predict", "--file", path, "--top", "2", "--json"],
        ["surprisal", path, "--words-by", "space", "--json"],
    ):
        if name != "in.conllu" or not {"predict", "--words-by"} & set(command):
            rows = map(json.loads, elmo(*command, *MODEL).stdout.splitlines())
            assert {(row["id"], row["line"]) for row in rows} == {
                ("a", 1),
                ("b", 2),
                ("a", 3),
            }
            assert caplog.messages == [f"Warning: {path}: {REPEATED}"]
            caplog.clear()


def test_texts_of_parquet_are_not_read_to_compare_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write("a", "b", "a", name="in.parquet")
    read = parquet.ParquetFile.iter_batches
    noted = Mock(side_effect=read)
    monkeypatch.setattr(
        parquet.ParquetFile, "iter_batches", lambda *a, **s: noted(*a, **s)
    )
    for options in ([], ["--word-column", "text", "--id-column", "id"]):
        assert elmo("surprisal", path, "--json", *options, *MODEL).exit_code == 0
        assert [call.kwargs["columns"] for call in noted.mock_calls] == [
            ["id"],
            ["text", "id"],
        ]
        noted.reset_mock()


@pytest.mark.parametrize(
    ("output", "command"),
    [
        ("out.jsonl", "embed"),
        ("out.jsonl", "embed --rows tokens"),
        ("out.parquet", "embed"),
        ("out.parquet", "embed --rows tokens"),
        ("out.parquet", "usages --words words.txt"),
    ],
)
def test_vectors_of_repeated_ids_have_an_index_or_line(
    output: str, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    Path("words.txt").write_text("the\n")
    path = write("a", "b", "a")
    (name, *options) = command.split()
    elmo(name, path, output, *options, "--model", TINY)
    assert (
        name == "usages" or caplog.messages.count(f"Warning: {path}: {REPEATED}") == 1
    )
    found = read_rows(output)
    number, first = ("index", 0) if "index" in found[0] else ("line", 1)
    assert {(row["id"], row[number] - first) for row in found} == {
        ("a", 0),
        ("b", 1),
        ("a", 2),
    }


def test_records_without_ids_are_numbered() -> None:
    for name, output in (
        ("in.csv", "out.h5"),
        ("in.csv", "out.npz"),
        ("in.conllu", "c.h5"),
    ):
        command = ("embed", write("a", "b", "a", name=name), output, "--id-column", "")
        assert elmo(*command, "--model", TINY).exit_code == 0
    with h5py.File("out.h5") as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("in.csv", "--layers all"),
        ("in.json", "--mix 1,2,3 --dtype float16"),
        ("in.parquet", "--layers top"),
        ("in.conllu", "--layers top"),
        ("in.csv", "--mix 1,2,3"),
        ("text", "--split-sentences"),
        ("text", "--split-sentences --pooling mean"),
    ],
)
def test_a_shard_without_rows_has_the_columns_of_the_others(
    name: str, options: str, rows: str
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    if name == "text":
        Path(name).write_text("One. Two.\n")
    else:
        write(1, 2, name=name)
    options += "" if "pooling" in options else f" --rows {rows}"
    options += " --keep-columns all" if name not in ("in.conllu", "text") else ""
    for number in (1, 3):
        shard = ["--shard", f"{number}/3", *options.split(), "--model", str(TINY)]
        assert elmo("embed", name, f"{number}.parquet", *shard).exit_code == 0
    first, last = (parquet.read_table(f"{number}.parquet") for number in (1, 3))
    assert last.num_rows == 0 < first.num_rows
    assert last.schema.remove_metadata() == first.schema.remove_metadata()


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
def test_json_vectors_have_null_in_place_of_nan(rows: str) -> None:
    Path("in.jsonl").write_text(
        '{"id": "NaN", "text": "the", "x": NaN, "y": [Infinity, "NaN"]}'
    )
    options = ("--format", "jsonl", "--keep-columns", "all", "--rows", rows)
    text = elmo("embed", "in.jsonl", "-", *options, "--model", TINY).stdout
    row = json.loads(text, parse_constant=pytest.fail)
    assert (row["id"], row["x"], row["y"]) == ("NaN", None, [None, "NaN"])


# Rows of language models


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv", "-"])
def test_rows_of_surprisal_are_a_text_again(name: str, direction: str) -> None:
    row_format = "csv" if name.endswith("csv") else "jsonl"
    rows = elmo(
        "surprisal", "text.txt", *MODEL, "-f", row_format, "--direction", direction
    ).stdout
    Path(name).write_text(rows)
    columns = ("--word-column", "token", "--id-column", "line")
    words = (*columns, "--tokenizer", "whitespace")
    found, expected = (
        elmo(
            "perplexity", *source, *MODEL, "-q", "--per-sentence", stdin=rows
        ).stdout.splitlines()
        for source in ([name, *words], ["text.txt"])
    )
    del expected[2]  # A blank line has no row.
    assert [line.split("\t")[-7:] for line in found] == [
        row.split("\t")[-7:] for row in expected
    ]


def test_a_softmax_and_vocabulary_may_be_elsewhere() -> None:
    expected = elmo("perplexity", "text.txt", *MODEL, "--json")
    for name in ("softmax.hdf5", "vocab.txt"):
        Path("model", name).rename(name)
    softmax = ("--softmax-file", "softmax.hdf5", "--json")
    files = (
        "--options-file",
        "model/options.json",
        "--weight-file",
        "model/weights.hdf5",
    )
    for more in (MODEL, (*files, "--vocabulary-file", "vocab.txt")):
        assert elmo("perplexity", "text.txt", *softmax, *more).stdout == expected.stdout


def test_samples_continue_the_text_and_follow_the_seed() -> None:
    arguments = (
        "predict",
        "the cat",
        *MODEL,
        "--sample",
        "4",
        "--max-words",
        "5",
        "-q",
    )
    result = elmo(*arguments)
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr, len(lines)) == (0, "", 4)
    assert all(line.startswith("the cat") and len(line.split()) <= 7 for line in lines)
    assert (
        elmo(*arguments).stdout
        == result.stdout
        != elmo(*arguments, "--seed", "1").stdout
    )
    answers = [
        json.loads(line) for line in elmo(*arguments, "--json").stdout.splitlines()
    ]
    assert [each["text"] for each in answers] == lines
    rows = csv_rows(elmo(*arguments, "--format", "csv").stdout)
    assert [(row["line"], row["sample_number"]) for row in rows] == [
        ("1", n) for n in "1234"
    ]
    cold = elmo(*arguments, "--temperature", "0.01").stdout
    assert set(cold.split()) <= {"the", "cat"}
    behind = elmo(*arguments, "--backward").stdout.splitlines()
    assert all(line.endswith("the cat") for line in behind)


def test_lines_before_a_wrong_one_are_answered() -> None:
    result = elmo("predict", "-", *MODEL, "--top", "1", stdin="The\ncat\n___ and ___\n")
    rows = "line\trank\tword\tprobability\n1\t1\t</S>\t0.250000\n2\t1\t</S>\t0.250000\n"
    assert (result.exit_code, result.stdout) == (1, rows)
    assert result.stderr.endswith(
        "Error: standard input, line 3: ___ and ___: 2 gaps (___). Fill all but one of them.\n"
    )


def test_the_accuracy_of_every_group_is_printed() -> None:
    pairs = [f"the cat,cat the,g{number}" for number in range(150)]
    Path("pairs.csv").write_text("\n".join(["good,bad,group", *pairs]))
    result = elmo(
        "surprisal", "pairs.csv", "--pairs", "good,bad", "--group-by", "group", *MODEL
    )
    assert sum(line.startswith("group g") for line in result.stderr.splitlines()) == 150


def test_a_plot_is_drawn() -> None:
    pytest.importorskip("matplotlib", reason='needs pip install "elmo-cli[plot]"')
    Path("items.csv").write_text('id,text\na,"The cat, sat."\nb,the cat sat\n')
    result = elmo(
        "surprisal", "items.csv", *MODEL, "--words-by", "space", "--plot", "s.html"
    )
    assert (
        result.stderr
        == "Model: model\n8 tokens, 3 of them unknown\nWrote s.html: 2 sentences\n"
    )
    assert "cat,: 6.00 bits forward, unknown" in Path("s.html").read_text(
        encoding="utf-8"
    )
