"""The records of all shards of an input, in its order where they have one, and checked."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice, repeat
from typing import Any, Final

from elmo_cli.errors import InputError, shown
from elmo_cli.outputs.copied_records import FoundRecord, records_of
from elmo_cli.outputs.finished_output import state_at_end
from elmo_cli.outputs.reader import Activations
from elmo_cli.text.fasta import ORIGINAL_ID
from elmo_cli.text.records import Place, hashed_text, shard_of

_SHOWN: Final = 5


def state_of(file: Activations) -> dict[str, Any]:
    """What a shard says of its end."""
    state = state_at_end(file.attributes)
    assert state is not None  # or it would not have been opened
    return state


def nameless(skipped: Mapping[str, Any]) -> set[int]:
    """The numbers of records that were skipped and are in no file."""
    found = (re.fullmatch(r"sequence ([1-9]\d{0,17})", name, re.ASCII) for name in skipped)
    return {int(match[1]) - 1 for match in found if match}


def shard_records(files: list[Activations], *, n_without_values: int) -> Iterator[FoundRecord]:
    """The records of all shards, in the order of the input where the shards have one.

    Each with its file and its values; None for these of the first ones.

    Raises:
        InputError: a shard is damaged.
    """
    attributes = files[0].attributes
    n_without = Counter(islice(turns(files), n_without_values))
    streams = [_checked(file, n_without[which]) for which, file in enumerate(files)]
    is_text, is_packed = attributes["format"] == "text", files[0].layout == "packed"
    has_texts = is_packed and is_text and attributes["forget_sentences"] != "True"
    digest = hashlib.sha256()
    for which in turns(files):
        found = next(streams[which], None)
        if found is None:  # of a layout that does not know before
            raise InputError(f"{files[which].path}: the file is damaged: it ends too early")
        if has_texts:
            digest.update(hashed_text(found[1].text))
        yield found
    if has_texts and digest.hexdigest() != attributes["input_sha256"]:
        names = ", ".join(str(file.path) for file in files[:_SHOWN])
        raise InputError(
            f"{names}: a file is damaged: the sentences of all shards are not the input that they "
            "are of"
        )


def turns(files: list[Activations]) -> Iterator[int]:
    """Which shard has the next record, by its place among them."""
    attributes = files[0].attributes
    has_order = files[0].layout == "packed" or attributes["format"] == "text"
    if attributes["sentence_keys"] == "True" or not has_order:
        for which, file in enumerate(files):
            yield from repeat(which, len(file))
        return
    without_name = set().union(*(nameless(state_of(file)["run"]["skipped"]) for file in files))
    for number in range(Place(*state_of(files[0])["run"]["place"]).n_records):
        if number not in without_name:
            yield number % len(files)


def _checked(file: Activations, n_without_values: int) -> Iterator[FoundRecord]:
    """The records of a shard that are what it says."""
    state = state_of(file)
    dtype, skipped = state["settings"]["dtype"], state["run"]["skipped"]
    has_tokens = file.attributes["format"] == "text" and "pooling" not in file.attributes
    if len(file) and file.dtype != dtype:
        raise InputError(f"{file.path}: the file is damaged: expected {dtype}, found {file.dtype}")
    for number, (record, shape, values) in enumerate(records_of(file, n_without_values)):
        place = shard_of(file.attributes).place(number)
        n_tokens = 0 if str(place) in skipped else len(record.tokens)
        header = record.attributes.get(ORIGINAL_ID, "")
        if has_tokens and record.text and shape[-2] != n_tokens:
            fault = f"{n_tokens:,} tokens for line {place + 1:,}, found {shape[-2]:,}"
        elif record.key is not None and header.split(maxsplit=1)[:1] != [record.key]:
            fault = f"the header of {shown(record.key)!r}, found {shown(header)!r}"
        else:
            yield file, record, values
            continue
        raise InputError(f"{file.path}: the file is damaged: expected {fault}")
