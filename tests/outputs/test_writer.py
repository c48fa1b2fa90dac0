"""HDF5 as it is written: names, bytes despite stops, and writes that fail."""

import errno
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_cli.errors.exceptions import OutputError
from elmo_cli.files import disk
from elmo_cli.outputs.saved_output import ResumePoint
from elmo_cli.records.progress import Progress
from tests.support.layouts import (
    Corpus,
    corpora,
    finish,
    layouts,
    lines,
    open_writer,
    write,
)


def test_datasets_are_named_by_line_and_indexed_by_sentence(tmp_path: Path) -> None:
    write(lines("a b", "naïve 東京", "", "a b", 'quoted " \\ one'), tmp_path / "out")
    with h5py.File(tmp_path / "out", "r") as file:
        assert sorted(file) == ["0", "1", "2", "3", "4", "sentence_to_index"]
        blank = file["2"]
        assert blank.shape == (2, 0, 3)
        assert blank.dtype == np.float32
        assert np.all(file["3"][()] == 3)
        index = file["sentence_to_index"]
        assert index.shape == (1,)
        assert h5py.check_string_dtype(index.dtype).encoding == "utf-8"
        assert json.loads(index[0]) == {
            "a b": "3",
            "naïve 東京": "1",
            'quoted " \\ one': "4",
        }


@pytest.mark.parametrize(
    "sentence", ["a/b", "1 / 2 c", "http://c", ":", "a.b", "x" * 5000]
)
def test_a_sentence_names_its_dataset_and_a_blank_line_none(
    sentence: str, tmp_path: Path
) -> None:
    write(lines("other", "", sentence), tmp_path / "out", use_sentence_keys=True)
    with h5py.File(tmp_path / "out", "r") as file:
        assert np.all(file[sentence][()] == 2)
        assert len(file) == 2  # nor an index


record_numbers = st.sets(st.integers(0, 12), max_size=4)


@layouts
@pytest.mark.parametrize("compression", [None, "gzip"])
@given(
    corpus=corpora(),
    checkpoints=record_numbers,
    stops=record_numbers,
    block_bytes=st.sampled_from([1, 300]),
)
@settings(max_examples=10)
def test_a_run_that_resumes_writes_the_same_bytes(
    layout: str,
    compression: Any,
    corpus: Corpus,
    checkpoints: set[int],
    stops: set[int],
    block_bytes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("files")
    options = {"compression": compression, "checkpoints": checkpoints}
    with patch("elmo_cli.outputs.hdf5_packed.BLOCK_BYTES", block_bytes):
        write(corpus, folder / "whole", layout, **options)
        write(corpus, folder / "parts", layout, stops=stops, **options)
    assert (folder / "parts").read_bytes() == (folder / "whole").read_bytes()
    assert len(list(folder.iterdir())) == 2


@layouts
def test_many_records_are_written_alike_with_stops(layout: str, tmp_path: Path) -> None:
    corpus = lines(*map(str, range(1200)))
    checkpoints = range(100, 1200, 300)
    whole = tmp_path / "whole"
    parts = tmp_path / "parts"
    stops = [99, 150, 1000, 1199]
    write(corpus, whole, layout, checkpoints=checkpoints)
    write(corpus, parts, layout, checkpoints=checkpoints, stops=stops)
    assert parts.read_bytes() == whole.read_bytes()


@layouts
def test_a_checkpoint_with_too_few_records_is_an_error(
    layout: str, tmp_path: Path
) -> None:
    corpus = lines("a", "b")
    with open_writer(tmp_path / "out", corpus.attributes, layout=layout) as writer:
        writer.write(corpus.records[0], corpus.values[0])
        # as after a fault in the program, or in a log without checksum
        writer.n_records = 2
        writer.checkpoint(ResumePoint(Progress(2, "")))
    with pytest.raises(OutputError, match=r"expected 2 records, found 1$"):
        write(corpus, tmp_path / "out", layout)


@layouts
def test_a_complete_file_takes_no_more_records(layout: str, tmp_path: Path) -> None:
    corpus = lines("a", "b")
    write(corpus, tmp_path / "out", layout)
    content = (tmp_path / "out").read_bytes()
    with open_writer(tmp_path / "out", corpus.attributes, layout=layout) as writer:
        assert writer.is_complete
        assert writer.n_records == 2
        for index, record in enumerate(corpus.records):
            writer.skip_written(index, record)
        with pytest.raises(ValueError, match="is complete: it takes no more records"):
            writer.write(corpus.records[0], corpus.values[0])
        with pytest.raises(ValueError, match="is complete: it takes no more records"):
            finish(writer)
    assert (tmp_path / "out").read_bytes() == content


@pytest.mark.parametrize("n_good", [0, 30])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (OSError(errno.EIO, ""), "/out: cannot write the output: Input/output error"),
        (OSError(errno.ENOSPC, ""), "on device. Make room and run the command again."),
        (KeyboardInterrupt(), ""),
    ],
)
def test_a_write_that_fails_leaves_no_file(
    fault: BaseException, message: str, n_good: int, tmp_path: Path, monkeypatch: Any
) -> None:
    write_at = disk.write_at
    writes = iter(range(n_good))

    def fail(*arguments: Any) -> int:
        if next(writes, None) is None:
            raise fault
        return write_at(*arguments)

    monkeypatch.setattr(disk, "write_at", fail)
    with pytest.raises((OutputError, KeyboardInterrupt)) as caught:
        write(lines(*map(str, range(100))), tmp_path / "out")
    assert str(caught.value).endswith(message)
    assert list(tmp_path.iterdir()) == []


def test_writes_of_a_part_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = disk.write_at
    monkeypatch.setattr(
        disk, "write_at", lambda file, at, data: real(file, at, data[:7])
    )
    write(lines("a", "b"), tmp_path / "out")
    with h5py.File(tmp_path / "out", "r") as file:
        assert np.all(file["1"][()] == 1)


def test_a_read_only_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # who tests may be root
    with pytest.raises(
        OutputError, match=f"/out: the folder {tmp_path} is not writable$"
    ):
        write(lines(), tmp_path / "out")


@layouts
def test_many_lines_log_one_hint_at_the_packed_layout(
    layout: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("elmo_cli.outputs.hdf5_allennlp.MANY_RECORDS", 3)
    write(lines(*"abcdef"), tmp_path / "out", layout)
    assert caplog.text.count("use layout='packed'") == (layout == "allennlp")
