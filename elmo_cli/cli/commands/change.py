"""`elmo change`: how much words have changed between two corpora."""

import click

from elmo_cli.cli import messages, options
from elmo_cli.cli.answers import as_json_line, as_row
from elmo_cli.quantities import counted


@options.command()
@click.argument("old")
@click.argument("new")
@options.choice(
    "--measure",
    ["apd", "prt", "jsd"],
    default="apd",
    help="Mean cosine distance of all pairs of uses; inverse cosine of the means; or "
    "Jensen-Shannon divergence over clusters.",
)
@options.count(
    "--permutations",
    help="Number of random divisions of the uses of a word, to tell change from noise. "
    "[default: none]",
)
@options.option(
    "--words",
    metavar="FILE",
    help="Words to compare, one a line, with their forms: lemma,form,form. [default: those of "
    "`elmo embed --words`]",
)
@options.mean_layers_option("compared", "Layers")
@options.json_option("an object a word")
def change(
    old: str,
    new: str,
    measure: str,
    permutations: int | None,
    words: str | None,
    layers: str | None,
    as_json: bool,
) -> None:
    """Measure how much words have changed from OLD to NEW, the most changed first.

    OLD and NEW are what `elmo embed --words` wrote for two corpora, npz or HDF5; or with
    --words, HDF5 of all tokens. Prints a line a word, separated by tabs: the word, its
    change, the number of its uses in OLD and in NEW; with --permutations also p, the share
    of random divisions of all its uses that change as much. Words with fewer than 3 uses in
    one of them are left out.

    \b
    $ elmo embed old.txt old.npz --words targets.txt --layers top
    $ elmo embed new.txt new.npz --words targets.txt --layers top
    $ elmo change old.npz new.npz --permutations 1000
    $ elmo change old.hdf5 new.hdf5 --words targets.txt --measure prt --json
    """
    from elmo_cli.analysis.change import MIN_USES, measure_change, read_uses
    from elmo_cli.text.records import read_targets

    targets = None if words is None else read_targets(words)
    changes = measure_change(
        *read_uses(old, new, targets, layers), measure, permutations=permutations or 0
    )
    for found in changes:
        if found.change is None:
            uses = f"{counted(found.n_old, 'use')} and {found.n_new:,}"
            messages.say(f"{found.word} is left out: {uses}, and {MIN_USES} are needed in each")
            continue
        facts = {name: value for name, value in found._asdict().items() if value is not None}
        named = {"word": found.word, "measure": measure}
        click.echo(as_json_line(named | facts) if as_json else as_row(facts.values()))
