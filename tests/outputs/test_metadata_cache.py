"""What HDF5 keeps of an index, and how often it goes over the names of datasets."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from elmo_cli.outputs import metadata_cache
from elmo_cli.outputs.checkpointed_file import CheckpointedFile
from elmo_cli.outputs.metadata_cache import MetadataCache
from elmo_cli.outputs.reader import Activations, open_activations
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.text.lines import line_record

VALUES = np.arange(8, dtype=np.float32).reshape(2, 4)
N_NAMES, NAME_BYTES = 4000, 64


def name(number: int) -> str:
    return f"{number:0{NAME_BYTES - 1}}"


def open_writer(path: Path) -> ActivationsWriter:
    return ActivationsWriter(path, {"layers": "top"}, use_sentence_keys=True)


def write(path: Path, start: int, stop: int, fault: type[BaseException] | None = None) -> None:
    """Add datasets with long names to a file, and then fail if there is a `fault`."""
    with open_writer(path) as writer:
        add(writer, start, stop)
        writer.checkpoint({})
        if fault is not None:
            raise fault


def add(writer: ActivationsWriter, start: int, stop: int) -> None:
    for number in range(stop):
        if number < start:
            writer.skip(line_record(name(number)))
        else:
            writer.write(line_record(name(number)), VALUES + number)


def n_cached(file: Any) -> int:
    *_, n_entries = file.id.get_mdc_size()
    return int(n_entries)


def read_all(activations: Activations) -> None:
    for number, found in enumerate(activations):
        assert_array_equal(found, VALUES + number)


@pytest.fixture
def n_passed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that HDF5 writes, and those that it reads while a file is written."""
    passed = [0, 0]
    write, readinto = CheckpointedFile.write, CheckpointedFile.readinto

    def count_write(self: CheckpointedFile, data: Any, /) -> int:
        passed[0] += memoryview(data).nbytes
        return write(self, data)

    def count_read(self: CheckpointedFile, buffer: Any, /) -> int:
        passed[1] += memoryview(buffer).nbytes
        return readinto(self, buffer)

    monkeypatch.setattr(CheckpointedFile, "write", count_write)
    monkeypatch.setattr(CheckpointedFile, "readinto", count_read)
    return passed


def test_hdf5_keeps_few_of_the_datasets_that_are_written_and_read(tmp_path: Path) -> None:
    with open_writer(tmp_path / "out") as writer:
        add(writer, 0, N_NAMES)
        assert 0 < n_cached(writer._layout._file) < N_NAMES / 2  # type: ignore[attr-defined]
    with open_activations(tmp_path / "out") as activations:
        read_all(activations)
        assert 0 < n_cached(activations._hdf5) < N_NAMES / 2


def test_a_run_that_goes_on_keeps_as_few(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", 0, N_NAMES, KeyboardInterrupt)
    with open_writer(tmp_path / "out") as writer:
        add(writer, N_NAMES, N_NAMES + 1)
        assert 0 < n_cached(writer._layout._file) < N_NAMES / 2  # type: ignore[attr-defined]


# With HDF5's own settings, names beyond 32 MB are written for each dataset: here, 2 GB.
@pytest.mark.parametrize("most_bytes", [1 << 27, 1 << 18])
@pytest.mark.parametrize("kept", [0, N_NAMES // 2])
def test_names_are_written_now_and_then_even_where_hdf5_would_not_keep_them(
    most_bytes: int, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_passed: list[int]
) -> None:
    monkeypatch.setattr(metadata_cache, "_KEPT_BYTES", 1 << 16)
    monkeypatch.setattr(metadata_cache, "_MOST_BYTES", most_bytes)
    if kept:
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "out", 0, kept, KeyboardInterrupt)
    write(tmp_path / "out", kept, N_NAMES)
    assert max(n_passed) < 50_000_000
    with open_activations(tmp_path / "out") as activations:
        read_all(activations)


def test_names_that_were_read_leave_room_for_other_entries(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "out", "w") as file:
        for number in range(2 * N_NAMES):
            file.id.links.create_soft(name(number).encode(), b"nowhere")
    with h5py.File(tmp_path / "out", "r+") as file:
        cache = MetadataCache(file)
        for number in range(50):
            cache.use()
            file[str(number)] = VALUES
        assert n_cached(file) > 50
