"""`elmo distribute` and `elmo embed`: speed, start-up, memory, many parts.

python benchmarks/distribute.py corpus.txt --folder /dev/shm/scratch

It takes about eight minutes for 1.4 million tokens on two cores.

The speed is measured from the time when each worker has finished a part to the end of
the last part, with the tokens of the parts between. For `elmo embed` it is the speed
that the command reports. Start-up is the rest of the run. Memory is the peak of each
kind of process: the driver, the workers, and Ray's own processes. A shared page counts
in part for each process that shares it. The second table has a tiny model and parts of
two lines.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyarrow import parquet

ELMO = [sys.executable, "-m", "elmo_cli"]
TINY = Path(__file__).parent.parent / "tests" / "golden" / "relu"


class Setup(NamedTuple):
    """Processes and threads, and the arguments of `elmo distribute`, None for embed."""

    name: str
    arguments: list[str] | None
    n_threads: int
    n_workers: int


SETUPS = (
    Setup("`elmo embed`, 1 thread", None, n_threads=1, n_workers=1),
    Setup("`elmo embed`, 2 threads", None, n_threads=2, n_workers=1),
    Setup("`--engine none`, 2 threads", ["--engine", "none"], n_threads=2, n_workers=1),
    Setup("Ray, 1 worker of 1 thread", ["--workers", "1"], n_threads=1, n_workers=1),
    Setup("Ray, 2 workers of 1 thread", ["--workers", "2"], n_threads=1, n_workers=2),
)


def processes_of(pid: int) -> Iterator[int]:
    """Yield a process and its children."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from processes_of(int(child))


def memory_of(pid: int) -> Counter[str]:
    """Return the bytes of a process and its children, by kind."""
    n_bytes: Counter[str] = Counter()
    for process in processes_of(pid):
        with suppress(OSError, IndexError):
            name = Path(f"/proc/{process}/cmdline").read_bytes()
            pages = Path(f"/proc/{process}/smaps_rollup").read_text()
            kilobytes = int(re.findall(r"^Pss: +(\d+)", pages, re.MULTILINE)[0])
            if process == pid:
                kind = "driver"
            elif name.startswith(b"ray::") and not name.startswith(b"ray::IDLE"):
                kind = "workers"
            else:
                kind = "Ray"
            n_bytes[kind] += 1024 * kilobytes
    return n_bytes


def run(command: list[str], n_threads: int) -> tuple[float, Counter[str], str]:
    """Run a command. Return its seconds, peak bytes by kind of process, and log."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
    peak: Counter[str] = Counter()
    started = time.perf_counter()
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        while process.poll() is None:
            peak |= memory_of(process.pid)  # the larger of both, kind by kind
            time.sleep(0.5)
        seconds = time.perf_counter() - started
        assert process.stderr is not None
        log = process.stderr.read()
    if process.returncode:
        raise RuntimeError(log)
    return seconds, peak, log


def measure_work(output: Path, n_workers: int) -> tuple[float, int]:
    """Return tokens per second after each worker's first part, and all tokens."""
    paths = sorted(output.glob("part-*"), key=lambda path: path.stat().st_mtime)
    tokens = []
    for path in paths:
        attributes = json.loads(parquet.read_metadata(path).metadata[b"elmo"])
        tokens.append(int(attributes["tokens"]))
    seconds = paths[-1].stat().st_mtime - paths[n_workers - 1].stat().st_mtime
    return sum(tokens[n_workers:]) / seconds, sum(tokens)


def print_row(*cells: str) -> None:
    """Print a row of a table in Markdown."""
    print(f"| {' | '.join(cells)} |", flush=True)


def measure_speed(
    corpus: str, output: Path, part_size: str, options: list[str]
) -> None:
    """Print a row for each setup of `elmo embed` and `elmo distribute`."""
    embed = [*ELMO, "embed", corpus, f"{output}.h5", "--overwrite", *options]
    distribute = [*ELMO, "distribute", corpus, str(output)]
    distribute += ["--part-size", part_size, *options]
    speeds: dict[int, float] = {}
    speed: float
    for setup in SETUPS:
        n_cores = setup.n_threads * setup.n_workers
        if setup.arguments is None:
            seconds, peak, log = run(embed, setup.n_threads)
            numbers = re.findall(r"([\d,]+) tokens", log.splitlines()[-1])
            n_tokens, speed = (int(number.replace(",", "")) for number in numbers)
            speeds[n_cores] = speed
        else:
            command = [*distribute, *setup.arguments]
            seconds, peak, _ = run(command, setup.n_threads)
            speed, n_tokens = measure_work(output, setup.n_workers)
        print_row(
            setup.name,
            f"{speed:,.0f}",
            f"{speed / speeds[n_cores]:.2f}",
            f"{seconds:.1f}",
            f"{seconds - n_tokens / speed:.1f}",
            f"{peak['driver'] / 1e6:,.0f}",
            f"{peak['workers'] / 1e6:,.0f}",
            f"{peak['Ray'] / 1e6:,.0f}",
        )
        shutil.rmtree(output, ignore_errors=True)
        Path(f"{output}.h5").unlink(missing_ok=True)


def measure_parts(output: Path, numbers: list[int]) -> None:
    """Print a row for each number of parts, each part of two lines, by two workers."""
    text = Path(f"{output}.txt")
    arguments = [str(text), str(output), "--part-size", "0.001", "--model", str(TINY)]
    for n_parts in numbers:
        text.write_text("a b c d e f\n" * 2 * n_parts)
        command = [*ELMO, "distribute", *arguments, "--workers", "2"]
        seconds, peak, _ = run(command, 1)
        n_found = len(list(output.glob("part-*")))
        memory = f"{peak['driver'] / 1e6:,.0f}"
        print_row(f"{n_found:,}", f"{seconds:.1f}", memory)
        shutil.rmtree(output)
    text.unlink()


def main() -> None:
    """Measure all setups, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--part-size", default="150", help="MB")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--options", default="--layers average --dtype float16")
    parser.add_argument("--parts", type=int, nargs="*", default=[10, 100, 1000, 2000])
    chosen = parser.parse_args()
    chosen.folder.mkdir(exist_ok=True)
    output = chosen.folder / "output"
    print_row(
        "",
        "tokens/s",
        "ratio",
        "total, s",
        "start-up, s",
        "driver, MB",
        "workers, MB",
        "Ray, MB",
    )
    print_row("---", *["--:"] * 7)
    for _ in range(chosen.repeats):
        measure_speed(chosen.corpus, output, chosen.part_size, chosen.options.split())
    print()
    print_row("parts", "total, s", "driver, MB")
    print_row("---", "--:", "--:")
    measure_parts(output, chosen.parts)
    print(f"\n{os.cpu_count()} CPUs, load {os.getloadavg()}")


if __name__ == "__main__":
    main()
