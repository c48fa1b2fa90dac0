"""`elmo merge`: the outputs of all shards to one."""

import click

from elmo_cli.cli import messages, options
from elmo_cli.quantities import counted


@options.command()
@click.argument("output_file", metavar="OUTPUT", type=options.PATH)
@click.argument("shards", metavar="SHARD...", type=options.PATH, nargs=-1, required=True)
@options.flag("--overwrite", help="Replace OUTPUT if it exists.")
def merge(output_file: str, shards: tuple[str, ...], overwrite: bool) -> None:
    """Copy the outputs of `elmo embed --shard`, every SHARD, to OUTPUT.

    OUTPUT is what `elmo embed` would have written without --shard. All shards have to
    be there, of the same input and settings; they are left as they are. Few need to
    merge: `open_activations` reads all shards as one file.

    \b
    $ elmo embed corpus.txt shard-1.hdf5 --shard 1/2
    $ elmo embed corpus.txt shard-2.hdf5 --shard 2/2
    $ elmo merge vectors.hdf5 shard-*.hdf5
    """
    from elmo_cli.cli.signals import stop_on_signal
    from elmo_cli.outputs.merge import merge_shards

    with stop_on_signal() as should_stop:
        n_records = merge_shards(output_file, shards, overwrite=overwrite, should_stop=should_stop)
    messages.say(f"{output_file}: {counted(len(shards), 'shard')}, {counted(n_records, 'record')}")
