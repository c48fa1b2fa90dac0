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
)
@shared_options.overwrite_option()
def convert(source: str, target: str, dtype: str | None, overwrite: bool) -> None:
    """Convert the weights of a model or a softmax from INPUT to OUTPUT.

    \b
    $ elmo convert weights.hdf5 weights.safetensors
    $ elmo convert weights.hdf5 small.hdf5 --dtype float16

    The suffixes choose HDF5 or safetensors. float16 halves the size of the file; the
    weights are still loaded as float32. OUTPUT appears once it is complete.
    """
    from elmo_cli.pretrained.convert import convert_weights

    n_tensors, dtype = convert_weights(source, target, dtype, overwrite=overwrite)
    n_bytes = os.stat(target).st_size
    stderr.say(
        f"Wrote {target}: {counted(n_tensors, 'tensor')}, {dtype}, {n_bytes:,} bytes"
    )
