"""`elmo convert`: weights to another format or data type."""

import os

import click

from elmo_cli.cli import messages, options
from elmo_cli.outputs.formats import DTYPES
from elmo_cli.quantities import counted


@options.command()
@click.argument("source", metavar="IN", type=options.PATH)
@click.argument("target", metavar="OUT", type=options.PATH)
@options.choice(
    "--dtype",
    DTYPES,
    help="Data type of the values in OUT. [default: float16 where all of IN is, else float32]",
)
@options.overwrite_option
def convert(source: str, target: str, dtype: str | None, overwrite: bool) -> None:
    """Convert the weights of a biLM or of a softmax: IN to OUT.

    HDF5 or safetensors, by the names, from either to either. float16 halves the size; the
    weights are loaded as float32 all the same. OUT appears when it is complete.

    \b
    $ elmo convert weights.hdf5 weights.safetensors
    $ elmo convert weights.hdf5 small.hdf5 --dtype float16
    """
    from elmo_cli.pretrained.convert_weights import convert_weights

    n_tensors, dtype = convert_weights(source, target, dtype, overwrite=overwrite)
    n_bytes = os.stat(target).st_size
    messages.say(f"{target}: {counted(n_tensors, 'tensor')}, {dtype}, {n_bytes:,} bytes")
