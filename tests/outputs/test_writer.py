import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import Corpus, corpora, finish, layouts, line_record, lines, open_writer
from layouts import write as write_corpus
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from elmo_cli.atomic import check_output
from elmo_cli.errors import InputError, OutputError
from elmo_cli.outputs.resumable_file import ResumableFile


def values(number: float = 0, n_tokens: int = 2) -> NDArray[np.float32]:
    return np.full((3, n_tokens, 4), number, dtype=np.float32)


def write(
    path: str | Path, *sentences: str, fault: type[BaseException] | None = None, **settings: Any
) -> None:
    """Write sentences, and then fail if there is a `fault`."""
    with open_writer(path, **settings) as writer:
        for number, sentence in enumerate(sentences):
            writer.write(line_record(sentence), values(number, n_tokens=2 if sentence else 0))
        if fault is not None:
            raise fault
        finish(writer)


def replace_writes(monkeypatch: pytest.MonkeyPatch, act: Callable[..., int]) -> None:
    """Take the place of the system's write under HDF5; `act` gets the real one first."""
    real = ResumableFile._write_at
    monkeypatch.setattr(ResumableFile, "_write_at", lambda *arguments: act(real, *arguments))


# What a file holds


def test_datasets_are_named_by_line_and_indexed_by_sentence(
    tmp_path: Path,
) -> None:
    write(tmp_path / "out", "a b", "naïve 東京", "", "a b", 'quoted " \\ one')
    with h5py.File(tmp_path / "out", "r") as file:
        assert sorted(file) == ["0", "1", "2", "3", "4", "sentence_to_index"]
        assert (file["2"].shape, file["2"].dtype) == ((3, 0, 4), np.float32)
        assert_array_equal(file["3"], values(3))
        index = file["sentence_to_index"]
        assert (index.shape, h5py.check_string_dtype(index.dtype).encoding) == ((1,), "utf-8")
        assert json.loads(index[0]) == {"a b": "3", "naïve 東京": "1", 'quoted " \\ one': "4"}


# Sentences as names


@pytest.mark.parametrize("sentence", ["a/b", "1 / 2 c", "http://c", ":", "a.b", "x" * 5000])
def test_a_sentence_names_its_dataset_and_a_blank_line_none(sentence: str, tmp_path: Path) -> None:
    write(tmp_path / "out", "other", "", sentence, use_sentence_keys=True)
    with h5py.File(tmp_path / "out", "r") as file:
        assert_array_equal(file[sentence], values(2))
        assert len(file) == 2  # nor an index


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        *(("other", sentence) for sentence in (".", "/", "a\0b")),
        *map(str.split, ("a a", "a/b a/b", "a/b a", "a a/b", "a a/b/c")),
    ],
)
def test_a_sentence_that_cannot_name_its_dataset_is_an_error(
    first: str, second: str, compression: str | None, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"use_sentence_keys": True, "compression": compression}
    with pytest.raises(InputError) as caught:
        write(tmp_path / "out", first, "", second, **settings)
    assert str(caught.value) == (
        f"line 3: the sentence {second!r} cannot name a dataset, or names an existing one. "
        "Remove --use-sentence-keys."
    )
    assert list(tmp_path.iterdir()) == []


# The same file, byte for byte

numbers = st.sets(st.integers(0, 12), max_size=4)


@layouts
@pytest.mark.parametrize("compression", [None, "gzip"])
@given(corpus=corpora(), checkpoints=numbers, stops=numbers, block_bytes=st.sampled_from([1, 300]))
@settings(max_examples=10)
def test_a_run_that_resumes_writes_the_same_bytes(
    layout: str,
    compression: str | None,
    corpus: Corpus,
    checkpoints: set[int],
    stops: set[int],
    block_bytes: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("files")
    options: dict[str, Any] = {"compression": compression, "checkpoints": checkpoints}
    with patch("elmo_cli.outputs.hdf5.BLOCK_BYTES", block_bytes):
        write_corpus(corpus, folder / "whole", layout, **options)
        write_corpus(corpus, folder / "parts", layout, stops=stops, **options)
    assert (folder / "parts").read_bytes() == (folder / "whole").read_bytes()
    assert len(list(folder.iterdir())) == 2


@layouts
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_stopped_runs_write_an_equal_file_with_many_records(
    layout: str, compression: str | None, tmp_path: Path
) -> None:
    corpus = lines(*map(str, range(3000)))
    options: dict[str, Any] = {"compression": compression, "checkpoints": range(100, 3000, 300)}
    write_corpus(corpus, tmp_path / "whole", layout, **options)
    write_corpus(corpus, tmp_path / "parts", layout, stops=[99, 150, 1000, 2999], **options)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


# A file that is complete, or none


@pytest.mark.parametrize("n_good", [0, 5, 30])
@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, ". Make room and run the command again."), (errno.EIO, "")],
)
def test_a_disk_that_fails_is_an_error_whenever_it_does(
    n_good: int, number: int, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = iter(range(n_good))

    def fail(real: Callable[..., int], *arguments: Any) -> int:
        if next(writes, None) is None:
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    replace_writes(monkeypatch, fail)
    with pytest.raises(OutputError) as caught:
        write(tmp_path / "out", *map(str, range(100)))
    assert str(caught.value) == (
        f"{tmp_path / 'out'}: cannot write the output: {os.strerror(number)}{advice}"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_in_the_middle_of_a_write_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any) -> int:
        raise KeyboardInterrupt

    replace_writes(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", "a", "b")
    assert list(tmp_path.iterdir()) == []


def test_writes_that_take_a_part_only_are_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_writes(monkeypatch, lambda real, file, at, data: real(file, at, data[:7]))
    write(tmp_path / "out", "a", "b")
    with h5py.File(tmp_path / "out", "r") as file:
        assert_array_equal(file["1"], values(1))


# Before anything is computed


def test_a_folder_that_is_not_writable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # who tests may be root
    with pytest.raises(OutputError, match=f"/out: the folder {tmp_path} is not writable$"):
        write(tmp_path / "out")


def test_the_input_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("a line\n")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OutputError, match="the output is also an input"):
        check_output(tmp_path / "link", path, overwrite=True)
    check_output(tmp_path / "new", path, overwrite=True)


def test_errors_of_other_kinds_are_not_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_writer(tmp_path / "out") as writer:
        writer.write(line_record("a"), values())
        writer.checkpoint({"place": ["1", ""]})

    def bug(*_: object) -> None:
        raise AttributeError("of a bug")

    monkeypatch.setattr("elmo_cli.outputs.hdf5.AllenNlpWriter.write", bug)
    with pytest.raises(AttributeError, match="of a bug"), open_writer(tmp_path / "out") as writer:
        writer.write(line_record("b"), values())
    monkeypatch.undo()
    with open_writer(tmp_path / "out") as writer:
        assert writer.n_records == 1  # it is all there


def test_an_unfinished_file_that_is_damaged_is_reported(tmp_path: Path) -> None:
    with open_writer(tmp_path / "out", layout="packed") as writer:
        writer.write(line_record("a"), values())
        writer.checkpoint({"place": ["1", ""]})
    path = tmp_path / "out.partial"
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(OutputError, match=r"^\S+out\.partial: the file is damaged: its bytes .*\."):
        open_writer(tmp_path / "out", layout="packed")
    with open_writer(tmp_path / "out", layout="packed", overwrite=True) as writer:
        assert writer.n_records == 0


@pytest.mark.parametrize("layout", ["allennlp", "packed"])
def test_many_lines_log_one_hint_at_the_packed_layout(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("elmo_cli.outputs.hdf5.MANY_RECORDS", 3)
    write(tmp_path / "out", *"abcdef", layout=layout)
    warnings = [message for message in caplog.messages if "use --layout packed" in message]
    assert len(warnings) == (layout == "allennlp")
