"""Time steps of `elmo train` and, after each step, its bare products.

    python measure_training.py --preset mini --precision bfloat16 --steps 5 INPUT

Bare products are the matrix products of the step without all other work: three per
weight, each with all rows at once. The first steps warm up. The last line of standard
output has the figures, as JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

# The checkout comes last, so that an installed elmo_cli is the one that is measured.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.allennlp_elmo import peak_memory_mb
from elmo_cli.model.token_encoder import CharacterEncoder, Convolution
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training.batches import Row, count_predictions, make_batch, read_batches
from elmo_cli.training.presets import PRESETS
from elmo_cli.training.processes import Processes
from elmo_cli.training.start import Start, start_weights
from elmo_cli.training.train import keep_memory
from elmo_cli.training.training_run import Run
from elmo_cli.training.training_settings import complete_settings
from elmo_cli.training.training_text import TrainingText

N_WORDS = 25_000
Shape = tuple[int, int, int]
"""Rows, inputs and outputs of a linear layer."""


def main() -> None:
    """Train and multiply in turns, and print the figures."""
    arguments = parse_arguments()
    keep_memory()
    run = make_run(arguments.preset, arguments.precision, arguments.input)
    batches = read_batches(TrainingText((arguments.input,)), run.settings, run.progress)
    for _ in range(arguments.warm_up):
        rows, progress = next(batches)
        run.train_step(rows, progress)
    n_tokens_before = run.n_tokens
    training_seconds = 0.0
    products_seconds = 0.0
    for _ in range(arguments.steps):
        rows, progress = next(batches)
        training_seconds += seconds_of(run.train_step, rows, progress)
        shapes = list(shapes_of(run, rows))
        products_seconds += seconds_of(multiply, shapes, run.settings.precision)
    figures = {
        "embed_seconds": training_seconds,
        "products_seconds": products_seconds,
        "tokens": run.n_tokens - n_tokens_before,
        "peak_memory_mb": peak_memory_mb(),
    }
    print(json.dumps(figures))


def make_run(preset: str, precision: str, text: Path) -> Run:
    """Start a run with random weights and a vocabulary of realistic size."""
    words = dict.fromkeys(text.read_text(encoding="utf-8").split())
    names = ["<S>", "</S>", "<UNK>", *words, *(f"word{i}" for i in range(N_WORDS))]
    vocabulary = Vocabulary(names[:N_WORDS])
    content = PRESETS[preset]
    settings = complete_settings({"precision": precision}, content)
    start = Start(content=content, name=preset, vocabulary=vocabulary)
    objective = start_weights(start, vocabulary, settings)
    return Run(
        objective, vocabulary, settings, Processes(torch.device("cpu")), text_tokens=1
    )


def shapes_of(run: Run, rows: list[Row]) -> Iterator[Shape]:
    """Yield the shapes of the linear layers of a step."""
    n = count_predictions(rows)
    bilm = run.objective.bilm
    lstm = bilm.architecture.lstm
    encoder = bilm.token_encoder
    for _ in range(2 * lstm.n_layers):
        yield n, 2 * lstm.projection_dim, 4 * lstm.dim
        yield n, lstm.dim, lstm.projection_dim
    yield 2 * n, lstm.projection_dim, min(run.settings.negative_samples, N_WORDS)
    assert isinstance(encoder, CharacterEncoder)
    tokens = make_batch(rows, run.vocabulary).tokens
    shapes: list[Shape] = []

    def record(module: Convolution, _inputs: object, outputs: torch.Tensor) -> None:
        shapes.append(
            (outputs[..., 0].numel(), module.weight[0].numel(), outputs.shape[-1])
        )

    hooks = [module.register_forward_hook(record) for module in encoder.convolutions]
    with torch.no_grad():
        encoder(encoder.token_ids(tokens))
    for hook in hooks:
        hook.remove()
    yield from shapes
    for _ in range(2 * encoder.architecture.n_highway):
        yield (
            len(tokens),
            encoder.architecture.n_filters,
            encoder.architecture.n_filters,
        )
    yield len(tokens), encoder.architecture.n_filters, lstm.projection_dim


def multiply(shapes: list[Shape], precision: str) -> None:
    """Multiply each layer forwards, and both products backwards."""
    dtype = getattr(torch, precision)
    for n, n_inputs, n_outputs in shapes:
        inputs = torch.ones(n, n_inputs, dtype=dtype)
        weight = torch.ones(n_outputs, n_inputs, dtype=dtype)
        gradients = inputs @ weight.t()
        gradients @ weight
        gradients.t() @ inputs


def seconds_of(work: Callable[..., None], *arguments: object) -> float:
    """Return the seconds that a call of `work` takes."""
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--preset", choices=list(PRESETS), default="mini")
    parser.add_argument(
        "--precision", choices=["float32", "bfloat16"], default="float32"
    )
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1, help="steps before these")
    parser.add_argument("input", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
