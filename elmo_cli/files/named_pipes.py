"""Named pipes in place of files."""

import errno
from pathlib import Path


def refuse_named_pipe(path: str | Path) -> None:
    """Raise an `OSError` for a named pipe: opening it would wait for who writes it.

    Pipes in /dev are allowed: a shell writes `<(...)` as such a pipe.
    """
    path = Path(path)
    if path.is_fifo() and path.parts[:2] != ("/", "dev"):
        raise OSError(errno.EINVAL, "it is a named pipe", str(path))
