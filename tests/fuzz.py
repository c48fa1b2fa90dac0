"""Read many hostile files, each kind in processes that may crash, hang or want too much memory.

    python tests/fuzz.py                        every kind, 1,000 files each
    python tests/fuzz.py weights zip --cases 20000
    python tests/fuzz.py weights --first 123 --cases 1      one of them, with its traceback

A line says what went wrong, and its number makes the same file again.
"""

import argparse
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TextIO

from hostile import TARGETS as FILE_TARGETS
from hostile import Target
from hostile_runs import RUN_TARGETS

from elmo_cli.errors import ElmoError

TARGETS = FILE_TARGETS | RUN_TARGETS

SECONDS = 20.0
"""Of the processor, for one file: more is a hang."""
WAITED_SECONDS = 600.0
"""By the clock, likewise: it waits for what never comes. The machine may be busy with more."""
MORE_BYTES = 512 << 20
"""What a file of some KB may make a process want, beyond what it has before."""
CASES_A_PROCESS = 500


class _HangError(BaseException):
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run some kinds; the exit status says whether any file did harm."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--cases", type=int, default=1000, help="files of each kind")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    options = parser.parse_args(arguments)
    harm = 0
    for name in options.targets or TARGETS:
        started = time.monotonic()
        found = run(TARGETS[name], options.first, options.cases, show=options.cases == 1)
        harm += sum(found.values())
        print(f"{name}: {options.cases:,} files, {time.monotonic() - started:.0f} s", flush=True)
        for fault, count in found.most_common():
            print(f"    {count:6,} x {fault}", flush=True)
    return 1 if harm else 0


def run(target: Target, first: int, n_cases: int, *, show: bool = False) -> Counter[str]:
    """Read hostile files of a kind in processes of their own: what went wrong, how often."""
    found: Counter[str] = Counter()
    contents = target.contents()
    for content in contents:  # whole files do no harm; and what reads them is imported
        read_one(target, content)
    end = first + n_cases
    while first < end:
        first = _run_some(target, contents, first, min(end, first + CASES_A_PROCESS), found, show)
    return found


def _run_some(
    target: Target, contents: list[bytes], first: int, end: int, found: Counter[str], show: bool
) -> int:
    """Read files up to one that ends the process; the number to go on with."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as report:
                _read_all(target, contents, range(first, end), report, show)
        finally:
            os._exit(0)
    os.close(writer)
    number = first
    with os.fdopen(reader) as lines:
        for line in lines:
            text, _, fault = line.rstrip("\n").partition(" ")
            number = int(text)
            if fault:
                found[_first(found, fault, number)] += 1
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        fault = signal.Signals(os.WTERMSIG(status)).name
        found[_first(found, fault, number)] += 1
        return number + 1
    return end


def _first(found: Counter[str], fault: str, number: int) -> str:
    """The fault, with the number of the first file that showed it."""
    return next((known for known in found if known.startswith(f"{fault} (")), f"{fault} ({number})")


def _read_all(
    target: Target,
    contents: list[bytes],
    numbers: range,
    report: TextIO,
    show: bool,
) -> None:
    """Read files, telling of each before, and of what went wrong after."""
    signal.signal(signal.SIGPROF, _hang)
    sys.stdout = sys.stderr = open(os.devnull, "w") if not show else sys.stderr  # noqa: SIM115
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        report.write(f"{number} \n")
        report.flush()
        # HDF5 in C would not be stopped by the first.
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WAITED_SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (_cpu_seconds() + 2 * int(SECONDS), -1))
        fault = read_one(target, target.damage(contents[number % len(contents)], number), show=show)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if fault:
            report.write(f"{number} {fault}\n")


def _cpu_seconds() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int(usage.ru_utime + usage.ru_stime) + 1


def read_one(target: Target, content: bytes, *, show: bool = False) -> str:
    """Read one file; what went wrong, if anything that is no `ElmoError`."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / target.name
        path.write_bytes(content)
        try:
            target.read(path)
        except ElmoError as error:
            return _bad_message(str(error))
        except (Exception, _HangError) as error:
            if show:
                traceback.print_exc()
            where = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in where if "elmo_cli" in frame.filename] or list(where)
            place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
            return f"{type(error).__name__} in {place}"
    return ""


def _bad_message(message: str) -> str:
    """What is wrong with the text of an error; the command makes one line of it."""
    return "an error of more than 10,000 characters" if len(message) > 10_000 else ""


def _hang(number: int, frame: FrameType | None) -> None:
    raise _HangError


if __name__ == "__main__":
    sys.exit(main())
