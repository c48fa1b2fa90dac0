"""Power failures: what may be left of a run's files if the power fails during it.

A file system promises little about changes that were not synced. So this disk
remembers the content of each file when it was last synced, and every content since, and
the names in each folder when it was last synced, and every change since. If the power
fails,

- each change of a name that was not synced is kept or lost, in any combination. A
  rename is one change. A change is only kept with earlier changes of the same names.
- a file has the content that was last synced, or the newest one, or a mixture: each
  sector that has changed is old, new, or zero.

The power may fail before each call of `files/disk.py`, and after the last one. SQLite
is tested in the same way: https://www.sqlite.org/testing.html#crash_testing
"""

import ast
import itertools
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import pytest

import elmo_cli
from elmo_cli.files import disk
from tests.support.failing_disk import State

SECTOR_BYTES: Final = 512
"""Number of bytes that a disk writes as a whole."""
_MAX_COMBINED: Final = 4
"""Maximum number of changed names of which every combination is tried."""
CHANGING: Final = (
    "create",
    "open_to_append",
    "write_at",
    "cut",
    "copy",
    "replace",
    "link",
    "remove",
    "make_folder",
    "remove_folder",
    "remove_tree",
    "temporary_folder",
)
"""Functions of `disk` that change files."""
SYNCING: Final = ("sync", "sync_file")
_FOLDER: Final = -1
"""Number of every folder. Files have their own numbers."""

AT_END: Final = "end"
"""Call of a failure after the last call of a run."""

Names = dict[Path, int]
"""Number of the file of each name, or `_FOLDER`."""
Changes = dict[Path, int | None]
"""New number of the file of each changed name; None for a removed name."""


class CallSite(NamedTuple):
    """Place in the package that calls `disk.sync` or `disk.sync_file`."""

    path: Path
    line: int


PACKAGE: Final = Path(elmo_cli.__file__).parent


def sync_calls() -> dict[str, CallSite]:
    """Return all places in the package that call a sync, by function and text."""
    places = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "sync" not in source:
            continue
        for function in ast.walk(ast.parse(source)):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and _is_sync(node, path):
                    where = f"{path.relative_to(PACKAGE)}: {function.name}"
                    text = f"{where}: {ast.unparse(node)}"
                    if text in places:
                        text += " again"
                    places[text] = CallSite(path, node.lineno)
    return places


def _is_sync(call: ast.Call, path: Path) -> bool:
    owner, _, name = ast.unparse(call.func).rpartition(".")
    is_from_disk = owner == "disk" or path == Path(disk.__file__)
    return is_from_disk and name in SYNCING


@dataclass
class Failure:
    """What may be left after a power failure."""

    state: State
    call: str
    """What the run was about to do."""
    n_saved: int
    """Progress that the run believed to be safe."""


@dataclass
class _File:
    """Contents of a file that may be on the disk."""

    synced: bytes = b""
    newer: list[bytes] = field(default_factory=list)
    """Contents since the last sync, the newest one at the end."""

    @property
    def newest(self) -> bytes:
        return self.newer[-1] if self.newer else self.synced

    def is_now(self, content: bytes) -> None:
        """Note the content that a program would read."""
        if content != self.newest:
            self.newer.append(content)

    def sync(self) -> None:
        """Keep the newest content."""
        self.synced = self.newest
        self.newer.clear()

    def after_failure(self, kind: str, chosen: random.Random) -> bytes:
        """Return a content after a power failure: old, new, cleared, or mixed."""
        if kind == "old":
            return self.synced
        if kind == "new":
            return self.newest
        versions = [self.synced, *self.newer]
        size = len(self.newest if kind == "cleared" else chosen.choice(versions))
        sectors = []
        for start in range(0, size, SECTOR_BYTES):
            end = min(start + SECTOR_BYTES, size)
            zeros = bytes(end - start)
            found = [
                content[start:end].ljust(end - start, b"\0") for content in versions
            ]
            if len(set(found)) == 1:
                sectors.append(found[0])
            elif kind == "cleared":
                sectors.append(zeros)
            else:
                sectors.append(chosen.choice([*found, zeros]))
        return b"".join(sectors)


class UnsafeDisk:
    """Disk below a folder, which knows what a power failure during a run may leave.

    Everything that is in the folder at first is safe.
    """

    def __init__(
        self, folder: Path, chosen: random.Random, *, n_mixtures: int = 2
    ) -> None:
        self.n_saved = 0
        """Progress that the run believes to be safe."""
        self.reached: set[CallSite] = set()
        """Places that have called a sync."""
        self._failures: dict[frozenset[tuple[Path, bytes | Path | None]], Failure] = {}
        self._folder = folder
        self._chosen = chosen
        self._kinds = ["old", "new", "cleared", *["mixed"] * n_mixtures]
        self._files: dict[int, _File] = {}
        self._numbers: dict[int, int] = {}
        """Number of each file, by an inode that another file may get later."""
        self._new_number = itertools.count()
        self._names: Names = {}
        """Names that a program would see."""
        self._changes: list[Changes] = []
        """Changes of names that were not synced."""
        self._look()
        self._synced_names = dict(self._names)
        self._changes.clear()
        for file in self._files.values():
            file.sync()

    @property
    def failures(self) -> list[Failure]:
        """What power failures may leave."""
        return list(self._failures.values())

    @contextmanager
    def used(self, without: CallSite | None = None) -> Iterator[None]:
        """Watch a run in a block. A sync that `without` calls does nothing."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(os, "fsync", lambda descriptor: None)
            for name in CHANGING:
                monkeypatch.setattr(disk, name, self._watched(name))
            for name in SYNCING:
                monkeypatch.setattr(disk, name, self._watched_sync(name, without))
            yield
        self._note_failures(AT_END)

    def _watched(self, name: str) -> Callable[..., Any]:
        function = getattr(disk, name)

        def call(*arguments: Any, **settings: Any) -> Any:
            self._note_failures(name)
            return function(*arguments, **settings)

        return call

    def _watched_sync(
        self, name: str, without: CallSite | None
    ) -> Callable[[str | Path | IO[Any]], None]:
        function = getattr(disk, name)

        def call(target: str | Path | IO[Any]) -> None:
            self._note_failures(name)
            caller = sys._getframe(1)
            place = CallSite(Path(caller.f_code.co_filename), caller.f_lineno)
            self.reached.add(place)
            if place != without:
                function(target)
                self._look()
                self._sync(target)

        return call

    def _sync(self, target: str | Path | IO[Any]) -> None:
        """Keep the newest content of a file, or the names that are now in a folder."""
        if isinstance(target, str | Path) and os.path.isdir(target):
            self._sync_names(Path(target))
        else:
            where = target if isinstance(target, str | Path) else target.fileno()
            self._files[self._numbers[os.stat(where).st_ino]].sync()

    def _sync_names(self, folder: Path) -> None:
        unsynced: list[Changes] = []
        for change in self._changes:
            rest = {}
            for path, number in change.items():
                if (self._folder / path).parent.resolve() == folder.resolve():
                    _change_names(self._synced_names, {path: number})
                else:
                    rest[path] = number
            if rest:
                unsynced.append(rest)
        self._changes = unsynced

    def _look(self) -> None:
        """Note what has changed on the disk."""
        names: Names = {}
        inodes = set()
        for path in sorted(self._folder.rglob("*")):
            if path.name.endswith(".lock"):  # Locks end with their process.
                continue
            name = path.relative_to(self._folder)
            if path.is_dir():
                names[name] = _FOLDER
                continue
            inode = path.stat().st_ino
            inodes.add(inode)
            if inode not in self._numbers:
                self._numbers[inode] = next(self._new_number)
                self._files[self._numbers[inode]] = _File()
            names[name] = self._numbers[inode]
            self._files[names[name]].is_now(path.read_bytes())
        for inode in self._numbers.keys() - inodes:
            del self._numbers[inode]
        new = {
            name: number
            for name, number in names.items()
            if self._names.get(name) != number
        }
        removed: Changes = {name: None for name in self._names if name not in names}
        if new:
            self._changes.append({**removed, **new})  # a rename, if there are both
        else:
            self._changes += [{name: None} for name in removed]
        self._names = names

    def _note_failures(self, call: str) -> None:
        """Add what a power failure may leave now."""
        self._look()
        for names in self._possible_names():
            for kind in self._kinds:
                state = self._state(names, kind)
                # A later failure may leave the same, when more should be safe.
                key = frozenset(state.items())
                self._failures[key] = Failure(state, call, self.n_saved)

    def _possible_names(self) -> Iterator[Names]:
        """Yield the names that may be left: with any of the unsynced changes."""
        n_changes = len(self._changes)
        numbers = range(n_changes)
        sizes = list(range(n_changes + 1))
        if n_changes > _MAX_COMBINED:
            sizes = [0, 1, n_changes - 1, n_changes]
        for size in sizes:
            for kept in itertools.combinations(numbers, size):
                names = dict(self._synced_names)
                lost: set[Path] = set()
                for number in numbers:
                    change = self._changes[number]
                    if number in kept and not lost & change.keys():
                        _change_names(names, change)
                    else:
                        lost.update(change)
                yield names

    def _state(self, names: Names, kind: str) -> State:
        state: State = {}
        first_names: dict[int, Path] = {}
        for name, number in sorted(names.items()):
            has_folders = all(
                names.get(parent) == _FOLDER for parent in name.parents[:-1]
            )
            if has_folders and number == _FOLDER:
                state[name] = None
            elif has_folders and number in first_names:
                state[name] = first_names[number]
            elif has_folders:
                first_names[number] = name
                state[name] = self._files[number].after_failure(kind, self._chosen)
        return state


def _change_names(names: Names, change: Changes) -> None:
    for path, number in change.items():
        if number is None:
            names.pop(path, None)
        else:
            names[path] = number
