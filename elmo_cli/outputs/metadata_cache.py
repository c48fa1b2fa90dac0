"""What HDF5 keeps in memory of the index of a file.

It counts the bytes that an entry has in the file, some 300 for the header of a dataset, which takes
14 times as much in memory. Left to itself it keeps up to 32 MB, so more than 100, nearly all of
it headers of datasets that are used once. And it does not keep a larger entry. The names of a
group are one entry, a block that doubles when it is full and that every dataset needs: from
three million numbers on it would be written, or read, for each of them.
"""

from typing import Final

import h5py

from elmo_cli.outputs.damage import has_name

_KEPT_BYTES: Final = 1 << 18
"""Beside the names."""
_MOST_BYTES: Final = 1 << 27
"""HDF5 allows no more. Names take that from ten million numbers on, or a million sentences."""
_ROUND: Final = 2000
"""Datasets between two evictions, where the names take more."""


class MetadataCache:
    """Has HDF5 keep the names of datasets however many there are, and little else."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._has_names = self._is_large = False
        self._n_used = 0  # since it is large
        keep_names(file)

    def use(self) -> None:
        """To be called for each dataset, before it is made or opened.

        Where HDF5 would not keep the names, it evicts nothing but once a round.
        """
        if not self._has_names:
            self._read_names()
        if not self._is_large:
            most, *_ = self._file.id.get_mdc_size()
            self._is_large = most == _MOST_BYTES
        if self._is_large:
            at, self._n_used = self._n_used % _ROUND, self._n_used + 1
            if at < 2:
                keep_names(self._file, evicts=at == 0)

    def _read_names(self) -> None:
        """Make room beside the names that are there: HDF5 makes none."""
        has_name(self._file, "0")
        self._has_names = True
        _, _, n_bytes, _ = self._file.id.get_mdc_size()
        keep_names(self._file, n_bytes + _KEPT_BYTES)


def keep_names(
    file: h5py.File,
    n_bytes: int = _KEPT_BYTES,
    *,
    most_bytes: int = _MOST_BYTES,
    evicts: bool = True,
) -> None:
    """Have HDF5 keep so much of the index of a file, and the names; or, without evictions, all."""
    config = file.id.get_mdc_config()
    config.evictions_enabled = evicts
    config.set_initial_size = True
    config.min_size, config.max_size = min(config.min_size, _KEPT_BYTES), most_bytes
    config.initial_size = min(n_bytes, most_bytes)
    config.incr_mode = config.decr_mode = 0
    # A large entry makes the cache larger by its size. None of it is to be written beforehand:
    # that would be the names, each time.
    config.flash_incr_mode, config.flash_multiple = int(evicts), 1.0
    config.min_clean_fraction = 0.0
    file.id.set_mdc_config(config)


def keep_little(file: h5py.File) -> None:
    """Have HDF5 keep little of the index of a file, where no group has many names."""
    keep_names(file, most_bytes=_KEPT_BYTES)
