"""Free memory goes back to the system, and settings of the user stay."""

import os
import platform
import re
from pathlib import Path

import pytest

from elmo_cli.allocator import PRIMITIVES, keep_few_primitives, return_free_memory

NAMES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY")


def resident_kb() -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc is what keeps it")
def test_free_memory_between_what_is_used_goes_back() -> None:
    # Small enough for the heap; every 64th stays, so that the heap cannot shrink from its end.
    pieces = [bytearray(b"x" * 50_000) for _ in range(4096)]  # 205 MB
    kept = pieces[::64]
    pieces.clear()
    before = resident_kb()
    return_free_memory()
    assert before - resident_kb() > 50_000
    assert len(kept) == 64


def test_few_primitives_are_kept_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that it is put back as it was
        monkeypatch.delenv(name)
    keep_few_primitives()
    assert os.environ[NAMES[0]] == str(PRIMITIVES)
    monkeypatch.setenv(NAMES[0], "7")
    keep_few_primitives()
    assert os.environ[NAMES[0]] == "7"
    monkeypatch.delenv(NAMES[0])
    monkeypatch.setenv(NAMES[1], "8")
    keep_few_primitives()
    assert NAMES[0] not in os.environ
