"""Time `Elmo` inside a model: batches forward and, in training, backward.

    python measure_module.py --options-file=O --weight-file=W INPUT [--requires-grad]

--hub measures `HubElmo`. --peer measures AllenNLP's `Elmo`, with the python of its
environment. --evaluate skips gradients. --precision is for a frozen `Elmo`. The last
line of standard output has the figures, as JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

# The checkout comes last, so that an installed elmo_cli is the one that is measured.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.allennlp_elmo import install_stubs, peak_memory_mb

BATCH = 32


def main() -> None:
    """Load, warm up with two batches, run over the text, and print the figures."""
    arguments = parse_arguments()
    if arguments.peer:
        install_stubs()
    import torch

    lines = [line.split() for line in arguments.input.read_text("utf-8").splitlines()]
    sentences = [tokens for tokens in lines if tokens][: arguments.sentences]
    made = make_hub(arguments) if arguments.hub else make_elmo(arguments)
    elmo = made.module
    elmo.train(not arguments.evaluate)
    inputs = []
    for start in range(0, len(sentences), BATCH):
        inputs.append(made.prepare(sentences[start : start + BATCH]))

    def run(batches: Sequence[Any]) -> None:
        """Embed batches. In training, compute gradients, too."""
        with torch.no_grad() if arguments.evaluate else nullcontext():
            for batch in batches:
                loss = made.mix_of(elmo(batch)).square().mean()
                if not arguments.evaluate:
                    elmo.zero_grad()
                    loss.backward()

    run(inputs[:2])
    started = time.perf_counter()
    cpu_started = time.process_time()
    run(inputs)
    figures = {
        "embed_seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "tokens": sum(len(sentence) for sentence in sentences),
        "peak_memory_mb": peak_memory_mb(),
    }
    print(json.dumps(figures))


class Made(NamedTuple):
    """A module, and the functions around it."""

    module: Any
    prepare: Callable[[list[list[str]]], Any]
    """Makes its input of sentences."""
    mix_of: Callable[[Any], Any]
    """Takes its mix from its output."""


def make_elmo(arguments: argparse.Namespace) -> Made:
    """Create our `Elmo` or AllenNLP's, with one mix."""
    settings = {}
    if arguments.peer:
        from allennlp.modules.elmo import Elmo, batch_to_ids
    else:
        from elmo_cli import Elmo, batch_to_ids

        settings["precision"] = arguments.precision
    elmo = Elmo(
        arguments.options_file,
        arguments.weight_file,
        num_output_representations=1,
        requires_grad=arguments.requires_grad,
        keep_sentence_boundaries=arguments.boundaries,
        dropout=0.0,
        **settings,
    )
    return Made(
        elmo,
        prepare=batch_to_ids,
        mix_of=lambda outputs: outputs["elmo_representations"][0],
    )


def make_hub(arguments: argparse.Namespace) -> Made:
    """Create `HubElmo`, whose mix is trained."""
    from elmo_cli import Elmo, HubElmo

    bilm = Elmo(arguments.options_file, arguments.weight_file, 1).bilm
    hub = HubElmo(module=bilm, trainable=True)
    return Made(
        hub,
        prepare=lambda batch: [" ".join(tokens) for tokens in batch],
        mix_of=lambda outputs: outputs["elmo"],
    )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--options-file", required=True)
    parser.add_argument("--weight-file", required=True)
    parser.add_argument("--peer", action="store_true", help="AllenNLP's class")
    parser.add_argument("--hub", action="store_true", help="HubElmo")
    parser.add_argument(
        "--requires-grad", action="store_true", help="train the biLM too"
    )
    parser.add_argument("--evaluate", action="store_true", help="without gradients")
    parser.add_argument(
        "--boundaries", action="store_true", help="keep_sentence_boundaries"
    )
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--sentences", type=int, default=320)
    parser.add_argument("input", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
