"""HDF5 files that are read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.files.locks import NO_LOCKS
from elmo_cli.files.named_pipes import refuse_named_pipe

if TYPE_CHECKING:
    import h5py


def open_hdf5_to_read(path: str | Path, **arguments: Any) -> "h5py.File":
    """Open an HDF5 file for reading, with a lock where the file system has locks.

    Complete files of this package do not need one. `arguments` are those of
    `h5py.File`.
    """
    import h5py

    refuse_named_pipe(path)
    try:
        return h5py.File(path, "r", **arguments)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        # The variable HDF5_USE_FILE_LOCKING takes precedence over the argument.
        return h5py.File(path, "r", locking=False, **arguments)
