"""`elmo distribute` beside one process of `elmo embed`: speed at work, start-up, memory.

python benchmarks/distribute.py corpus.txt --folder /dev/shm/scratch --part-size 150M

At work is from the end of the first part to that of the last, with the tokens of the parts
between; of `elmo embed`, what it says itself. Memory is the peak of all processes together, each
page shared out among those that share it. Ray's workers have one thread each, what runs in one
process has `--threads`: 1 where others use the machine, since threads lose that wait for another.
"""

import argparse
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from elmo_cli.distributed.folder import Folder
from elmo_cli.distributed.part import PartResult
from elmo_cli.distributed.plan import read_plan
from elmo_cli.outputs.parts import part_name

ELMO = [sys.executable, "-m", "elmo_cli"]


def memory_of(pid: int) -> int:
    """The bytes of a process and all that it has started."""
    total = 0
    with suppress(OSError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += 1024 * int(re.findall(r"^Pss: +(\d+)", rollup, re.MULTILINE)[0])
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(map(memory_of, map(int, (task / "children").read_text().split())))
    return total


def run(command: list[str], n_threads: int) -> tuple[float, int, str]:
    """Seconds, peak bytes and what was said."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
    started, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        while process.poll() is None:
            peak = max(peak, memory_of(process.pid))
            time.sleep(0.5)
        assert process.stderr is not None
        said = process.stderr.read()
    if process.returncode:
        raise RuntimeError(said)
    return time.perf_counter() - started, peak, said


def speed_at_work(output: Path) -> float:
    """Tokens a second between the ends of the first and the last part."""
    folder = Folder(str(output))
    ends = {number: (output / part_name(number)).stat().st_mtime for number in folder.parts()}
    first = min(ends, key=lambda number: ends[number])
    n_tokens = sum(int(folder.part_attributes(part)["tokens"]) for part in ends if part != first)
    return n_tokens / (max(ends.values()) - ends[first])


def sent_bytes(output: Path) -> int:
    """What goes through the object store for a part: its row, and its result."""
    plan = read_plan(Folder(str(output)))
    assert plan is not None
    result = PartResult(0, "a-host-of-usual-name-12345", 10**6)
    return len(pickle.dumps(plan.parts[-1]._asdict())) + len(pickle.dumps(result._asdict()))


def main() -> None:
    """Measure each way in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--part-size", default="150M")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--options", default="--layers average --dtype float16")
    chosen = parser.parse_args()
    options = chosen.options.split()
    output = chosen.folder / "output"
    parts = [chosen.corpus, str(output), "--part-size", chosen.part_size, *options]
    ways = {
        "elmo embed": ([*ELMO, "embed", chosen.corpus, f"{output}.h5"], chosen.threads),
        "--engine none": ([*ELMO, "distribute", *parts, "--engine", "none"], chosen.threads),
        "Ray, 1 worker of 1 thread": ([*ELMO, "distribute", *parts, "--workers", "1"], 1),
        "Ray, 2 workers of 1 thread": ([*ELMO, "distribute", *parts, "--workers", "2"], 1),
    }
    print("| | whole, s | at work, tokens/s | memory, MB | parts | bytes sent a part |")
    print("|---|--:|--:|--:|--:|--:|")
    for _ in range(chosen.repeats):
        for name, (command, n_threads) in ways.items():
            is_plain = "embed" in command
            seconds, peak, said = run([*command, *options * is_plain], n_threads)
            found = re.findall(r"([\d,]+) tokens/s", said)[-1]
            speed = float(found.replace(",", "")) if is_plain else speed_at_work(output)
            n_parts = 0 if is_plain else len(Folder(str(output)).parts())
            n_bytes = sent_bytes(output) if "Ray" in name else 0
            print(
                f"| {name} | {seconds:.1f} | {speed:,.0f} | {peak / 1e6:,.0f} | {n_parts} "
                f"| {n_bytes} |",
                flush=True,
            )
            shutil.rmtree(output, ignore_errors=True)
            Path(f"{output}.h5").unlink(missing_ok=True)
    print(json.dumps({"cpus": os.cpu_count(), "load": os.getloadavg()}))


if __name__ == "__main__":
    main()
