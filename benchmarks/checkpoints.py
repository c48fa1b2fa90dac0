"""Cost of checkpoints: the time spent in them, as a share of the time of the whole run.

python benchmarks/checkpoints.py --copies 20 --every 16384 65536 131072

The bundled model embeds copies of the example text, all layers in float32, into a file that is
deleted afterwards. Each copy takes 164 MB. By default checkpoints are 131,072 tokens apart.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from elmo_cli import ElmoEmbedder
from elmo_cli.outputs.writer import ActivationsWriter

TEXT = Path(__file__).parent.parent / "examples" / "alice.txt"


def measure(text: Path, output: Path, n_tokens: int, layout: str) -> dict[str, float]:
    """Embed once, with a checkpoint every `n_tokens` tokens."""
    spent: list[float] = []
    original = ActivationsWriter.checkpoint

    def timed(self: ActivationsWriter, run_state: dict[str, Any]) -> None:
        started = time.perf_counter()
        original(self, run_state)
        spent.append(time.perf_counter() - started)

    embedder = ElmoEmbedder()
    started = time.perf_counter()
    with (
        patch.object(ActivationsWriter, "checkpoint", timed),
        patch("elmo_cli.embed_file.checkpoint_tokens", return_value=n_tokens),
    ):
        summary = embedder.embed_file(text, output, layout=layout)
    total = time.perf_counter() - started
    return {
        "every_tokens": n_tokens,
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
    parser.add_argument("--every", type=int, nargs="+", default=[65_536, 262_144])
    parser.add_argument("--layout", default="allennlp")
    parser.add_argument("--folder", help="folder of the temporary output")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        text = Path(folder) / "text.txt"
        text.write_text(TEXT.read_text(encoding="utf-8") * arguments.copies, encoding="utf-8")
        for n_tokens in arguments.every:
            output = Path(folder) / "out.hdf5"
            print(json.dumps(measure(text, output, n_tokens, arguments.layout)), flush=True)
            output.unlink()


if __name__ == "__main__":
    main()
