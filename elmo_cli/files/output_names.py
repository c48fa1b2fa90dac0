"""Names of the files that a run writes for one output, or removes at its end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

OLD_SUFFIX: Final = ".elmo-old"
"""End of the name of a file while a new one takes its place."""


@dataclass(frozen=True)
class UnfinishedPaths:
    """Paths of the files next to an output until it is complete."""

    partial: Path
    log: Path
    lock: Path


def unfinished_paths(final: Path) -> UnfinishedPaths:
    """Return the paths of an unfinished file, its log and its lock."""
    name = f"{final.name}.partial"
    return UnfinishedPaths(
        partial=final.with_name(name),
        log=final.with_name(f"{name}.log"),
        lock=final.with_name(f"{name}.lock"),
    )


def partial_path(path: Path) -> Path:
    """Return the name of a file that is written at once, until it is complete."""
    return path.with_name(f"{path.name}.elmo-partial")


def old_path(path: Path) -> Path:
    """Return the name of a file while a new one takes its place."""
    return path.with_name(f"{path.name}{OLD_SUFFIX}")


def names_of_output(path: Path) -> list[Path]:
    """Return all names that a run may take for an output, its own first."""
    unfinished = unfinished_paths(path)
    return [
        path,
        partial_path(path),
        old_path(path),
        unfinished.partial,
        unfinished.log,
        partial_path(unfinished.log),
        unfinished.lock,
    ]
