"""Time `Elmo` inside a model: batches of 32 sentences forward and, in training, backward.

    python measure_module.py --options-file=O --weight-file=W INPUT [--requires-grad]

With --peer it is AllenNLP's `Elmo`, by the python of its environment; --evaluate leaves gradients
out. The last line of standard output has the figures, as JSON.
"""

import argparse
import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from allennlp_elmo import install_stubs, peak_memory_mb

BATCH = 32


def main() -> None:
    """Load, run over the text once to warm up and once for the figures, print them."""
    arguments = parse_arguments()
    if arguments.peer:
        install_stubs()
        from allennlp.modules.elmo import Elmo, batch_to_ids
    else:
        from elmo_cli import Elmo, batch_to_ids
    import torch

    lines = [line.split() for line in arguments.input.read_text("utf-8").splitlines()]
    sentences = [tokens for tokens in lines if tokens][: arguments.sentences]
    batches = [batch_to_ids(sentences[i : i + BATCH]) for i in range(0, len(sentences), BATCH)]
    elmo = Elmo(
        arguments.options_file,
        arguments.weight_file,
        1,
        requires_grad=arguments.requires_grad,
        keep_sentence_boundaries=arguments.boundaries,
        dropout=0.0,
    ).train(not arguments.evaluate)
    run(elmo, batches[:2], torch, arguments)
    started, cpu_started = time.perf_counter(), time.process_time()
    run(elmo, batches, torch, arguments)
    figures = {
        "embed_seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "tokens": sum(map(len, sentences)),
        "peak_memory_mb": peak_memory_mb(),
    }
    print(json.dumps(figures))


def run(elmo: Any, batches: list[Any], torch: Any, arguments: argparse.Namespace) -> None:
    """Embed batches; in training, as a step of an optimizer needs it."""
    with torch.no_grad() if arguments.evaluate else nullcontext():
        for batch in batches:
            loss = elmo(batch)["elmo_representations"][0].square().mean()
            if not arguments.evaluate:
                elmo.zero_grad()
                loss.backward()


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--options-file", required=True)
    parser.add_argument("--weight-file", required=True)
    parser.add_argument("--peer", action="store_true", help="AllenNLP's class")
    parser.add_argument("--requires-grad", action="store_true", help="train the biLM too")
    parser.add_argument("--evaluate", action="store_true", help="without gradients")
    parser.add_argument("--boundaries", action="store_true", help="keep_sentence_boundaries")
    parser.add_argument("--sentences", type=int, default=320)
    parser.add_argument("input", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
