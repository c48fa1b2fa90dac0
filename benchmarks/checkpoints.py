"""What checkpoints cost: the time spent in them, over the time of the whole run.

python benchmarks/checkpoints.py --copies 20 --every 1 5 30

The bundled model, the example text so many times over, all layers in float32, to a file that is
deleted afterwards: 164 MB a copy.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from elmo_cli import ElmoEmbedder
from elmo_cli.outputs.writer import ActivationsWriter

TEXT = Path(__file__).parent.parent / "examples" / "alice.txt"


def measure(text: Path, output: Path, seconds: float, layout: str) -> dict[str, float]:
    """Embed once, with a checkpoint every so many seconds."""
    spent: list[float] = []
    original = ActivationsWriter.checkpoint

    def timed(self: ActivationsWriter, run_state: dict[str, Any]) -> None:
        started = time.perf_counter()
        original(self, run_state)
        spent.append(time.perf_counter() - started)

    embedder = ElmoEmbedder()
    started = time.perf_counter()
    ActivationsWriter.checkpoint = timed  # type: ignore[method-assign]
    try:
        summary = embedder.embed_file(text, output, layout=layout, checkpoint_seconds=seconds)
    finally:
        ActivationsWriter.checkpoint = original  # type: ignore[method-assign]
    total = time.perf_counter() - started
    return {
        "every_seconds": seconds,
        "run_seconds": round(total, 2),
        "tokens_per_second": round(summary.n_tokens / total, 1),
        "checkpoints": len(spent),
        "mean_checkpoint_seconds": round(sum(spent) / max(1, len(spent)), 4),
        "share_of_run": round(sum(spent) / total, 5),
    }


def main() -> None:
    """Print a JSON line for each interval."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--every", type=float, nargs="+", default=[1, 5, 30])
    parser.add_argument("--layout", default="allennlp")
    parser.add_argument("--folder", help="where the output goes, for a while")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        text = Path(folder) / "text.txt"
        text.write_text(TEXT.read_text(encoding="utf-8") * arguments.copies, encoding="utf-8")
        for seconds in arguments.every:
            output = Path(folder) / "out.hdf5"
            print(json.dumps(measure(text, output, seconds, arguments.layout)), flush=True)
            output.unlink()


if __name__ == "__main__":
    main()
