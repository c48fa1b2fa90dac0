"""Rows, beside `answers.txt`: for readers, with ids, and of language models."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.cli.row_printer import LIKE_MISSING, RowPrinter, cell
from tests.support.commands import TINY, elmo, run_r
from tests.support.strategies import make_language_model, small_architecture
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
    """Return a table with a row per token: id, token, surprisal and kept."""
    written: list[str] = []
    writer = RowPrinter(written.append, row_format, ["id", "token", "surprisal"])
    for index, token in enumerate(tokens):
        writer.write([(f"s{index}", token, 0.5)], {"kept": 0.1 + 0.2})
    return "".join(written)


@given(st.lists(texts, min_size=1), formats)
def test_python_reads_back_every_text(tokens: list[str], row_format: str) -> None:
    text = io.StringIO(table(tokens, row_format), newline="")
    header, *rows = csv.reader(text, delimiter=DELIMITERS[row_format])
    assert header == ["id", "token", "surprisal", "kept"]
    assert [row[1] for row in rows] == tokens
    assert {row[3] for row in rows} == {"0.30000000000000004"}


@given(st.lists(texts, min_size=1))
def test_json_lines_hold_every_text(tokens: list[str]) -> None:
    *lines, last = table(tokens, "jsonl").split("\n")
    assert last == ""
    assert [json.loads(line)["token"] for line in lines] == tokens


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, ""),
        ("", '""'),
        (True, "1"),
        (3, "3"),
        (2.0, "2.000000"),
        (1.5e-7, "1.5e-07"),
        (-0.0123456789, "-0.012346"),
        (0.0, "0.000000"),
    ],
)
def test_a_value_is_written_as_a_cell(value: Any, written: str) -> None:
    assert cell(value) == written


def read_with_r(path: Path) -> list[tuple[str, str, object]]:
    """Return the ids, tokens and surprisals of a table that R reads."""
    read = "read.csv" if path.suffix == ".csv" else "read.delim"
    code = (
        f"rows <- {read}('{path}'); stopifnot(is.numeric(rows$surprisal))\n"
        "for (n in 1:nrow(rows)) cat(rows$id[n], utf8ToInt(rows$token[n]), '\\n')"
    )
    rows: list[tuple[str, str, object]] = []
    for line in run_r(code).splitlines():
        name, *codes = line.split()
        token = "".join(chr(int(code)) for code in codes)
        rows.append((name, token, 0.5))
    return rows


def read_with(package: str, path: Path) -> list[tuple[str, str, object]]:
    """Return the ids, tokens and surprisals of a table that a package reads."""
    if package == "R":
        return read_with_r(path)
    module = pytest.importorskip(package)
    if package == "duckdb":
        query = f"SELECT id, token, surprisal FROM '{path}'"
        found: list[tuple[str, str, object]] = module.sql(query).fetchall()
        return found
    delimiter = DELIMITERS[path.suffix[1:]]
    if package == "pandas":
        frame = module.read_csv(path, sep=delimiter)
    else:
        frame = module.read_csv(path, separator=delimiter)
    return list(zip(frame["id"], frame["token"], frame["surprisal"], strict=True))


@pytest.mark.parametrize("row_format", DELIMITERS)
@pytest.mark.parametrize("package", ["pandas", "polars", "duckdb", "R"])
def test_readers_give_every_row_and_token(
    row_format: str, package: str, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{row_format}"
    tokens = ["the", *HARD]
    path.write_text(table(tokens, row_format), encoding="utf-8", newline="")
    if package == "R":
        # R reads every line end in a text as a line feed.
        tokens = [re.sub("\r\n?", "\n", token) for token in tokens]
    expected = [(f"s{index}", token, 0.5) for index, token in enumerate(tokens)]
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

REPEATED = (
    "1 record has the id of an earlier record. Tell them apart by their line or index."
)


def write_texts(name: str, *, ids: Sequence[object]) -> str:
    """Write a table of up to three texts with these ids, and return its name."""
    sentences = ("the cat sat", "the dog", "the cat")
    rows = []
    for index, key in enumerate(ids):
        rows.append({"id": key, "text": sentences[index]})
    return write_table(name, rows)


def assert_rows_have_lines(
    command: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Assert that the rows of a command tell records of the ids a, b and a apart."""
    result = elmo(*command.format(path).split(), "--json", "--model", "model")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {(row["id"], row["line"]) for row in rows} == {("a", 1), ("b", 2), ("a", 3)}
    assert caplog.messages == [f"{path}: {REPEATED}"]


@pytest.mark.parametrize(
    "command",
    [
        "surprisal {}",
        "perplexity {} --per-sentence",
        "predict --file {} --top 2",
        "surprisal {} --by word",
    ],
)
@pytest.mark.parametrize("name", ["in.csv", "in.json", "in.jsonl", "in.parquet"])
def test_rows_of_repeated_ids_have_the_line_too(
    name: str, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_texts(name, ids=["a", "b", "a"])
    assert_rows_have_lines(command, path, caplog)


@pytest.mark.parametrize("command", ["surprisal {}", "perplexity {} --per-sentence"])
def test_rows_of_repeated_ids_of_conllu_have_the_line_too(
    command: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_texts("in.conllu", ids=["a", "b", "a"])
    assert_rows_have_lines(command, path, caplog)


@pytest.mark.parametrize(
    "options", [[], ["--word-column", "text", "--id-column", "id"]]
)
def test_ids_of_parquet_are_compared_without_reading_the_texts(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write_texts("in.parquet", ids=["a", "b", "a"])
    read = parquet.ParquetFile.iter_batches
    columns: list[list[str]] = []

    def noted(file: Any, *arguments: Any, **settings: Any) -> Any:
        columns.append(settings["columns"])
        return read(file, *arguments, **settings)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", noted)
    result = elmo("surprisal", path, "--json", *options, "--model", "model")
    assert result.exit_code == 0
    first_texts = ["text", "id"]  # for the choice of a tokenizer
    assert columns == [first_texts, ["id"], ["text", "id"]]


@pytest.mark.parametrize("ids", [["a", "b", "a"], [1, 2, 1]])
@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet"])
def test_vectors_of_repeated_ids_have_an_index(
    output: str, ids: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    path = write_texts("in.csv", ids=ids)
    elmo("embed", path, output, "--model", TINY)
    assert caplog.messages.count(f"{path}: {REPEATED}") == 1
    found = read_rows(output)
    assert [(row["index"], row["id"]) for row in found] == list(enumerate(ids))
    assert "line" not in found[0]


@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet"])
def test_tokens_of_repeated_ids_have_the_line(
    output: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_texts("in.csv", ids=["a", "b", "a"])
    elmo("embed", path, output, "--rows", "tokens", "--model", TINY)
    assert caplog.messages.count(f"{path}: {REPEATED}") == 1
    places = {(row["line"], row["id"]) for row in read_rows(output)}
    assert places == {(1, "a"), (2, "b"), (3, "a")}


def test_occurrences_of_repeated_ids_have_the_line() -> None:
    Path("words.txt").write_text("the\n")
    path = write_texts("in.csv", ids=["a", "b", "a"])
    elmo("occurrences", path, "out.parquet", "--words", "words.txt", "--model", TINY)
    places = {(row["id"], row["line"]) for row in read_rows("out.parquet")}
    assert places == {("a", 1), ("b", 2), ("a", 3)}


@pytest.mark.parametrize(
    ("name", "output"),
    [("in.csv", "out.h5"), ("in.csv", "out.npz"), ("in.conllu", "c.h5")],
)
def test_records_without_ids_are_numbered(name: str, output: str) -> None:
    path = write_texts(name, ids=["a", "b", "a"])
    result = elmo("embed", path, output, "--id-column", "", "--model", TINY)
    assert result.exit_code == 0
    if output == "out.h5":
        with h5py.File(output) as file:
            assert set(file) == {"0", "1", "2", "sentence_to_index"}


def assert_shards_have_the_same_columns(name: str, options: str) -> None:
    """Assert that the empty last of 3 shards has the columns of the first."""
    parquet = pytest.importorskip("pyarrow.parquet")
    if name == "text":
        Path(name).write_text("One. Two.\n")
    else:
        write_texts(name, ids=[1, 2])
    for shard in ("1/3", "3/3"):
        output = f"{shard[0]}.parquet"
        result = elmo(
            "embed",
            name,
            output,
            "--shard",
            shard,
            "--model",
            TINY,
            *options.split(),
        )
        assert result.exit_code == 0
    first = parquet.read_table("1.parquet")
    last = parquet.read_table("3.parquet")
    assert last.num_rows == 0 < first.num_rows
    assert last.schema.remove_metadata() == first.schema.remove_metadata()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("in.csv", "--layers all --keep-columns all"),
        ("in.json", "--mix 1,2,3 --dtype float16 --keep-columns all"),
        ("in.parquet", "--layers top --keep-columns all"),
        ("in.conllu", "--layers top"),
        ("in.csv", "--mix 1,2,3 --keep-columns all"),
        ("text", "--split-sentences"),
    ],
)
@pytest.mark.parametrize("rows", ["sentences", "tokens"])
def test_a_shard_without_rows_has_the_columns_of_the_others(
    name: str, options: str, rows: str
) -> None:
    assert_shards_have_the_same_columns(name, f"{options} --rows {rows}")


def test_an_empty_shard_of_sentence_vectors_has_the_columns_of_the_others() -> None:
    options = "--split-sentences --pooling mean"
    assert_shards_have_the_same_columns("text", options)


@pytest.mark.parametrize("rows", ["sentences", "tokens"])
def test_json_vectors_have_null_in_place_of_nan(rows: str) -> None:
    line = '{"id": "NaN", "text": "the", "x": NaN, "y": [Infinity, "NaN"]}'
    Path("in.jsonl").write_text(line)
    result = elmo(
        "embed",
        "in.jsonl",
        "-",
        "--format",
        "jsonl",
        "--keep-columns",
        "all",
        "--rows",
        rows,
        "--model",
        TINY,
    )
    row = json.loads(result.stdout, parse_constant=pytest.fail)
    assert row["id"] == "NaN"
    assert row["x"] is None
    assert row["y"] == [None, "NaN"]


# Rows of language models


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv", "-"])
def test_rows_of_surprisal_can_be_read_as_a_text(name: str, direction: str) -> None:
    row_format = "csv" if name == "rows.csv" else "jsonl"
    rows = elmo(
        "surprisal",
        "text.txt",
        "--model",
        "model",
        "--format",
        row_format,
        "--direction",
        direction,
    ).stdout
    Path(name).write_text(rows)
    found = elmo(
        "perplexity",
        name,
        "--word-column",
        "token",
        "--id-column",
        "line",
        "--tokenizer",
        "whitespace",
        "--model",
        "model",
        "-q",
        "--per-sentence",
        stdin=rows,
    ).stdout.splitlines()
    expected = elmo(
        "perplexity", "text.txt", "--model", "model", "-q", "--per-sentence"
    ).stdout.splitlines()
    # A blank line has no row.
    del expected[2]
    found_numbers = [line.split("\t")[-7:] for line in found]
    assert found_numbers == [line.split("\t")[-7:] for line in expected]


def test_a_softmax_and_vocabulary_may_be_elsewhere() -> None:
    expected = elmo("perplexity", "text.txt", "--model", "model", "--json")
    Path("model/softmax.hdf5").rename("softmax.hdf5")
    Path("model/vocab.txt").rename("vocab.txt")
    # The vocabulary beside the softmax is found.
    by_folder = elmo(
        "perplexity",
        "text.txt",
        "--model",
        "model",
        "--softmax-file",
        "softmax.hdf5",
        "--json",
    )
    assert by_folder.stdout == expected.stdout
    by_files = elmo(
        "perplexity",
        "text.txt",
        "--options-file",
        "model/options.json",
        "--weight-file",
        "model/weights.hdf5",
        "--softmax-file",
        "softmax.hdf5",
        "--vocabulary-file",
        "vocab.txt",
        "--json",
    )
    assert by_files.stdout == expected.stdout


def sample(*options: str) -> Result:
    """Sample 4 continuations of the cat."""
    return elmo(
        "predict",
        "the cat",
        "--model",
        "model",
        "--samples",
        "4",
        "--max-words",
        "5",
        "-q",
        *options,
    )


def test_samples_continue_the_text() -> None:
    result = sample()
    assert result.stderr == ""
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert line.startswith("the cat")
        assert len(line.split()) <= 7
    answers = [json.loads(line) for line in sample("--json").stdout.splitlines()]
    assert [answer["text"] for answer in answers] == lines
    rows = csv_rows(sample("--format", "csv").stdout)
    assert [row["line"] for row in rows] == ["1", "1", "1", "1"]
    assert [row["sample_number"] for row in rows] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("bits", "message"),
    [
        (9, "0.2% of the probability is on <UNK>, which stands for all words "),
        (11, ""),
    ],
)
def test_an_improbable_unknown_word_is_not_reported(
    bits: int, message: str, tmp_path: Path
) -> None:
    weight = np.zeros((8, 3))
    bias = -np.array([4, 2, bits, 2, 3, 4, 4, 4]) * np.log(2)
    make_language_model(small_architecture(), 1, tmp_path, weight=weight, bias=bias)
    result = elmo("predict", "the cat", "--model", str(tmp_path), "--top", "1")
    assert result.exit_code == 0
    if message:
        assert message in result.stderr
    else:
        assert "<UNK>" not in result.stderr


def test_empty_samples_are_reported() -> None:
    command = ["predict", "The cat", "--model", "mini", "--samples", "3"]
    command += ["--direction", "backward"]
    result = elmo(*command)
    n_empty = result.stdout.splitlines().count("The cat")
    assert n_empty > 0
    expected = f"Empty continuations: {n_empty} of 3. The sentence starts there.\n"
    assert expected in result.stderr
    assert elmo(*command, "-q").stderr == ""


def test_samples_follow_the_seed() -> None:
    samples = sample().stdout
    assert sample().stdout == samples
    assert sample("--seed", "1").stdout != samples


def test_cold_samples_are_of_likely_words() -> None:
    cold = sample("--temperature", "0.01").stdout
    assert set(cold.split()) <= {"the", "cat"}


def test_samples_of_the_backward_model_end_in_the_text() -> None:
    for line in sample("--direction", "backward").stdout.splitlines():
        assert line.endswith("the cat")


def test_lines_before_a_wrong_one_are_answered() -> None:
    texts = "The\ncat\n___ and ___\n"
    result = elmo("predict", "-", "--model", "model", "--top", "1", stdin=texts)
    assert result.exit_code == 1
    assert result.stdout == (
        "line\trank\tword\tprobability\n1\t1\t</S>\t0.250000\n2\t1\t</S>\t0.250000\n"
    )
    assert result.stderr.endswith(
        "Error: standard input, line 3: ___ and ___: 2 gaps (___). "
        "Fill all but one of them.\n"
    )


def test_the_accuracy_of_every_group_is_printed() -> None:
    pairs = [f"the cat,cat the,g{number}" for number in range(150)]
    Path("pairs.csv").write_text("\n".join(["good,bad,group", *pairs]))
    result = elmo(
        "surprisal",
        "pairs.csv",
        "--pair-columns",
        "good,bad",
        "--group-by",
        "group",
        "--model",
        "model",
    )
    lines = result.stderr.splitlines()
    assert len([line for line in lines if line.startswith("group g")]) == 150


def test_a_plot_is_drawn() -> None:
    pytest.importorskip("matplotlib", reason='needs pip install "elmo-cli[plot]"')
    Path("items.csv").write_text('id,text\na,"The cat, sat."\nb,the cat sat\n')
    result = elmo(
        "surprisal",
        "items.csv",
        "--model",
        "model",
        "--by",
        "word",
        "--plot",
        "s.html",
    )
    assert result.stderr == (
        "Tokenizer: moses, because the text is raw\n"
        "Unknown: 3 of 8 tokens. Exclude rows with known 0.\n"
        "Wrote s.html: 2 sentences\n"
    )
    page = Path("s.html").read_text(encoding="utf-8")
    assert "cat,: 6.00 bits forward, unknown" in page
