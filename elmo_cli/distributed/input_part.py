"""Part of the inputs of a distributed run."""

from typing import NamedTuple

from elmo_cli.errors.wording import counted


class Part(NamedTuple):
    """A stretch of an input, which becomes one file."""

    number: int
    first: int
    """Index of its first record in all inputs."""
    path: str
    start: int
    """Byte of the file at which it starts, or row of Parquet, from 0."""
    line: int
    """Line of the file at which it starts, or row, from 1."""
    n_lines: int
    n_records: int
    sha256: str = ""
    """SHA-256 of its bytes, after decompression. Parquet has none."""

    def __str__(self) -> str:
        records = counted(self.n_records, "record")
        return f"part {self.number} ({self.path}, {records} from {self.line:,})"
