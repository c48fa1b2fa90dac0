"""Check an installed wheel: its kernels, golden figures and the README's command.

    python -m venv fresh
    fresh/bin/pip install -c constraints.txt dist/elmo_cli-*manylinux*_x86_64.whl
    PATH=fresh/bin fresh/bin/python packaging/check_wheel.py

Run it with the Python of a fresh environment, without a compiler in PATH.
`--without-kernels` is for a wheel without them, and leaves out the comparison of two
processors.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import h5py
import numpy as np
import torch

import elmo_cli
from elmo_cli import ElmoEmbedder, open_activations
from elmo_cli.compiled.kernels import has_kernel

ROOT: Final = Path(__file__).parents[1]
GOLDEN: Final = ROOT / "tests" / "golden" / "relu"
TOLERANCE: Final = 1e-5
BETWEEN_PROCESSORS: Final = 2e-5


def main() -> None:
    """Run all checks, and print what was checked."""
    folder = Path(elmo_cli.__file__).parent
    expect(
        ROOT not in folder.parents, f"elmo_cli is imported from the checkout: {folder}"
    )
    compilers = [name for name in ("cc", "gcc", "clang", "c++") if shutil.which(name)]
    expect(not compilers, f"compilers in PATH: {compilers}")
    has_kernels = has_kernel("product_float32")
    expect(
        has_kernels != ("--without-kernels" in sys.argv), f"has kernels: {has_kernels}"
    )
    difference = golden_difference()
    expect(difference <= TOLERANCE, f"difference from AllenNLP: {difference}")
    processor = torch.backends.cpu.get_cpu_capability()
    print(
        f"elmo-cli {elmo_cli.__version__}, Python {sys.version.split()[0]}, torch "
        f"{torch.__version__}, {processor}, kernels: {has_kernels}. Largest difference "
        f"from AllenNLP: {difference:.1e}."
    )
    if has_kernels:
        between = alice_difference()
        expect(
            between <= BETWEEN_PROCESSORS, f"difference between processors: {between}"
        )
        print(
            "examples/alice.txt: largest difference from a plain processor "
            f"{between:.1e}."
        )


def expect(condition: bool, problem: str) -> None:
    """End with a message if a condition does not hold."""
    if not condition:
        sys.exit(f"check_wheel.py: {problem}")


def golden_difference() -> float:
    """Return the largest difference from AllenNLP for the golden sentences."""
    sentences = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))
    embedder = ElmoEmbedder(GOLDEN / "options.json", GOLDEN / "weights.hdf5")
    actual = list(embedder.embed_sentences(sentences))
    with h5py.File(GOLDEN / "expected.hdf5") as file:
        expected = [file[f"stateless/{i}"][:] for i in range(len(sentences))]
    return largest_difference(actual, expected)


def alice_difference() -> float:
    """Embed alice.txt, with and without this processor's special instructions."""
    with tempfile.TemporaryDirectory() as temporary:
        outputs = [Path(temporary, name) for name in ("here.hdf5", "plain.hdf5")]
        for output, capability in zip(
            outputs, ({}, {"ATEN_CPU_CAPABILITY": "default"}), strict=True
        ):
            command = [
                "elmo",
                "--quiet",
                "embed",
                str(ROOT / "examples" / "alice.txt"),
                str(output),
            ]
            subprocess.run(command, check=True, env=os.environ | capability)
        with (
            open_activations(outputs[0]) as here,
            open_activations(outputs[1]) as plain,
        ):
            expect(len(here) == 640, f"sentences: {len(here)}")
            return max(
                largest_difference([here[i]], [plain[i]]) for i in range(len(here))
            )


def largest_difference(actual: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """Return the largest absolute difference between two sets of activations."""
    pairs = zip(actual, expected, strict=True)
    return max(float(np.abs(a - b).max(initial=0)) for a, b in pairs)


if __name__ == "__main__":
    main()
