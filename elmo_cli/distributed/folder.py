"""What lies in a folder of parts: written under its name when it is complete.

part-00000000.parquet ...
_elmo/plan.json          inputs, settings and parts
_elmo/attempts/          of each part in work, the workers that have begun it
_elmo/runs/              of each run, how far it is
_elmo/failed.json        the parts that the last run left out, and why
_elmo/complete.json      written last
_elmo/tmp/               files that are not complete
"""

import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from elmo_cli.atomic import rename_synced
from elmo_cli.errors import OutputError, first_line
from elmo_cli.outputs.parts import COMPLETE, PLAN, open_location, part_name, part_number
from elmo_cli.outputs.writer import output_error

ATTEMPTS: Final = "_elmo/attempts"
RUNS: Final = "_elmo/runs"
FAILED: Final = "_elmo/failed.json"
_TEMPORARY: Final = "_elmo/tmp"
BEAT_SECONDS: Final = 10.0
"""Seconds between the beats of a run."""
_DEAD_SECONDS: Final = 60.0
"""A run without a beat for so long has ended."""


def process_name() -> str:
    """What tells a process from all others."""
    return f"{socket.gethostname()}-{os.getpid()}"


class Folder:
    """A folder on a local or shared disk, or on any file system that pyarrow knows."""

    def __init__(self, location: str) -> None:
        self.location = location if "://" in location else os.path.abspath(location)
        self._file_system, self._root = open_location(location)
        self._is_local = "://" not in location

    def read(self, name: str) -> Any:
        """What a file of JSON holds; None where it is missing or not complete."""
        try:
            with self._file_system.open_input_stream(f"{self._root}/{name}") as file:
                return json.loads(file.read())
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise OutputError(f"{self.location}: cannot read the folder: {error}") from None

    def write(self, name: str, content: Any) -> None:
        """Write a file of JSON."""
        self.publish(name, lambda file: file.write(json.dumps(content).encode()))

    def publish(self, name: str, write: Callable[[IO[bytes]], object]) -> None:
        """Write a file under another name, and rename it.

        Raises:
            OutputError: it cannot be written; one of that name is as it was.
        """
        temporary = f"{self._root}/{_TEMPORARY}/{uuid.uuid4().hex}"
        path = f"{self._root}/{name}"
        try:
            for folder in (temporary, path):
                self._file_system.create_dir(os.path.dirname(folder), recursive=True)
            try:
                if self._is_local:
                    with open(temporary, "xb") as file:
                        write(file)
                    rename_synced(Path(temporary), Path(path))
                else:
                    with self._file_system.open_output_stream(temporary) as stream:
                        write(stream)
                    self._file_system.move(temporary, path)
            except BaseException:
                with suppress(OSError):
                    self._file_system.delete_file(temporary)
                raise
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.has(name):
                return  # another run has written it, and removed what was left of this one
            if error.errno is None:
                raise OutputError(f"{path}: cannot write the output: {first_line(error)}") from None
            raise output_error(Path(path), error) from None

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return bool(self._file_system.get_file_info(f"{self._root}/{name}").is_file)

    def names(self, folder: str = "") -> list[str]:
        """The names in a folder of the folder."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(f"{self._root}/{folder}", allow_not_found=True)
        return [info.base_name for info in self._file_system.get_file_info(selector)]

    def parts(self) -> set[int]:
        """The parts that are there."""
        return {number for name in self.names() if (number := part_number(name)) is not None}

    def part_attributes(self, number: int) -> dict[str, str]:
        """What a part says of its making."""
        from pyarrow import parquet

        path = f"{self._root}/{part_name(number)}"
        metadata = parquet.read_metadata(path, filesystem=self._file_system).metadata
        found: dict[str, str] = json.loads(metadata[b"elmo"])
        return found

    def remove(self, *names: str) -> None:
        """Remove files, or folders with all in them; those that are missing too."""
        for name in names:
            path = f"{self._root}/{name}"
            with suppress(FileNotFoundError):
                if self._file_system.get_file_info(path).is_file:
                    self._file_system.delete_file(path)
                else:
                    self._file_system.delete_dir(path)

    def clear(self) -> None:
        """Remove all that runs have written, the plan last."""
        if self.has(PLAN):
            self.remove(COMPLETE, *map(part_name, self.parts()), PLAN, "_elmo")

    def remove_leftovers(self) -> None:
        """Remove what killed runs have left, where none is at work."""
        self.remove(_TEMPORARY, ATTEMPTS)

    def begin(self, number: int) -> int:
        """Note that this process begins a part.

        Returns:
            How many have begun it before and not ended it.
        """
        name = f"{ATTEMPTS}/{number}"
        before: list[str] = self.read(name) or []
        self.write(name, [*before, process_name()])
        return len(before)

    def end(self, number: int) -> None:
        """Note that a part has ended, well or with an error."""
        self.remove(f"{ATTEMPTS}/{number}")

    def other_runs(self, shard: str | None) -> list[str]:
        """The runs that are at work on the same parts, by their last beats."""
        found = []
        for name in self.names(RUNS):
            beat = self.read(f"{RUNS}/{name}") or {"time": 0}
            shares = shard is None or beat.get("shard") in (None, shard)
            is_alive = time.time() - beat["time"] < _DEAD_SECONDS and _may_run(name)
            if name != process_name() and shares and is_alive:
                found.append(name)
        return found


def _may_run(process: str) -> bool:
    """Whether a process runs, as far as can be known here."""
    host, _, pid = process.rpartition("-")
    if host != socket.gethostname() or os.name == "nt":
        return True
    try:
        os.kill(int(pid), 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
