"""`elmo convert`: weights to another format or precision."""

import click

from elmo_cli.cli import flags


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    help="Of the values in OUT. [default: float16 where all of IN is, else float32]",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@flags.verbosity_options
def convert(source: str, target: str, dtype: str | None, overwrite: bool) -> None:
    """Convert a file of weights: IN to OUT, HDF5 or safetensors by their names.

    Of a biLM or of a softmax, from either format to either. float16 halves the size;
    the weights are loaded as float32 all the same. OUT appears when it is complete.

    \b
    $ elmo convert weights.hdf5 weights.safetensors
    $ elmo convert weights.hdf5 small.hdf5 --dtype float16
    """
    from elmo_cli.convert import convert_weights

    converted = convert_weights(source, target, dtype, overwrite=overwrite)
    flags.say(
        f"{target}: {converted.n_tensors:,} tensors, {converted.dtype}, {converted.n_bytes:,} bytes"
    )
