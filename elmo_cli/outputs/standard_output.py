"""Standard output in the place of a file: written as it goes, nothing to go on with."""

import sys
from pathlib import Path
from typing import Any

from elmo_cli.errors import OutputError
from elmo_cli.outputs.output_formats import STANDARD_OUTPUT


class StandardOutput:
    """Does what `CheckpointedFile` does, as far as a stream can."""

    def __init__(self) -> None:
        self.path = Path(STANDARD_OUTPUT)
        self.error: BaseException | None = None
        self.state: dict[str, Any] | None = None
        self.closed = False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Nothing: it is at its end."""
        return 0

    def write(self, data: bytes, /) -> int:
        """Write, and pass it on at once.

        Raises:
            BrokenPipeError: nobody reads any more.
            OutputError: it cannot be written; a file behind it may have no room.
        """
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            fault = error.strerror or "it is closed"
            raise OutputError(f"standard output: cannot write it: {fault}") from None
        return len(data)

    def checkpoint(self, state: dict[str, Any]) -> None:
        """Nothing: what is written is written."""

    def clear(self) -> None:
        """Nothing: what is written is written."""

    def finish(self, final: Path) -> None:
        """Let go of it."""
        self.close()

    def discard(self) -> None:
        """Let go of it."""
        self.close()

    def close(self) -> None:
        """Let go of it, which stays open."""
        self.closed = True
