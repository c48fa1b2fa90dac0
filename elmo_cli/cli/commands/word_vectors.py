"""`elmo word-vectors`: vectors of words without a sentence."""

import sys
from pathlib import Path
from typing import Any

import click

from elmo_cli.cli import options
from elmo_cli.quantities import counted


@options.command("word-vectors")
@click.argument("words_file", metavar="VOCABULARY", type=click.Path(path_type=Path))
@click.argument("output", metavar="OUT", type=click.Path(path_type=Path))
@options.flag(
    "--softmax", help="Write the output vectors of the softmax; that of <UNK> for unknown words."
)
@options.flag("--overwrite", help="Replace OUT if it exists.")
@options.file_options
@options.option_group("Model", options.softmax_option(requires="--softmax"))
@options.option_group("Speed", options.device_option(excludes="--softmax"))
def word_vectors(
    words_file: Path, output: Path, softmax: bool, overwrite: bool, device: str, **named: Any
) -> None:
    """Write the vectors of the words in VOCABULARY, one a line, to OUT.

    The vectors come from the token encoder and do not depend on a sentence: layer 0 of
    `elmo embed`. OUT is HDF5 (.hdf5, .h5) with a dataset "embedding", float32 of shape
    (words, projection_dim), as in bilm-tf; or word2vec's text format (.txt, .vec, .w2v,
    optionally followed by .gz). OUT appears when it is complete.

    \b
    $ elmo word-vectors vocab.txt vectors.hdf5
    $ elmo word-vectors vocab.txt vectors.vec.gz --model original
    $ elmo word-vectors vocab.txt softmax-vectors.hdf5 --softmax --model my-model
    """
    options.refuse_standard_input("VOCABULARY", words_file)

    from elmo_cli.analysis.word_vectors import check_output_form, write_token_vectors

    check_output_form(output, overwrite=overwrite, source=words_file)
    files = options.take_files(named, with_softmax=softmax)
    options.say_model(files.name)

    from tqdm import tqdm

    with tqdm(unit=" words", disable=options.is_quiet() or None, file=sys.stderr) as bar:
        n_words = write_token_vectors(
            words_file,
            output,
            softmax=softmax,
            device=device,
            model=files,
            overwrite=overwrite,
            on_progress=bar.update,
        )
    options.say(f"{output}: {counted(n_words, 'word')}")
