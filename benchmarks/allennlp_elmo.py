"""Run AllenNLP 0.9.0's ElmoEmbedder and time it.

Run it with the python of the environment that make_allennlp_env.sh creates:

    python allennlp_elmo.py --options-file O --weight-file W --all INPUT OUTPUT

INPUT has one sentence per line, its tokens separated by blanks. The last line of
standard output is a JSON object with the figures; progress goes to standard error.
"""

import argparse
import importlib.util
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

BARE_PACKAGES = ("commands", "models", "predictors", "service")
"""Packages whose `__init__` imports all models, and with them modules that current
versions of their dependencies lack."""


def install_stubs() -> None:
    """Put stand-ins into sys.modules for modules that cannot be imported today.

    The packages become empty packages with the right path, so that their submodules are
    still found. spaCy's tag map, which spaCy 3 lacks, becomes an empty one.
    """
    spec = importlib.util.find_spec("allennlp")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("allennlp is not installed here: see make_allennlp_env.sh")
    root = Path(spec.submodule_search_locations[0])
    for name in BARE_PACKAGES:
        package = types.ModuleType(f"allennlp.{name}")
        package.__path__ = [str(root / name)]
        sys.modules[package.__name__] = package
    tag_map = types.ModuleType("spacy.lang.en.tag_map")
    tag_map.TAG_MAP = {}  # type: ignore[attr-defined]
    sys.modules[tag_map.__name__] = tag_map


def load_embedder(args: argparse.Namespace) -> tuple[Any, float]:
    """Return an ElmoEmbedder and the seconds it took to load, without imports."""
    install_stubs()
    from allennlp.commands.elmo import ElmoEmbedder

    start = time.perf_counter()
    embedder = ElmoEmbedder(args.options_file, args.weight_file, args.cuda)
    return embedder, time.perf_counter() - start


def peak_memory_mb() -> float:
    """Return the largest resident size so far in MB (10^6 bytes), on Linux.

    getrusage would include the memory of the program that started this one.
    """
    with open("/proc/self/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def embed(args: argparse.Namespace) -> dict[str, float]:
    """Embed a file with state carried between batches, as `allennlp elmo` did.

    It writes one float32 dataset per line: (layers, tokens, dim) for "all", (tokens,
    dim) for "top" and "average".
    """
    embedder, load_seconds = load_embedder(args)
    import torch

    start = time.perf_counter()
    with torch.no_grad(), open(args.input, encoding="utf-8") as lines:
        embedder.embed_file(lines, args.output, args.output_format, args.batch_size)
    embed_seconds = time.perf_counter() - start
    return {
        "load_seconds": load_seconds,
        "embed_seconds": embed_seconds,
        "tokens": len(Path(args.input).read_text(encoding="utf-8").split()),
        "peak_memory_mb": peak_memory_mb(),
    }


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    layers = parser.add_mutually_exclusive_group(required=True)
    for name in ("all", "top", "average"):
        layers.add_argument(
            f"--{name}", dest="output_format", action="store_const", const=name
        )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--options-file", required=True)
    parser.add_argument("--weight-file", required=True)
    parser.add_argument("--cuda", type=int, default=-1, help="the number of a GPU")
    parser.add_argument("input", metavar="INPUT")
    parser.add_argument("output", metavar="OUTPUT")
    return parser.parse_args()


def main() -> None:
    """Embed, and print the figures as one JSON line."""
    print(json.dumps(embed(parse_arguments())))


if __name__ == "__main__":
    main()
