"""What a finished output says of the run that made it, and whether one can go on from there."""

import json
from collections.abc import Mapping
from typing import Any

from elmo_cli.text.records import Place

_END_ATTRIBUTES = ("records", "input_records", "input_sha256", "skipped")


def end_attributes(n_records: int, place: Place, skipped: Mapping[str, str]) -> dict[str, str]:
    """The attributes that are known at the end only.

    Args:
        n_records: what the output holds.
        place: the end of the input.
        skipped: what was wrong with records that were skipped, by their names.
    """
    return {
        "records": str(n_records),
        "input_records": str(place.n_records),
        "input_sha256": place.sha256,
        **({"skipped": json.dumps(skipped, sort_keys=True)} if skipped else {}),
    }


def state_at_end(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state of a writer, from the attributes of its finished file.

    Returns:
        As in its checkpoints, with None for carried states, which the file does not have.
        None altogether if the file does not say where it ends.
    """
    if not all(name in attributes for name in _END_ATTRIBUTES[:3]):
        return None
    settings = {str(n): str(value) for n, value in attributes.items() if n not in _END_ATTRIBUTES}
    try:
        state = {
            "settings": settings,
            "n_records": int(attributes["records"]),
            "run": {
                "place": (int(attributes["input_records"]), attributes["input_sha256"]),
                "embed": None if settings.get("state") == "carry" else {},
                "skipped": json.loads(attributes.get("skipped", "{}")),
            },
        }
    except (ArithmeticError, ValueError, TypeError, RecursionError):
        return None
    return state if is_state(state) else None


def is_state(state: Any) -> bool:
    """Whether what was read from a file is the state of a writer, or of one that has begun."""
    match state:
        case {"settings": dict(), "n_records": int(n_records), "run": dict(run)}:
            return n_records >= 0 and (not run or _is_run_state(run))
    return False


def _is_run_state(run: dict[str, Any]) -> bool:
    match run:
        case {
            "place": [int(n_records), str()],
            "embed": dict() | None as embed,
            "skipped": dict(skipped),
        }:
            texts = (*(embed or {}).values(), *skipped.values())
            return n_records >= 0 and all(isinstance(text, str) for text in texts)
    return False
