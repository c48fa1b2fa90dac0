"""What HDF5 keeps in memory of the index of a file.

It counts the bytes that an entry has in the file, some 300 for the header of a dataset, which takes
14 times as much in memory. So up to 32 MB that it may keep become more than 100 for each file that
is open, nearly all of it headers of datasets that are asked for once.
"""

from typing import Final

import h5py

_FEW_USES: Final = 5000
"""Of entries of any kind; a dataset that is read takes some twenty."""
_MOST_BYTES: Final = 1 << 27
"""HDF5 allows no more. The names of a group, which each dataset needs, are one entry."""
_BY_AGE: Final = 2


def keep_few(file: h5py.File) -> None:
    """Let go of what was not used for a while, and keep the rest however large it is.

    For files that are read. One that is written would have its names, one block, written anew for
    each dataset from half a million on.
    """
    config = file.id.get_mdc_config()
    config.max_size = _MOST_BYTES
    config.min_size = 1 << 16
    config.incr_mode = 0  # but for one large entry: flash_incr_mode is on
    config.decr_mode = _BY_AGE
    config.epoch_length, config.epochs_before_eviction = _FEW_USES, 1
    config.apply_empty_reserve = 0
    file.id.set_mdc_config(config)
