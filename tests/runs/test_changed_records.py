"""Runs whose input has changed since they began, or since their output was complete."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest.mock import patch

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli import ElmoEmbedder, write_occurrences
from elmo_cli.errors.exceptions import (
    OtherInputError,
    OutputError,
    StoppedError,
)
from elmo_cli.records.progress import ShardReader
from elmo_cli.records.record import AnnotatedPlace, Record, Span, Word
from elmo_cli.runs.file_sink import Summary
from tests.support.commands import TINY
from tests.support.layouts import layouts
from tests.support.runs import assert_same_file, stop_after

pytestmark = pytest.mark.usefixtures("folder")


@cache
def embedder() -> ElmoEmbedder:
    return ElmoEmbedder(TINY / "options.json", TINY / "weights.hdf5", batch_tokens=8)


def embed(source: str, output: Path, **options: Any) -> Summary:
    """Embed with many checkpoints."""
    with patch("elmo_cli.runs.embed_file.checkpoint_tokens", return_value=3):
        return embedder().embed_file(source, output, **options)


class Input(NamedTuple):
    """Input file, with the options of its run."""

    name: str
    content: str
    options: Mapping[str, Any] = MappingProxyType({})


TABLE = "id,other,text\na,x,the New York cat\nb,y,a dog\nc,z,a bank\n"
LISTS = '{"tokens":["New York","is"]}\n{"tokens":["a","bank"]}\n{"tokens":["cat"]}\n'


def conllu(*sentences: tuple[str, list[str]], lemma: str = "_") -> str:
    """Return CoNLL-U with sentences, each an id and its words."""
    lines = []
    for identifier, words in sentences:
        lines.append(f"# sent_id = {identifier}")
        for number, word in enumerate(words, start=1):
            lines.append("\t".join([str(number), word, lemma, *"_______"]))
        lines.append("")
    return "\n".join([*lines, ""])


TREES = conllu(("s1", ["New York", "is"]), ("s2", ["a", "cat"]), ("s3", ["dog"]))
OTHER_TREES = conllu(
    ("s1", ["New", "York", "is"]), ("s2", ["a", "cat"]), ("s3", ["dog"])
)
TWO_WORDS = "id,word\na,New\na,York\na,is\nb,a\nc,cat\n"
WORDS = "id,word\na,New York\na,is\nb,a\nc,cat\n"
CHANGES = {
    "ids": (Input("in.csv", TABLE), Input("in.csv", TABLE.replace("a,x", "new,x"))),
    "ids swapped": (
        Input("in.csv", TABLE),
        Input(
            "in.csv",
            TABLE.replace("b,", "?,").replace("a,", "b,").replace("?,", "a,"),
        ),
    ),
    "another column of ids": (
        Input("in.csv", TABLE, {"id_column": "id"}),
        Input("in.csv", TABLE, {"id_column": "other"}),
    ),
    "another column instead of the usual one": (
        Input("in.csv", TABLE),
        Input("in.csv", TABLE, {"id_column": "other"}),
    ),
    "no ids any more": (
        Input("in.csv", TABLE, {"id_column": "id"}),
        Input("in.csv", TABLE, {"id_column": ""}),
    ),
    "ids in place of numbers": (
        Input("in.csv", TABLE, {"id_column": ""}),
        Input("in.csv", TABLE, {"id_column": "id"}),
    ),
    "boundaries of tokens in JSON lines": (
        Input("in.jsonl", LISTS),
        Input("in.jsonl", LISTS.replace("New York", 'New","York')),
    ),
    "boundaries of tokens in CoNLL-U": (
        Input("in.conllu", TREES),
        Input("in.conllu", OTHER_TREES),
    ),
    "ids in CoNLL-U": (
        Input("in.conllu", TREES),
        Input("in.conllu", TREES.replace("= s", "= t")),
    ),
    "boundaries of tokens and ids in CoNLL-U": (
        Input("in.conllu", TREES),
        Input("in.conllu", OTHER_TREES.replace("= s", "= t")),
    ),
    "one word in place of two": (
        Input("in.csv", WORDS, {"word_column": "word"}),
        Input("in.csv", TWO_WORDS, {"word_column": "word"}),
    ),
    "headers of sequences": (
        Input("in.fasta", ">a one\nSEQ\n>b\nWENCE\n>c\nSEQ\n"),
        Input("in.fasta", ">a two\nSEQ\n>b\nWENCE\n>c\nSEQ\n"),
    ),
}
"""Inputs whose texts are equal, while something else differs."""


@layouts
@pytest.mark.parametrize("is_complete", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_another_input_of_equal_texts_is_refused(
    change: str, is_complete: bool, layout: str
) -> None:
    before, after = CHANGES[change]
    output = Path("out.hdf5")
    run(before, output, layout, n_windows=None if is_complete else 1)
    left = output if is_complete else Path("out.hdf5.partial")
    content = left.read_bytes()
    with pytest.raises((OtherInputError, OutputError)) as caught:
        run(after, output, layout)
    message = str(caught.value)
    assert "Use overwrite=True to " in message
    if before.options == after.options and change != "headers of sequences":
        assert re.search("in (their|its) ids, tokens or sentences", message)
    elif before.options:
        given = after.options["id_column"] or '""'
        assert f"this run has {given}" in message
    assert left.read_bytes() == content
    # The run of before is still there, and another one can take its place.
    run(before, output, layout)
    run(after, output, layout, overwrite=True)
    run(after, Path("whole.hdf5"), layout)
    assert_same_file(output, Path("whole.hdf5"))


def run(
    source: Input,
    output: Path,
    layout: str,
    n_windows: int | None = None,
    **options: Any,
) -> None:
    """Embed an input, or stop after some windows."""
    Path(source.name).write_text(source.content)
    options = {**source.options, **options, "layout": layout}
    if n_windows is None:
        embed(source.name, output, **options)
        return
    with pytest.raises(StoppedError):
        embed(source.name, output, should_stop=stop_after(n_windows), **options)


def occurrences(output: str, lemma: str, match: Any = "form") -> dict[str, int]:
    """Write the occurrences of words, all with one lemma, and return their counts."""
    words = [("s1", ["saw"]), ("s2", ["cat"])]
    Path("in.conllu").write_text(conllu(*words, lemma=lemma))
    targets = {name: name for name in ("saw", "see")}
    written = write_occurrences(embedder(), "in.conllu", output, targets, match=match)
    return written.counts


def test_lemmas_are_compared_where_they_are_matched() -> None:
    assert occurrences("out.hdf5", "see", "lemma") == {"saw": 0, "see": 2}
    with pytest.raises(OtherInputError, match="differ in their ids, tokens or"):
        occurrences("out.hdf5", "saw", "lemma")
    assert occurrences("forms.hdf5", "see") == {"saw": 1, "see": 0}
    assert occurrences("forms.hdf5", "saw") == {"saw": 1, "see": 0}  # complete already


def forget_records(output: Path, *names: str) -> None:
    """Make a complete output one of an earlier version."""
    with h5py.File(output, "r+") as file:
        for name in ("records_sha256", *names):
            del file.attrs[name]


def test_an_output_of_an_earlier_version_is_compared_by_its_texts() -> None:
    output = Path("out.hdf5")
    first = Input("in.csv", TABLE, {"id_column": "id"})
    run(first, output, "allennlp")
    forget_records(output, "id_column")
    assert embed("in.csv", output, id_column="id", layout="allennlp").was_complete
    Path("in.csv").write_text(TABLE.replace("a,x", "new,x"))
    assert embed("in.csv", output, layout="allennlp").was_complete
    Path("in.csv").write_text(TABLE.replace("dog", "cat"))
    with pytest.raises(OtherInputError, match="whose first 3 rows differ"):
        embed("in.csv", output, layout="allennlp")


def test_one_changed_record_is_a_singular() -> None:
    Path("in.txt").write_text("a cat\n")
    embed("in.txt", Path("one.h5"), layout="allennlp")
    Path("in.txt").write_text("a dog\n")
    with pytest.raises(OtherInputError, match="whose first line differs"):
        embed("in.txt", Path("one.h5"), layout="allennlp")


def test_a_run_of_an_earlier_version_resumes() -> None:
    """Resume from a log without a hash of records, which says nothing about ids."""
    source = Input("in.csv", TABLE)
    with pytest.MonkeyPatch.context() as patch:
        real: Callable[..., Any] = ShardReader.progress.fget  # type: ignore[attr-defined]
        patch.setattr(
            ShardReader,
            "progress",
            property(lambda reader: real(reader)._replace(records_sha256=None)),
        )
        run(source, Path("out.hdf5"), "packed", n_windows=1)
    summary = embed("in.csv", Path("out.hdf5"), layout="packed")
    assert summary.resumed_from > 0
    with h5py.File("out.hdf5") as file:
        assert len(file.attrs["records_sha256"]) == 64


# The hash

texts = st.text(st.sampled_from("ab \0\n'[],\ud800"), max_size=4)
numbers = st.integers(0, 2)
spans = st.builds(Span, st.just(""), numbers)
words = st.builds(Word, texts, st.builds(slice, numbers, numbers))
places = st.builds(
    AnnotatedPlace, texts, numbers, numbers, st.booleans(), st.none() | texts
)
fields: dict[str, st.SearchStrategy[Any]] = {
    "text": texts,
    "tokens": st.lists(texts, max_size=3),
    "id": st.none() | texts,
    "original_id": st.none() | texts,
    "line": st.none() | numbers,
    "error": st.none() | st.just("problem"),
    "sentences": st.lists(spans, max_size=2),
    "words": st.lists(words, max_size=2),
    "places": st.lists(places, max_size=2),
    "lemmas": st.lists(texts, max_size=2),
}


def record_of(values: dict[str, Any]) -> Record:
    return Record(**values)


records = st.fixed_dictionaries(fields).map(record_of)


def hash_of(some: list[Record], *, hashes_lemmas: bool = True) -> str | None:
    """Return the hash of records."""
    reader = ShardReader(some, hashes_lemmas=hashes_lemmas)
    for _ in reader.read():
        pass
    return reader.progress.records_sha256


@given(first=st.lists(records, max_size=3), second=st.lists(records, max_size=3))
def test_other_records_have_another_hash(
    first: list[Record], second: list[Record]
) -> None:
    assert (hash_of(first) == hash_of(second)) == (first == second)


@given(record=records, data=st.data())
def test_a_change_in_any_field_changes_the_hash(record: Record, data: Any) -> None:
    other = data.draw(records)
    for name in ("text", "tokens", "id", "original_id", "line", "words", "places"):
        changed = record._replace(**{name: getattr(other, name)})
        assert (hash_of([record]) == hash_of([changed])) == (record == changed)
    unlike = record._replace(lemmas=[*record.lemmas, "another"])
    assert hash_of([record]) != hash_of([unlike])
    without = hash_of([record], hashes_lemmas=False)
    assert without == hash_of([unlike], hashes_lemmas=False)
