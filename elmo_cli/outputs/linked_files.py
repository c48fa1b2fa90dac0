"""The files that a file of links leads to: whether they are there, and still what they were."""

import os
from collections.abc import Iterable
from typing import Any, Final

import h5py

from elmo_cli.errors import InputError
from elmo_cli.outputs.damage import has_name
from elmo_cli.outputs.metadata_cache import keep_names

RANGES: Final = "ranges"
"""The dataset by which a packed file of links is known."""

_OWN = ("records", "shard", "skipped")
"""Attributes that may differ from file to file."""


class LinkedFiles:
    """The files behind the links of one.

    They stay open: HDF5 would open one again for each dataset, and read the names of all others.
    """

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._opened: dict[str, h5py.File] = {}

    def find(self, name: str) -> Any:
        """What has a name in the file, or in another one that it leads to.

        Raises:
            ValueError: there is no such name.
            InputError: it leads to a file that is not there, or not the one that was linked.
        """
        links, key = self._file.id.links, name.encode()
        if not has_name(self._file, name):
            raise ValueError(f"there is no {name}")
        if links.get_info(key).type == h5py.h5l.TYPE_HARD:
            return self._file[name]
        if links.get_info(key).type == h5py.h5l.TYPE_EXTERNAL:
            check_there(self._file, links.get_val(key)[0].decode())
        found = self._file[name]
        if found.file.filename != self._file.filename:
            self.keep(found.file)
        return found

    def keep(self, linked: h5py.File) -> None:
        """Keep a file open that a link has opened.

        Raises:
            InputError: it is not the file that was linked.
        """
        name = linked.filename
        if name in self._opened:
            return
        self._opened[name] = linked
        keep_names(linked)
        ours, theirs = self._file.attrs, linked.attrs
        if any(theirs.get(key) != value for key, value in ours.items() if key not in _OWN):
            raise changed(self._file, name)

    def open_all(self, names: Iterable[str]) -> None:
        """Open the files behind virtual datasets; of one that is missing, HDF5 would read zeros.

        Raises:
            InputError: a file is not there, or not as it was.
        """
        for name in names:
            for source in self._file[name].virtual_sources():
                path = check_there(self._file, source.file_name)
                if path not in self._opened:
                    self.keep(h5py.File(path, "r"))
                if self._opened[path][source.dset_name].size != source.vspace.get_select_npoints():
                    raise changed(self._file, path)

    def close(self) -> None:
        """Let go of them."""
        for file in self._opened.values():
            file.close()
        self._opened.clear()


def check_there(file: h5py.File, target: str) -> str:
    """The path of a file that another one links to; not that of a pipe, which waits.

    Raises:
        InputError: it is not there.
    """
    path = os.path.join(os.path.dirname(file.filename), target)
    if not os.path.isfile(path):
        raise InputError(
            f"{file.filename}: links to {target}, and no such file is there; bring it back, "
            "or merge the shards again"
        )
    return path


def changed(file: h5py.File, target: str) -> InputError:
    """What to say of a file that is not the one that was linked."""
    return InputError(
        f"{file.filename}: links to {target}, which has changed since; merge the shards again"
    )


def is_linked(file: h5py.File) -> bool:
    """Whether a file is of links to others, as `elmo merge --link` writes it."""
    first, _ = file.id.links.iterate(lambda name: name) if len(file) else (b"/", 0)
    return has_name(file, RANGES) or isinstance(file.get(first, getlink=True), h5py.ExternalLink)
