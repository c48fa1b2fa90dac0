"""The checkpoints of a run: when they are made, and what they say."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from elmo_cli.errors import ComputationError, ElmoError, InputError, StoppedError, first_line
from elmo_cli.outputs.finished_output import end_attributes
from elmo_cli.outputs.writer import ActivationsWriter
from elmo_cli.text.records import Place

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS: Final = 30.0
"""Between checkpoints: how much work an end without warning can cost."""

_SHOWN_FAULTS = 20
"""Records that are skipped are named in the log, up to so many."""


class Checkpoints:
    """Makes checkpoints of a run, where it can go on and when it is time."""

    def __init__(
        self,
        writer: ActivationsWriter,
        save: Callable[[int], dict[str, Any] | None],
        unit: str,
        seconds: float,
    ) -> None:
        """Begin where a writer is.

        Args:
            writer: the output.
            save: what it takes to go on after so many records; None if it cannot go on there.
            unit: what messages call a record.
            seconds: between checkpoints.
        """
        self._writer, self._save, self._unit, self._seconds = writer, save, unit, seconds
        self._last = time.monotonic()
        self._skipped: dict[str, str] = dict(writer.run_state.get("skipped", {}))
        kept = writer.run_state.get("place")
        self._kept = Place(*kept) if kept else None  # that of the last checkpoint
        self.place = self._kept
        """Where the record ends that was written last; None where none was."""

    def make_if_due(self) -> None:
        """Make a checkpoint if it is time."""
        if time.monotonic() - self._last >= self._seconds:
            self.make()

    def make(self) -> bool:
        """Make a checkpoint, if the run can go on from here."""
        if self.place == self._kept or self.place is None:
            return True
        state = self._state(self.place)
        if state["embed"] is None:
            return False
        self._writer.checkpoint(state)
        self._last, self._kept = time.monotonic(), self.place
        return True

    def stopped(self) -> StoppedError:
        """What to say of a run that stops at the checkpoint that was made last."""
        assert self.place is not None  # a record was written
        kept = (
            f", which is kept with all before it in {self._writer.partial}; "
            "the same command goes on from there"
        )
        return StoppedError(
            f"Stopped after {self._unit} {self.place.n_records:,}"
            f"{kept if self._writer.can_go_on else ''}"
        )

    def skip(self, name: str, fault: str) -> None:
        """Note what is wrong with a record that is skipped."""
        self._skipped[name] = fault
        if len(self._skipped) <= _SHOWN_FAULTS:
            logger.warning("Skipped: %s", fault)

    def finish(self, place: Place) -> None:
        """Say in the output what is known at the end of the input."""
        if len(self._skipped) > _SHOWN_FAULTS:
            logger.warning("Skipped %s %ss in all", f"{len(self._skipped):,}", self._unit)
        attributes = end_attributes(self._writer.n_records, place, self._skipped)
        self._writer.complete(self._state(place), attributes)

    def _state(self, place: Place) -> dict[str, Any]:
        """What a run has to know to go on from a place."""
        return {"place": place, "embed": self._save(place.n_records), "skipped": self._skipped}

    @contextmanager
    def kept_on_failure(self) -> Iterator[None]:
        """Keep what came before a record, or a computation, that fails: it can be mended."""
        try:
            yield
        except (InputError, ComputationError):
            self.make()
            raise
        except (RuntimeError, MemoryError) as error:  # of torch: a GPU that is lost, for one
            if isinstance(error, ElmoError):
                raise
            self.make()
            raise ComputationError(
                f"the computation failed after {self._unit} "
                f"{self.place.n_records if self.place else 0:,}: {first_line(error)}; "
                "the same command goes on from the last checkpoint"
            ) from error
