"""Random records with their activations, and how tests write and compare them."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from elmo_cli import open_activations
from elmo_cli.arrays import AnyArray
from elmo_cli.options.output import LAYOUTS, OutputSettings
from elmo_cli.outputs.required_packages import load_packages
from elmo_cli.outputs.saved_output import ResumePoint, end_attributes
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.records.progress import Progress
from elmo_cli.records.record import Record

layouts = pytest.mark.parametrize("layout", LAYOUTS)


def line_record(line: str) -> Record:
    """Return the record of a line, with tokens separated by white space."""
    return Record(line, line.split())


class Corpus(NamedTuple):
    """Records, their values, and what a file of them says of its making."""

    records: list[Record]
    values: list[AnyArray]
    attributes: dict[str, str]


_LINES = st.one_of(
    st.sampled_from(
        ["", "a b", "the cat sat", "東京 🚀 naïve", 'a "quoted" \\ line', "a\0b \t c"]
    ),
    st.text(max_size=12).map(str.strip),
)


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    """Draw lines or FASTA sequences, in every shape that `elmo embed` writes."""
    keyed = draw(st.booleans())
    pooled = draw(st.booleans())
    lines = draw(st.lists(_LINES, max_size=12))
    attributes = {"layers": "all", "format": "fasta" if keyed else "text"}
    attributes |= {"pooling": "mean"} if pooled else {}
    n_layers = draw(st.sampled_from([(), (1,), (3,)]))
    width = draw(st.integers(1, 5))
    records = []
    values = []
    random = np.random.default_rng(draw(st.integers(0, 99)))
    for index, line in enumerate(lines):
        key = f"id.{index}" if keyed else None
        record_attributes = {"original_id": f"id.{index} of {line!r}"} if keyed else {}
        records.append(
            Record("" if keyed else line, line.split(), key, record_attributes)
        )
        n_tokens = () if pooled else (len(line.split()),)
        shape = (*n_layers, *n_tokens, width)
        values.append(random.normal(size=shape).astype(np.float32))
    return Corpus(records, values, attributes)


def lines(*texts: str) -> Corpus:
    """Return a corpus of lines, whose values are their numbers."""
    values = [
        np.full((2, len(text.split()), 3), i, np.float32)
        for i, text in enumerate(texts)
    ]
    return Corpus([line_record(text) for text in texts], values, {"layers": "0,1"})


def open_writer(
    path: str | Path,
    attributes: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> ActivationsWriter:
    """Open a writer. See `OutputSettings` for the options."""
    options.setdefault("forget_sentences", attributes.get("format") == "fasta")
    settings = OutputSettings(**options).for_path(path, pooled="pooling" in attributes)
    load_packages(settings)
    return ActivationsWriter(path, settings, attributes)


def finish(writer: ActivationsWriter) -> None:
    """Complete a file, as a run does at the end of its input."""
    progress = Progress(writer.n_records, "0" * 64)
    attributes = end_attributes(writer.n_records, progress, {})
    writer.finish(ResumePoint(progress), attributes)


def write(
    corpus: Corpus,
    path: str | Path,
    layout: str | None = None,
    *,
    checkpoints: Collection[int] = (),
    stops: Iterable[int] = (),
    **options: Any,
) -> None:
    """Write a file with checkpoints after some records, in runs that stop.

    A run that stops loses what came after its last checkpoint.
    """
    for stop in (*sorted(stops), None):
        with open_writer(path, corpus.attributes, layout=layout, **options) as writer:
            n_written = writer.n_records
            for index, (record, values) in enumerate(zip(*corpus[:2], strict=True)):
                if index < n_written:
                    writer.skip_written(index, record)
                    continue
                if index == stop:
                    break
                writer.write(record, values)
                if index + 1 in checkpoints:
                    writer.checkpoint(ResumePoint(Progress(index + 1, "")))
            if stop is None:
                finish(writer)


def assert_holds(path: str | Path, corpus: Corpus, *, in_order: bool = True) -> None:
    """Assert that a file has the records of a corpus, in every way to read them.

    Where the order of keys is lost (AllenNLP's layout), not `in_order`.
    """
    with open_activations(path) as activations:
        assert len(activations) == len(corpus.records)
        arrays = list(activations)
        for number, (record, values) in enumerate(zip(*corpus[:2], strict=True)):
            index = number if in_order else activations.index_of(record.id or "")
            for read in (
                activations[index],
                arrays[index],
                activations[index - len(arrays)],
            ):
                assert read.dtype == values.dtype
                assert_array_equal(read, values)
            assert activations.id(index) == record.id
            read_record = list(activations.records())[index][0]
            assert read_record.attributes == record.attributes
            if record.id:
                assert_array_equal(activations[record.id], values)
            elif record.text:
                last = max(
                    i
                    for i, each in enumerate(corpus.records)
                    if each.text == record.text
                )
                assert activations.index_of(record.text) == last
                assert (number != last) or activations.sentence(number) == record.text
        for name in ("no such record", ""):
            assert name not in activations
