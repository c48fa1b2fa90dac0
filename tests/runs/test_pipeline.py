"""Tests of the stream that computes many items, and of a run over records."""

import gc
import json
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from elmo_cli.distributed.plan import CorpusSettings, open_plan
from elmo_cli.distributed.workers import run_parts
from elmo_cli.errors.exceptions import StoppedError
from elmo_cli.files.shared_folder import Folder
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.runs.file_sink import Summary
from elmo_cli.runs.pipeline import per_item
from tests.support.commands import TINY
from tests.support.runs import embed, stop_after


def lengths(words: Iterable[str]) -> Iterator[int]:
    """Yield the length of each word."""
    for word in words:
        yield len(word)


def in_windows_of(n_words: int, words: Iterable[str]) -> Iterator[str]:
    """Yield words in capitals, after reading as many as a window has."""
    window = []
    for word in words:
        window.append(word)
        if len(window) == n_words:
            yield from map(str.upper, window)
            window.clear()
    yield from map(str.upper, window)


def test_per_item_puts_the_results_of_each_item_together() -> None:
    texts = ["the cat sat", "dogs", "a bird"]
    assert list(per_item(texts, str.split, lengths)) == [
        ("the cat sat", [3, 3, 3]),
        ("dogs", [4]),
        ("a bird", [1, 4]),
    ]
    assert list(per_item([], str.split, lengths)) == []


def test_per_item_yields_an_item_before_it_reads_the_next_one() -> None:
    read = []

    def texts() -> Iterator[str]:
        for text in ("the cat", "dogs"):
            read.append(text)
            yield text

    found = per_item(texts(), str.split, lengths)
    assert read == []
    assert next(found) == ("the cat", [3, 3])
    assert read == ["the cat"]


@pytest.mark.parametrize("n_words", [1, 2, 3, 10])
def test_per_item_allows_windows_that_end_within_an_item(n_words: int) -> None:
    texts = ["the cat sat", "a bird", "dogs"]
    found = per_item(texts, str.split, lambda words: in_windows_of(n_words, words))
    assert list(found) == [
        ("the cat sat", ["THE", "CAT", "SAT"]),
        ("a bird", ["A", "BIRD"]),
        ("dogs", ["DOGS"]),
    ]


def test_per_item_holds_no_results_while_it_computes_the_next_ones() -> None:
    class Result:
        """A result that weak references may follow."""

    results: list[weakref.ref[Result]] = []

    def compute(parts: Iterable[str]) -> Iterator[Result]:
        for _ in parts:
            gc.collect()
            assert not any(result() for result in results[: len(results) // 2 * 2])
            result = Result()
            results.append(weakref.ref(result))
            yield result
            del result

    found = per_item(["the cat", "a bird"], str.split, compute)
    assert len([len(next(found)[1]) for _ in range(2)]) == 2


def test_per_item_refuses_an_item_without_parts() -> None:
    with pytest.raises(ValueError, match="no parts"):
        list(per_item([""], str.split, lengths))


@pytest.fixture
def long_record(folder: Path) -> Path:
    """Write a table whose second record has many sentences, into the current folder."""
    texts = ["A bank lends.", "Birds sing by the river. " * 100, "The end."]
    path = folder / "texts.jsonl"
    path.write_text("".join(f"{json.dumps({'text': text})}\n" for text in texts))
    return path


def test_embed_reports_progress_and_stops_within_a_long_record(
    long_record: Path,
) -> None:
    progress: list[Summary] = []
    embed(
        long_record,
        "whole.hdf5",
        split_sentences=True,
        on_progress=progress.append,
    )
    assert len([each for each in progress if each.n_records == 1]) > 10

    with pytest.raises(
        StoppedError, match=r"^Stopped after record 1, before the first checkpoint"
    ):
        embed(
            long_record,
            "stopped.hdf5",
            split_sentences=True,
            should_stop=stop_after(3),
        )


def test_distribute_stops_within_a_long_record(long_record: Path) -> None:
    settings = CorpusSettings(
        model=ModelSettings(model=str(TINY), batch_tokens=8),
        text=TextSettings(split_sentences=True),
    )
    parts = Folder("out")
    plan = open_plan(parts, (str(long_record),), settings)
    n_tokens: list[int] = []
    with pytest.raises(StoppedError, match=r"^Stopped after 0 of 1 part, "):
        run_parts(
            parts,
            plan,
            settings,
            on_progress=lambda counts: n_tokens.append(counts.n_tokens_at_work),
            should_stop=stop_after(3),
        )
    assert len(n_tokens) == 3
    assert len(set(n_tokens)) == 1
