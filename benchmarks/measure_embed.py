"""Run `elmo embed` in this process, and print its time and memory.

python measure_embed.py --options-file=O --weight-file=W INPUT OUTPUT

With --host, the biLM takes no time: its layers are constant memory. With --int16,
bfloat16 is computed as on a processor without instructions for it.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

# The checkout comes last, so that an installed elmo_cli is the one that is measured.
sys.path.append(str(Path(__file__).parents[1]))


class Stopwatch:
    """Sum of the seconds in some functions. Calls inside each other count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_running = False

    def time(self, owner: Any, name: str) -> None:
        """Measure the calls of a function or method from now on."""
        original = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._is_running:
                return original(*args, **kwargs)
            self._is_running = True
            started = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - started
                self._is_running = False

        setattr(owner, name, timed)


def skip_bilm(n_layers: int, width: int) -> None:
    """Let encoders only build their tries, and return layers from memory."""
    import numpy as np
    import torch

    from elmo_cli.inference.batching import BATCH_TOKENS
    from elmo_cli.inference.encoder import FixedStateEncoder
    from elmo_cli.inference.trie import build_trie, index_tokens

    layers = torch.randn(n_layers, BATCH_TOKENS["cpu"], width)
    device = torch.device("cpu")

    def run(encoder: object, sentences: list[list[str]], slots: object) -> torch.Tensor:
        _, rows = index_tokens(sentences)
        roots = np.zeros(len(sentences), np.int64)
        for backward in (False, True):
            build_trie(rows, roots, device, backward=backward)
        n_tokens = sum(len(sentence) for sentence in sentences)
        return layers[:, :n_tokens]

    FixedStateEncoder.run = run  # type: ignore[assignment, method-assign]


def main() -> None:
    """Load, embed, and print one JSON line, with memory in MB (10^6 bytes)."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--options-file", required=True)
    parser.add_argument("--weight-file", required=True)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--state", default="zero")
    parser.add_argument("--layers", default="all")
    parser.add_argument("--layout")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--pooling")
    parser.add_argument("--host", action="store_true", help="skip the biLM")
    parser.add_argument("--int16", action="store_true", help="hide bfloat16")
    parser.add_argument("--cuda", type=int, default=-1)
    parser.add_argument("input")
    parser.add_argument("output")
    arguments = parser.parse_args()

    from benchmarks.allennlp_elmo import peak_memory_mb
    from elmo_cli import ElmoEmbedder
    from elmo_cli.outputs.writer import ActivationsWriter
    from elmo_cli.text.line_reader import LineReader

    if arguments.int16:
        import torch

        torch.cpu._is_avx512_bf16_supported = lambda: False

    files = Stopwatch()
    for method in ("write", "checkpoint", "finish"):
        files.time(ActivationsWriter, method)
    files.time(LineReader, "next_line")

    started = time.perf_counter()
    embedder = ElmoEmbedder(
        arguments.options_file,
        arguments.weight_file,
        arguments.cuda,
        precision=arguments.precision,
        state=arguments.state,
    )
    if arguments.host:
        skip_bilm(embedder.architecture.n_layers, embedder.architecture.width)
    loaded = time.perf_counter()
    processor_before = time.process_time()
    summary = embedder.embed_file(
        arguments.input,
        arguments.output,
        arguments.layers,
        pooling=arguments.pooling,
        layout=arguments.layout,
        dtype=arguments.dtype,
        overwrite=True,
    )
    figures = {
        "load_seconds": loaded - started,
        "embed_seconds": time.perf_counter() - loaded,
        "processor_seconds": time.process_time() - processor_before,
        "command_seconds": time.process_time(),
        "tokens": summary.n_tokens,
        "files_seconds": files.seconds,
        "peak_memory_mb": peak_memory_mb(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
