"""CoNLL-U, JSON lines and FASTA: what is read, and what is refused (errors.txt)."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elmo_cli.errors.exceptions import InputError
from elmo_cli.options.text import InputFormatName, TextSettings
from elmo_cli.records.ids import IdRules
from elmo_cli.records.open_input import open_input
from elmo_cli.records.open_records import open_records
from elmo_cli.records.record import Record
from elmo_cli.text.tokenizers import WHITESPACE
from tests.support.accept import CheckExample
from tests.support.commands import TINY
from tests.support.table_files import write_table
from tests.support.transcripts import Example, each_example


def read(name: InputFormatName, text: str) -> list[Record]:
    """Return the records of a text in a format."""
    opened = open_input(io.StringIO(text), TextSettings(input_format=name), WHITESPACE)
    with open_records(opened, id_rules=IdRules(ids_name_datasets=True)) as (
        records,
        *_,
    ):
        return list(records)


# What is read

words = st.text(
    st.characters(min_codepoint=33, exclude_categories=["C", "Z"]), min_size=1
)
identifiers = words.filter(lambda word: "/" not in word and word != ".")
sequences = st.lists(st.text("ACDEFGHIKLMNPQRSTVWYX*-"), max_size=3)


@given(
    st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=5),
    st.booleans(),
)
def test_conllu_that_is_written_is_read(
    sentences: list[list[str]], has_ids: bool
) -> None:
    lines: list[str] = []
    for number, sentence in enumerate(sentences):
        lines += [f"# sent_id = s{number}"] if has_ids else []
        lines += [
            f"{position}\t{word}\t_" for position, word in enumerate(sentence, start=1)
        ]
        lines.append("")
    records = read("conllu", "\n".join(lines))
    assert [record.tokens for record in records] == sentences
    keys = [f"s{number}" if has_ids else None for number in range(len(sentences))]
    assert [record.id for record in records] == keys


texts = st.text(max_size=8)


@given(st.lists(st.one_of(texts, st.lists(texts, max_size=4), st.none()), max_size=5))
def test_json_lines_that_are_written_are_read(values: list[Any]) -> None:
    rows = [
        {"tokens" if isinstance(value, list) else "text": value} for value in values
    ]
    expected = [
        value if isinstance(value, list) else (value or "").split() for value in values
    ]
    assume(any(expected))  # An input without tokens is an error.
    records = read("jsonl", "\n".join(map(json.dumps, rows)))
    assert [record.tokens for record in records] == expected
    assert [record.id for record in records] == [None] * len(values)


@given(
    st.dictionaries(
        identifiers, st.tuples(st.lists(words, max_size=2), sequences), max_size=5
    ),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_fasta_that_is_written_is_read(
    proteins: dict[str, tuple[list[str], list[str]]], blank: str
) -> None:
    headers = [" ".join([name, *rest]) for name, (rest, _) in proteins.items()]
    lines = [
        line
        for header, (_, parts) in zip(headers, proteins.values(), strict=True)
        for line in (f">{header}", *parts, blank)
    ]
    sequences = ["".join(parts) for _, parts in proteins.values()]
    assume(any(sequences))  # An input without tokens is an error.
    records = read("fasta", "\n".join(lines))
    assert [record.id for record in records] == list(proteins)
    assert [record.original_id for record in records] == headers
    assert ["".join(record.tokens) for record in records] == sequences
    assert len({record.text for record in records}) == len(records)


# What is refused


@each_example(__file__)
def test_an_error_has_this_text(
    example: Example,
    check_example: CheckExample,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ELMO_MODEL", str(TINY))
    if "items.parquet" in example.command:
        write_table("items.parquet", [{"key": "7", "sentence": "a b"}])
    check_example(example)


def test_a_very_long_entry_is_shortened_in_its_error() -> None:
    n_bytes = "has 65,532 bytes, and a name has at most 65,531"
    cases: list[tuple[InputFormatName, str, str]] = [
        (
            "jsonl",
            "[" * 100_000,
            f"expected a JSON object, found {'[' * 60}. Correct the line, or use "
            "skip_errors=True.",
        ),
        (
            "fasta",
            f">{'é' * 32_766}\nM\n",
            f"the id {'é' * 60!r} {n_bytes}. Use layout='packed' or Parquet.",
        ),
    ]
    for name, text, message in cases:
        with pytest.raises(InputError) as caught:
            read(name, text)
        assert str(caught.value) == f"the input, line 1: {message}"


def test_an_id_of_1_begins_a_sentence_of_conllu(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = (
        "# sent_id = a\n1\tik\t_\n2\tzie\t_\n"
        "# sent_id = b\n1-2\tzum\t_\n1\tzu\t_\n2\tdem\t_\n"
        "# sent_id = c\n0.1\t_\n1\tdes\t_\n"
    )
    records = read("conllu", text)
    assert [record.tokens for record in records] == [
        ["ik", "zie"],
        ["zu", "dem"],
        ["des"],
    ]
    assert [record.id for record in records] == ["a", "b", "c"]
    assert caplog.messages == [
        "line 4: the first of 2 sentences of CoNLL-U without a blank line before. "
        "Every line with the ID 1 begins a new sentence."
    ]


@pytest.mark.parametrize("end", ["\r", "\n"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("fasta", ">p1\rMKV{}>p2\rAAA{}"), ("conllu", "1\tMKV\r\r1\tAAA{}")],
)
def test_cr_ends_the_lines_of_fasta_and_conllu(
    name: InputFormatName, text: str, end: str, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{name}"
    path.write_text(text.format(end, end), newline="")
    with path.open() as file:
        for opened in (
            open_input(path),
            open_input(file, TextSettings(input_format=name)),
        ):
            with open_records(opened) as (records, *_):
                assert ["".join(record.tokens) for record in records] == ["MKV", "AAA"]


@pytest.mark.parametrize("line", ["2\t\t_", "2\tc\xe9"])
def test_an_invalid_sentence_of_conllu_keeps_its_id(line: str, tmp_path: Path) -> None:
    text = f"# sent_id = a\n1\tb\n{line}\n\n# sent_id = c\n1\td\n"
    (tmp_path / "a.conllu").write_bytes(text.encode("latin-1"))
    opened = open_input(tmp_path / "a.conllu", TextSettings(skip_errors=True))
    with open_records(opened) as (records, *_):
        invalid, valid = records
    assert invalid.id == "a"
    assert invalid.tokens == []
    assert invalid.start == 1
    assert "a.conllu, line 3" in str(invalid.error)
    assert valid.id == "c"
    assert valid.tokens == ["d"]
    assert valid.error is None


# Formats


@pytest.mark.parametrize(
    ("expected", "names"),
    [
        ("fasta", "a.fasta b.fa c.faa d.FAS x/f.fa.GZ b.fa.zst"),
        ("jsonl", "a.jsonl b.NDJSON.gz c.jsonl.bz2"),
        ("text", "a.fasta.txt - a.txt.xz news.en"),
        ("conllu", "a.conllu"),
        ("json", "a.json"),
        ("csv", "a.csv.gz"),
        ("tsv", "b.TSV"),
        ("parquet", "c.parquet"),
    ],
)
def test_a_suffix_says_the_format(expected: str, names: str) -> None:
    for name in names.split():
        assert (
            open_input(name).format.name
            == open_input(Path(name)).format.name
            == expected
        )
        assert (
            open_input(name, TextSettings(input_format="fasta")).format.name == "fasta"
        )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (">sp|P1 a\nMKV\n", "fasta"),
        (">p1\rMKV\r", "fasta"),
        ('{"text": "a", "n": 1}\n', "jsonl"),
        ('[\n {"text": "a"}]', "json"),
        ("# sent_id = 1\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n", "conllu"),
        (">>> import this\n", "text"),
        ("> said he .\nMKV\n", "text"),
        ("[ Music ]\n", "text"),
        ("[\nx\n", "text"),
        ('{"a": 1}\n', "jsonl"),
        ("{ a } b\n", "text"),
        ("PAR1 is a protein .\n", "text"),
        ("BZh is not bzip2 .\n", "text"),
        ("1\ta\n", "text"),
        ("", "text"),
    ],
)
def test_content_tells_the_format_without_a_suffix(
    content: str, expected: str, tmp_path: Path
) -> None:
    for name in ("input", "input.txt"):
        (tmp_path / name).write_text(content)
        assert open_input(tmp_path / name).format.name == expected


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (">p1\nMK\n", "fasta"),
        ('{"text": "a"}\n', "jsonl"),
        ('[{"text": "a"}]\n', "json"),
    ],
)
def test_other_formats_in_a_stream_are_refused(content: str, name: str) -> None:
    with (
        pytest.raises(InputError) as caught,
        open_records(open_input(io.StringIO(content))) as (records, *_),
    ):
        list(records)
    assert str(caught.value) == (
        f"the input, line 1: it seems to be {name}, not text. "
        f"Use input_format={name!r}, or input_format='text' to read one sentence per "
        "line."
    )
    assert [record.text for record in read("text", content)] == content.splitlines()
