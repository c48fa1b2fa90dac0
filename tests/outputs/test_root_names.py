"""Names that the root of a file gets when all datasets are there."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from elmo_cli import open_activations
from elmo_cli.errors import OutputError
from elmo_cli.outputs import allennlp_layout, root_names
from elmo_cli.outputs.finished_output import end_attributes
from elmo_cli.outputs.metadata_cache import _KEPT_BYTES
from elmo_cli.outputs.root_names import _in_order_of_text
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.text.lines import line_record
from elmo_cli.text.records import Place, parse_shard

N_FEW = 3


@pytest.fixture
def few_by_hdf5(monkeypatch: pytest.MonkeyPatch) -> None:
    """All datasets but the first three get their names in the end."""
    monkeypatch.setattr(allennlp_layout, "NAMES_BY_HDF5", N_FEW)
    monkeypatch.setattr(root_names, "_PART_NAMES", 4)


def values(number: int) -> NDArray[np.float32]:
    return np.full((2, number % 3, 2), number, np.float32)


def write(
    path: Path,
    stop: int,
    *,
    start: int = 0,
    shard: str = "1/1",
    fault: type[BaseException] | None = None,
    **settings: Any,
) -> None:
    """Write records up to a number, those before `start` being there, and fail with a `fault`."""
    with ActivationsWriter(path, {"shard": shard}, **settings) as writer:
        assert writer.n_records == start
        for number in range(stop):
            record = line_record(f"line {number % 100}")
            if number < start:
                writer.skip(record)
            else:
                writer.write(record, values(number))
        writer.checkpoint({})
        if fault is not None:
            raise fault
        place = Place(stop, "of these lines")
        writer.complete({}, end_attributes(stop, place, {}))


def assert_holds(path: Path, n_records: int, shard: str = "1/1", *, index: bool = True) -> None:
    """That HDF5 finds these records and no others, in its order and by their names."""
    names = [str(parse_shard(shard).place(number)) for number in range(n_records)]
    with h5py.File(path) as file:
        assert list(file) == sorted([*names, *["sentence_to_index"] * index])
        assert len(file) == n_records + index
        for number, name in enumerate(names):
            assert_array_equal(file[name], values(number))
        assert "parts" not in file
        if index:
            last = {f"line {number % 100}": name for number, name in enumerate(names)}
            assert json.loads(file["sentence_to_index"][0]) == last


@given(st.integers(0, 3000))
def test_numbers_come_in_the_order_of_their_texts(last: int) -> None:
    expected = sorted(range(last + 1), key=str)
    assert list(_in_order_of_text(last)) == expected


@pytest.mark.usefixtures("few_by_hdf5")
@pytest.mark.parametrize("n_records", [0, 1, N_FEW, N_FEW + 1, 8, 30, 255, 256, 257, 600])
@pytest.mark.parametrize("shard", ["1/1", "3/16"])
def test_all_names_are_there(n_records: int, shard: str, tmp_path: Path) -> None:
    write(tmp_path / "out", n_records, shard=shard)
    assert_holds(tmp_path / "out", n_records, shard)
    with open_activations(tmp_path / "out") as activations:
        assert len(activations) == n_records
        for number, found in enumerate(activations):
            assert_array_equal(found, values(number))


def test_a_tree_of_three_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 names are in a node, and 32 nodes below one."""
    monkeypatch.setattr(allennlp_layout, "NAMES_BY_HDF5", 1000)
    n_records = 8 * 32 * 32 + 5
    write(tmp_path / "out", n_records, forget_sentences=True)
    assert_holds(tmp_path / "out", n_records, index=False)


@pytest.mark.usefixtures("few_by_hdf5")
@pytest.mark.parametrize(
    "settings",
    [{"compression": "gzip"}, {"forget_sentences": True}],
    ids=["compressed", "no sentences"],
)
def test_other_settings_keep_their_meaning(settings: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path / "out", 40, **settings)
    assert_holds(tmp_path / "out", 40, index=not settings.get("forget_sentences"))


@pytest.mark.usefixtures("few_by_hdf5")
def test_long_sentences_and_names_are_both_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allennlp_layout, "LONG_BYTES", 1)
    write(tmp_path / "out", 40)
    assert_holds(tmp_path / "out", 40)


@pytest.mark.usefixtures("few_by_hdf5")
def test_hdf5_goes_on_with_the_file(tmp_path: Path) -> None:
    """It finds room for names between ours, and forgets ours."""
    path = tmp_path / "out"
    write(path, 600)
    with h5py.File(path, "r+") as file:
        for number in range(600, 1400):
            file[str(number)] = values(number)
        for number in range(0, 1400, 3):
            del file[str(number)]
    with h5py.File(path) as file:
        names = {str(number) for number in range(1400) if number % 3}
        assert set(file) == {*names, "sentence_to_index"}
        for name in names:
            assert_array_equal(file[name], values(int(name)))


@pytest.mark.usefixtures("few_by_hdf5")
@pytest.mark.parametrize("stops", [(2, 30), (10, 11, 30), (30, 30)])
def test_a_run_that_was_stopped_makes_the_same_file(stops: tuple[int, ...], tmp_path: Path) -> None:
    path, start = tmp_path / "out", 0
    for stop in stops:
        with pytest.raises(KeyboardInterrupt):
            write(path, stop, start=start, fault=KeyboardInterrupt)
        start = stop
    write(path, 40, start=start)
    assert_holds(path, 40)


@pytest.mark.usefixtures("few_by_hdf5")
def test_a_finished_file_is_added_to(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for start, stop in [(0, 30), (30, 50), (50, 300)]:
        write(path, stop, start=start, append=True)
        assert_holds(path, stop)


@pytest.mark.usefixtures("few_by_hdf5")
def test_a_run_killed_as_it_finished_makes_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are there, and the last checkpoint; the file has not its name yet."""
    path = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("elmo_cli.outputs.checkpointed_file.os.replace", _kill_at(path))
        with pytest.raises(KeyboardInterrupt):
            write(path, 40)
    assert not path.exists()
    write(path, 40, start=40)
    assert_holds(path, 40)


def _kill_at(final: Path) -> Any:
    """A renaming that fails for this name."""
    real = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target) == final:
            raise KeyboardInterrupt
        real(source, target)

    return replace


@pytest.mark.usefixtures("few_by_hdf5")
@pytest.mark.parametrize("name", ["parts/2/9", "parts/1/5", "0"])
def test_a_dataset_that_is_missing_or_has_another_name_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        write(path, 12, fault=KeyboardInterrupt)
    with h5py.File(f"{path}.partial", "r+") as file:
        file.move(name, f"{name}0000")
    with pytest.raises(OutputError, match=r"the unfinished output is damaged: .* starts anew$"):
        write(path, 14, start=12)
    assert not path.exists()


@pytest.mark.usefixtures("few_by_hdf5")
def test_a_full_disk_under_tmpdir_is_named_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        if len(data) == root_names._ADDRESS.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data, position)

    path = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("elmo_cli.outputs.root_names.os.pwrite", pwrite)
        with pytest.raises(OutputError, match=r"cannot write temporary files there: No space left"):
            write(path, 40)
    write(path, 40, start=40)
    assert_holds(path, 40)


@pytest.mark.usefixtures("few_by_hdf5")
def test_hdf5_keeps_little_while_datasets_are_written(tmp_path: Path) -> None:
    with ActivationsWriter(tmp_path / "out", {}) as writer:
        for number in range(3000):
            writer.write(line_record("a"), values(number))
        _, _, n_bytes, _ = writer._layout._file.id.get_mdc_size()  # type: ignore[attr-defined]
        assert 0 < n_bytes <= 2 * _KEPT_BYTES
