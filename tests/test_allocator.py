"""Free memory goes back to the system."""

import platform
import re
from pathlib import Path

import pytest

from elmo_cli.allocator import return_free_memory


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
