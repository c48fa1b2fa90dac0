"""A disk that refuses calls, and what a kill before any of its calls leaves behind."""

import builtins
import errno
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from elmo_cli.files import disk
from elmo_cli.files.resumable.paged_file import PagedFile

SYSTEM_CALLS = (
    "open",
    "fsync",
    "ftruncate",
    "link",
    "makedirs",
    "replace",
    "rmdir",
    "unlink",
)
CALLS = [
    *((os, name) for name in SYSTEM_CALLS),
    (builtins, "open"),
    (disk, "write_at"),
    (PagedFile, "checksum_of"),
    (shutil, "rmtree"),
]
"""Functions that reach the disk. A log is written by `open`, whose file fails when it
is synced."""
State = dict[Path, bytes | Path | None]
"""Contents of the files in a folder, by their paths in it; None for a folder, and the
path of the first name of a file for its others."""


class Disk:
    """Counts the calls that reach the disk, and refuses some of them."""

    def __init__(self, refused: Collection[int] = ()) -> None:
        self.refused = refused
        self.n_calls = 0

    def before_call(self) -> None:
        """Count a call, and refuse it if it is one of those."""
        self.n_calls += 1
        if self.n_calls in self.refused:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    @contextmanager
    def used(self) -> Iterator[None]:
        """Use this disk in a block."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            # It takes most of the time.
            monkeypatch.setattr(os, "fsync", lambda descriptor: None)
            for owner, name in CALLS:
                monkeypatch.setattr(
                    owner, name, guarded(getattr(owner, name), self.before_call)
                )
            yield


def guarded(
    function: Callable[..., Any], before: Callable[[], None]
) -> Callable[..., Any]:
    """Return a function that acts before each call that may change the disk."""

    def call(*arguments: Any, **settings: Any) -> Any:
        mode = settings.get("mode", arguments[1] if len(arguments) > 1 else "r")
        if function is not OPEN or set("wxa+") & set(mode):
            before()
        return function(*arguments, **settings)

    return call


OPEN = open


@contextmanager
def kills(folder: Path) -> Iterator[list[State]]:
    """Collect what a kill before each call that reaches the disk leaves behind."""
    states: list[State] = []
    is_looking = False

    def note() -> None:
        nonlocal is_looking
        if not is_looking:
            is_looking = True
            state = state_of(folder)
            if state not in states:
                states.append(state)
            is_looking = False

    disk = Disk()
    disk.before_call = note  # type: ignore[method-assign]
    with disk.used():
        yield states


def state_of(folder: Path) -> State:
    """Return the contents of a folder, without locks, which end with their process."""
    state: State = {}
    first_names: dict[disk.FileIdentity, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(".lock"):
            continue
        name = path.relative_to(folder)
        if not path.is_file():
            state[name] = None
            continue
        with OPEN(path, "rb") as file:
            first = first_names.setdefault(disk.identity(file), name)
            state[name] = file.read() if first == name else first
    return state


def restore(state: State, folder: Path) -> None:
    """Write the contents into a new folder."""
    folder.mkdir()
    for path, content in state.items():
        if content is None:
            (folder / path).mkdir()
        elif isinstance(content, Path):
            os.link(folder / content, folder / path)
        else:
            (folder / path).write_bytes(content)
