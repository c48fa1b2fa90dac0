"""The end of a run: a folder whose parts are all there becomes complete.

A next plan takes the place of the folder's plan in one step, the writing of `plan.json`. Its parts
are moved to their names afterwards, and are found at both names meanwhile. A run that ends in
between is finished by the next one.
"""

import json
from collections.abc import Mapping
from typing import Final

from elmo_cli.distributed.inputs import check_unchanged
from elmo_cli.distributed.part import check_plan, key_of
from elmo_cli.outputs.folder import Folder
from elmo_cli.outputs.parts import (
    PLAN_SHA256,
    PartAttributes,
    complete_name,
    find_done,
    numbers_of_parts,
    part_name,
)
from elmo_cli.outputs.plan_file import Plan, next_subfolder, plan_name, write_seal

_LOCK: Final = "_elmo/lock"
_MAX_SKIPPED: Final = 1000
"""Maximum number of skipped records that the attributes name."""
_ABANDONED_SECONDS: Final = 3600.0
"""Seconds without a file after which the folder of a next plan is removed."""


def finish(folder: Folder, plan: Plan, done: Mapping[int, PartAttributes]) -> None:
    """Make a folder complete whose parts are all done.

    Raises:
        OtherInputError: An input has changed.
        OutputError: Another run has replaced the plan.
    """
    for path, fingerprint in {(part.path, part.fingerprint) for part in plan.parts}:
        check_unchanged(path, fingerprint)
    complete = json.dumps(_attributes(plan, done)).encode()
    subfolder = next_subfolder(plan.sha256)
    with folder.locked(_LOCK):
        # Two other runs may have completed this plan and replaced it since.
        if plan.is_next and find_done(folder, plan).keys() == done.keys():
            folder.write(complete_name(subfolder), complete)
            folder.write(plan_name(), plan.encode())
        check_plan(folder, key_of(plan)._replace(subfolder=""))
        _settle(folder, plan, done)
        _seal(folder, plan, complete)
        folder.remove_folder(subfolder)
        _remove_abandoned(folder)


def _seal(folder: Folder, plan: Plan, complete: bytes) -> None:
    """Write the attributes of a complete folder, and remove the notes of its runs."""
    if not plan.parts:  # The columns are unknown.
        folder.write(complete_name(), complete)
        return
    contents = {plan_name(): plan.encode(), complete_name(): complete}
    write_seal(folder, part_name(0), contents)
    for name in folder.names("_elmo"):
        if name.startswith("run"):
            folder.remove(f"_elmo/{name}")


def _settle(folder: Folder, plan: Plan, done: Mapping[int, PartAttributes]) -> None:
    """Move parts from the folder of the next plan to their names, and remove parts of no plan.

    Another run of the same plan may have moved some.
    """
    subfolder = next_subfolder(plan.sha256)
    for number in numbers_of_parts(folder.names(subfolder)):
        if number in done and done[number].subfolder == subfolder:
            folder.move(part_name(number, subfolder), part_name(number))
    for number in numbers_of_parts(folder.names()):
        if number >= len(plan.parts):
            folder.remove(part_name(number))


def _remove_abandoned(folder: Folder) -> None:
    """Remove the folders of next plans whose runs have ended long ago.

    Only times of the file system are compared, because clocks of machines differ.
    """
    now = folder.newest("_elmo")
    for name in folder.names("_elmo"):
        is_next = name.startswith("next-")
        if is_next and now - folder.newest(f"_elmo/{name}") > _ABANDONED_SECONDS:
            folder.remove_folder(f"_elmo/{name}")


def _attributes(plan: Plan, done: Mapping[int, PartAttributes]) -> dict[str, str]:
    """Return the attributes of a complete folder."""
    skipped: dict[str, str] = {}
    for number in sorted(done):
        skipped |= done[number].skipped
    n_skipped, first = len(skipped), dict(list(skipped.items())[:_MAX_SKIPPED])
    return {
        **plan.settings,
        PLAN_SHA256: plan.sha256,
        "parts": str(len(plan.parts)),
        "records": str(plan.n_records),
        "tokens": str(sum(part.n_tokens for part in done.values())),
        **({"skipped": json.dumps(first), "n_skipped": str(n_skipped)} if skipped else {}),
    }
