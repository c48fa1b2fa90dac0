"""Let atheris look for hostile files, guided by the code that each one reaches.

    python -m venv atheris-env && atheris-env/bin/pip install atheris numpy
    PYTHONPATH=. atheris-env/bin/python tests/fuzz_atheris.py fasta -max_total_time=120

For the kinds that no library in C reads (see hostile.py); the other arguments are libFuzzer's.
A file that does harm is written to `crash-...`.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import atheris

with atheris.instrument_imports(include=["elmo_cli", "zipfile", "json"]):
    from fuzz import read_one
    from hostile import TARGETS

    from elmo_cli import vocabulary  # noqa: F401


def main() -> None:
    """Fuzz the target that the first argument names."""
    name = sys.argv.pop(1)
    target = TARGETS[name]
    if not target.is_python:
        sys.exit(f"{name}: read by a library in C, which atheris does not see; use fuzz.py")

    def read(content: bytes) -> None:
        fault = read_one(target, content)
        if fault:
            raise AssertionError(fault)

    with TemporaryDirectory() as corpus:
        for number, content in enumerate(target.contents()):
            (Path(corpus) / str(number)).write_bytes(content)
        atheris.Setup([*sys.argv, corpus], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
