"""FASTA: what is read, what is refused, and what `elmo embed` makes of it."""

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from commands import TINY, assert_misused, elmo
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from runs import stop_after

from elmo_cli import ElmoEmbedder
from elmo_cli.embed_file import Summary
from elmo_cli.errors import InputError, StoppedError
from elmo_cli.text.entries import fasta_entries
from elmo_cli.text.lines import Record
from elmo_cli.text.records import checked_records, find_format
from elmo_cli.text.tokenizers import WHITESPACE

TINY_MODEL = ("--model", str(TINY))
PROTEINS = """\
>sp|P1|ONE First protein OS=Homo sapiens
MKV L
agh*

>two
>three a/b
SEQWENCE
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, where commands run."""
    monkeypatch.delenv("ELMO_MODEL", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("p.fasta").write_text(PROTEINS, encoding="utf-8")
    return tmp_path


def read(text: str) -> list[Record]:
    lines = (line.strip() for line in text.split("\n"))
    return list(checked_records(fasta_entries(lines, WHITESPACE), "p.fasta", skip_errors=False))


def content(path: str | Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers and values of an output file, by key."""
    with h5py.File(path) as file:
        return (
            {key: dataset.attrs["original_id"] for key, dataset in file.items()},
            {key: dataset[()] for key, dataset in file.items()},
        )


# Records


def test_a_residue_is_a_token_and_the_first_word_the_key() -> None:
    records = read(PROTEINS)
    assert [(record.key, "".join(record.tokens)) for record in records] == [
        *(("sp|P1|ONE", "MKVLAGH*"), ("two", ""), ("three", "SEQWENCE")),
    ]
    assert [record.attributes["original_id"] for record in records] == [
        *("sp|P1|ONE First protein OS=Homo sapiens", "two", "three a/b"),
    ]


words = st.text(st.characters(min_codepoint=33, exclude_categories=["C", "Z"]), min_size=1)
identifiers = words.filter(lambda word: "/" not in word and word != ".")
sequences = st.lists(st.text("ACDEFGHIKLMNPQRSTVWYX*-"), max_size=3)


@given(
    st.dictionaries(identifiers, st.tuples(st.lists(words, max_size=2), sequences), max_size=5),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_what_is_written_is_read(
    proteins: dict[str, tuple[list[str], list[str]]], blank: str
) -> None:
    headers = [" ".join([name, *rest]) for name, (rest, _) in proteins.items()]
    lines = [
        line
        for header, (_, parts) in zip(headers, proteins.values(), strict=True)
        for line in (f">{header}", *parts, *blank)
    ]
    records = read("\n".join(lines))
    assert [record.key for record in records] == list(proteins)
    assert [record.attributes["original_id"] for record in records] == headers
    assert ["".join(record.tokens) for record in records] == [
        "".join(parts) for _, parts in proteins.values()
    ]
    assert len({record.text for record in records}) == len(records)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\nThe cat\nsat\n>a\nM\n",
            "line 2: expected a header, `>` and an id, found 'THECATSAT'; "
            "--input-format text reads a sentence a line",
        ),
        (">a\nM\n> \nM\n", "line 3: expected an id after `>`, found none"),
        (
            ">a/1-9\nM\n",
            "line 1: the id 'a/1-9' cannot name a dataset of HDF5; leave out / and zero bytes",
        ),
        (">a b\nM\n>a c\nK\n", "line 3: the id 'a' is that of line 1 already"),
        (">a \0\nM\n", "line 1: the header of 'a' holds a zero byte"),
    ],
)
def test_a_fault_is_one_line_that_says_where(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value) == f"p.fasta, {message}"


# Formats


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("a.fasta", "fasta"), ("b.fa", "fasta"), ("c.faa", "fasta"), ("d.FAS", "fasta")),
        *(("x/f.fa.GZ", "fasta"), ("a.jsonl", "jsonl"), ("b.NDJSON.gz", "jsonl")),
        *(("a.conllu", "conllu"), ("a.fasta.txt", "text"), ("-", "text")),
    ],
)
def test_a_suffix_says_the_format(name: str, expected: str) -> None:
    assert find_format(name).name == find_format(Path(name)).name == expected
    assert find_format(name, "fasta").name == "fasta"


def test_a_format_that_is_not_there_is_named() -> None:
    with pytest.raises(
        InputError, match=r"^format 'fastq': expected text or fasta or conllu or jsonl$"
    ):
        find_format("a", "fastq")


# The command


def test_a_fasta_file_is_embedded() -> None:
    result = elmo("embed", "p.fasta", "out.h5", *TINY_MODEL)
    assert result.exit_code == 0, result.stderr
    headers, values = content("out.h5")
    assert headers == {
        "sp|P1|ONE": "sp|P1|ONE First protein OS=Homo sapiens",
        "two": "two",
        "three": "three a/b",
    }
    expected = ElmoEmbedder(model=TINY).embed_batch([list("MKVLAGH*"), [], list("SEQWENCE")])
    for key, array in zip(["sp|P1|ONE", "two", "three"], expected, strict=True):
        assert values[key].shape == array.shape
        assert_allclose(values[key], array, atol=1e-5)
    with h5py.File("out.h5") as file:
        assert file.attrs["format"] == "fasta"


def test_the_sum_of_layers_and_their_mean_is_seqvecs_vector() -> None:
    chosen = ("--layers", "sum", "--pooling", "mean")
    result = elmo("embed", "p.fasta", "out.h5", *chosen, *TINY_MODEL)
    assert result.exit_code == 0, result.stderr
    _, values = content("out.h5")
    array = ElmoEmbedder(model=TINY).embed_sentence(list("SEQWENCE"))
    assert_allclose(values["three"], array.sum(axis=0).mean(axis=0), atol=1e-5)
    assert values["two"].tolist() == [0] * 32


@pytest.mark.parametrize("compressed", [False, True])
def test_standard_input_and_gzip_give_the_same(compressed: bool) -> None:
    elmo("embed", "p.fasta", "whole.h5", *TINY_MODEL)
    if compressed:
        Path("p.fa.gz").write_bytes(gzip.compress(PROTEINS.encode()))
        result = elmo("embed", "p.fa.gz", "out.h5", *TINY_MODEL)
    else:
        fasta = ("--input-format", "fasta")
        result = elmo("embed", "-", "out.h5", *fasta, *TINY_MODEL, stdin=PROTEINS)
    assert result.exit_code == 0, result.stderr
    assert_same("out.h5", "whole.h5")


def assert_same(found: str | Path, expected: str | Path) -> None:
    headers, values = content(found)
    expected_headers, expected_values = content(expected)
    assert headers == expected_headers
    assert list(values) == list(expected_values)
    for key, array in values.items():
        assert_allclose(array, expected_values[key], atol=1e-6)


def test_a_fasta_file_can_be_read_as_text() -> None:
    result = elmo("embed", "p.fasta", "out.h5", "--input-format", "text", *TINY_MODEL)
    assert result.exit_code == 0, result.stderr
    with h5py.File("out.h5") as file:
        assert len(file) == 7 + 1
        assert file.attrs["format"] == "text"


def test_names_by_id_and_by_sentence_contradict_each_other() -> None:
    message = "--use-sentence-keys has no effect with fasta, which has ids"
    result = elmo("embed", "p.fasta", "out.h5", "--use-sentence-keys", *TINY_MODEL)
    assert_misused(result, message)
    with pytest.raises(InputError, match=message):
        ElmoEmbedder(model=TINY).embed_file("p.fasta", "out.h5", use_sentence_keys=True)


# Runs that end early


def embed(output: str, **settings: Any) -> Summary:
    """Embed with small windows, so that there is much to interrupt."""
    embedder = ElmoEmbedder(model=TINY, batch_tokens=8)
    return embedder.embed_file("p.fasta", output, **settings)


def write_proteins(numbers: Iterable[int]) -> None:
    random = np.random.default_rng(1)
    letters = ["".join(random.choice(list("ACDEFG"), n % 7)) for n in range(30)]
    Path("p.fasta").write_text("".join(f">p{n} of many\n{letters[n]}\n" for n in numbers))


@pytest.mark.parametrize("stops", [[1], [3, 1]])
def test_a_run_that_was_stopped_goes_on_and_ends_like_one_that_was_not(stops: list[int]) -> None:
    write_proteins(range(30))
    embed("whole.h5")
    for n_windows in stops:
        with pytest.raises(StoppedError):
            embed("out.h5", should_stop=stop_after(n_windows))
        assert not Path("out.h5").exists()
    embed("out.h5")
    assert_same("out.h5", "whole.h5")


def test_a_run_over_other_sequences_is_refused() -> None:
    write_proteins(range(30))
    with pytest.raises(StoppedError, match=r"^Stopped after sequence 7, which is kept"):
        embed("out.h5", should_stop=lambda: True)
    write_proteins(range(1, 30))
    with pytest.raises(InputError, match="its first 7 sequences are not those of this one"):
        embed("out.h5")


def test_a_fault_keeps_what_came_before_it() -> None:
    write_proteins([*range(20), 0, *range(20, 30)])
    with pytest.raises(InputError, match="line 41: the id 'p0' is that of line 1 already"):
        embed("out.h5")
    write_proteins(range(30))
    assert embed("out.h5").resumed_from == 20
    embed("whole.h5")
    assert_same("out.h5", "whole.h5")
