"""`elmo convert`."""

import os

import click

from elmo_cli.cli import shared_options, stderr
from elmo_cli.cli.command import command
from elmo_cli.cli.parameter_types import OUTPUT_PATH, PATH
from elmo_cli.errors.wording import counted
from elmo_cli.options.output import DTYPES


@command()
@click.argument("source", metavar="INPUT", type=PATH)
@click.argument("target", metavar="OUTPUT", type=OUTPUT_PATH)
@shared_options.choice(
    "--dtype",
    DTYPES,
    help="Data type of the values.",
    default_text="float16 if all of INPUT is, else float32",
    excludes=["--vocabulary-file"],
)
@shared_options.path_option(
    "--vocabulary-file FILE",
    help=(
        "Words of the PyTorch language model INPUT, one per line in their order, or a "
        "pickle of its Dictionary or Corpus."
    ),
)
@shared_options.overwrite_option()
def convert(
    source: str,
    target: str,
    dtype: str | None,
    vocabulary_file: str | None,
    overwrite: bool,
) -> None:
    """Convert weights to another format, or a PyTorch language model to a folder.

    \b
    $ elmo convert weights.hdf5 weights.safetensors
    $ elmo convert weights.hdf5 small.hdf5 --dtype float16
    $ elmo convert model.pt my-model --vocabulary-file vocab.txt

    INPUT is weights.hdf5 or softmax.hdf5 of a model, or the same as safetensors. The
    suffix of OUTPUT chooses its format: .hdf5, .h5 or .safetensors. float16 takes half
    the space of float32. The weights are loaded as float32 in any case. Next to
    options.json, weights.safetensors works like weights.hdf5.

    With --vocabulary-file, INPUT is a word-level LSTM language model of PyTorch, such
    as Gulordava's: an Embedding, an LSTM and a Linear, saved as a module or a state
    dict. Its vocabulary must contain <eos> and <unk>. OUTPUT is a folder. Give it as
    --model to `elmo surprisal`, `elmo perplexity` or `elmo predict`.

    OUTPUT appears once it is complete.
    """
    if vocabulary_file is not None:
        from elmo_cli.language_model.convert_torch import convert_torch_model

        model = convert_torch_model(
            source, target, vocabulary_file, overwrite=overwrite
        )
        layers = f"{counted(model.n_layers, 'layer')} of {counted(model.dim, 'unit')}"
        stderr.say(f"Wrote {target}: {layers}, {counted(model.n_words, 'word')}")
        return

    from elmo_cli.pretrained.convert import convert_weights

    n_tensors, dtype = convert_weights(source, target, dtype, overwrite=overwrite)
    n_bytes = os.stat(target).st_size
    stderr.say(
        f"Wrote {target}: {counted(n_tensors, 'tensor')}, {dtype}, {n_bytes:,} bytes"
    )
