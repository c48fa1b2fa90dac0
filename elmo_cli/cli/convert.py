"""`elmo convert`: weights or activations to another format or precision."""

import click

from elmo_cli.cli import flags
from elmo_cli.outputs.output_formats import (
    OUTPUT_FORMATS,
    STANDARD_OUTPUT,
    find_output_format,
)
from elmo_cli.quantities import counted
from elmo_cli.text.lines import check_input

WEIGHT_FORMATS = ("hdf5", "safetensors")


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(OUTPUT_FORMATS),
    help="Of OUT, of activations. [default: by its suffix]",
)
@flags.output_options
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    help="Of the values in OUT. [default: as in IN; of weights float16 where all of IN is]",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@flags.verbosity_options
def convert(
    source: str,
    target: str,
    file_format: str | None,
    layout: str | None,
    compression: str | None,
    dtype: str | None,
    overwrite: bool,
) -> None:
    """Convert a file of weights or of activations: IN to OUT.

    Weights, of a biLM or of a softmax: HDF5 or safetensors by the names, from either to
    either. float16 halves the size; the weights are loaded as float32 all the same.

    Activations, as `elmo embed` or `allennlp elmo` wrote them: HDF5 of either layout to
    the other, to another compression, or to any format that `elmo embed` writes. What was
    interrupted goes on when the same command is given again.

    OUT appears when it is complete.

    \b
    $ elmo convert weights.hdf5 weights.safetensors
    $ elmo convert weights.hdf5 small.hdf5 --dtype float16
    $ elmo convert vectors.hdf5 packed.hdf5 --layout packed --compression gzip
    $ elmo convert vectors.hdf5 vectors.parquet
    """
    flags.refuse_standard_input("IN", source)

    from elmo_cli.outputs.recognition import is_activations

    check_input(source)
    form = {"file_format": file_format, "layout": layout, "compression": compression}
    if is_activations(source):
        _convert_activations(source, target, dtype, overwrite=overwrite, form=form)
    else:
        _check_weights(source, target, form)
        _convert_weights(source, target, dtype, overwrite=overwrite)


Form = dict[str, str | None]


def _convert_activations(
    source: str, target: str, dtype: str | None, *, overwrite: bool, form: Form
) -> None:
    from elmo_cli.cli.signals import stop_on_signal
    from elmo_cli.outputs.convert_activations import convert_activations

    flags.warn_of_odd_suffix(target, form["file_format"])
    with stop_on_signal("record") as should_stop:
        made = convert_activations(
            source, target, dtype, overwrite=overwrite, should_stop=should_stop, **form
        )
    size = "" if target == STANDARD_OUTPUT else f", {made.n_bytes:,} bytes"
    name = flags.name_of_output(target)
    flags.say(f"{name}: {counted(made.n_records, 'record')}, {made.dtype}{size}")


def _check_weights(source: str, target: str, form: Form) -> None:
    """Refuse what is no file of weights by its name, and what is not for weights."""
    found = find_output_format(source, pooled=True)
    if found not in WEIGHT_FORMATS:
        raise click.UsageError(
            f"{source}: expected activations of HDF5, or weights of HDF5 or safetensors; {found} "
            "is written, not read"
        )
    for name, given in form.items():
        if given is not None:
            option = name.removeprefix("file_")
            raise click.UsageError(f"--{option} is for activations, and {source} is none")
    if target == STANDARD_OUTPUT or find_output_format(target, pooled=True) not in WEIGHT_FORMATS:
        raise click.UsageError(
            f"{flags.name_of_output(target)} is for activations, and {source} is none; weights go "
            "to .hdf5, .h5 or .safetensors"
        )


def _convert_weights(source: str, target: str, dtype: str | None, *, overwrite: bool) -> None:
    from elmo_cli.pretrained.convert_weights import convert_weights

    converted = convert_weights(source, target, dtype, overwrite=overwrite)
    flags.say(
        f"{target}: {counted(converted.n_tensors, 'tensor')}, {converted.dtype}, "
        f"{converted.n_bytes:,} bytes"
    )
