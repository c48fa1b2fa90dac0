"""`elmo neighbours`: the uses in an embedded corpus nearest to a word in a sentence."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.streams import chunks
from elmo_cli.errors import InputError, ModelError
from elmo_cli.text.lines import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.cosine import Occurrence
    from elmo_cli.analysis.neighbours import Neighbour
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.outputs.reader import Activations
    from elmo_cli.text.lines import Sentence

    Cut = Callable[[str], Sentence]

MAX_QUERIES = 64
"""Maximum number of queries from standard input that are searched together."""


@options.command()
@click.argument(
    "arguments", metavar="WORD SENTENCE FILE...", type=options.PATH, nargs=-1, required=True
)
@options.count("--top", default=10, help="Number of neighbours.")
@options.flag("--other-words", excludes="--sentence", help="Leave out other uses of WORD itself.")
@options.count(
    "--occurrence",
    excludes="--sentence",
    help="Number of the occurrence of WORD in SENTENCE, from 1.",
)
@options.option(
    "--sentence",
    metavar="TEXT",
    help="Find the sentences nearest to TEXT, in FILEs of --pooling, in place of a word.",
)
@options.option(
    "--layers",
    metavar="N,...",
    help="Layers of FILE whose mean is compared. [default: all but layer 0, which knows "
    "spelling only]",
)
@options.tokenizer_options("moses")
@options.json_option("an object a query")
@options.file_options
@options.option_group("Speed", options.device_option())
def neighbours(
    arguments: tuple[str, ...],
    top: int,
    other_words: bool,
    occurrence: int | None,
    sentence: str | None,
    layers: str | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Find the uses in FILEs nearest to WORD in SENTENCE.

    FILE is what `elmo embed` wrote, in HDF5, a folder of `elmo distribute`, or a pattern of
    such names; several are searched as one. SENTENCE is embedded by the model and from the
    state that made them. Prints the cosine of each use, the number of its line, and its
    sentence with the word marked; SENTENCE itself is left out. With - in place of WORD and
    SENTENCE, reads them from standard input, separated by a tab, a query a line, and prints
    the number of the query and these, separated by tabs. Cosines of ELMo are high
    everywhere: that of two random tokens is printed on standard error.

    \b
    $ elmo embed corpus.txt corpus.hdf5 --layout packed --layers 1,2 --dtype float16
    $ elmo neighbours bank "We sat on the bank of the river." corpus.hdf5 --top 5
    $ elmo neighbours - corpus.hdf5 --json < queries.tsv
    $ elmo neighbours --sentence "How do I open an account?" pooled.hdf5
    """
    n_before = 0 if sentence is not None else 1 if arguments[0] == STANDARD_INPUT else 2
    files = arguments[n_before:]
    if not files:
        raise click.UsageError(
            "expected WORD SENTENCE FILE..., - FILE..., or --sentence TEXT FILE..."
        )
    options.refuse_standard_input("FILE", *files)
    # A wrong word of the command line is found before a model is loaded.
    query = None
    cut = loading.take_tokenizer(named).cut
    if sentence is not None:
        query = _whole(sentence, cut)
    elif n_before == 2:
        query = _find(arguments[0], arguments[1], occurrence, cut)

    from elmo_cli.analysis.neighbours import word_neighbours
    from elmo_cli.analysis.uses import check_pooling, has_token_layer
    from elmo_cli.outputs.reader import open_activations

    with open_activations(*files) as activations:
        check_pooling(activations, pooled=sentence is not None)
        if has_token_layer(activations, layers):
            messages.say("Warning: layer 0 is in these vectors; it finds words of like spelling.")
        embedder = _load_embedder(activations, named)
        number = 0
        for chunk in _chunks(occurrence, cut) if query is None else [[query]]:
            found = word_neighbours(
                *(embedder, activations, chunk, top), layers=layers, other_words=other_words
            )
            if found.mean_cosine is not None and number == 0:
                pair = "tokens" if sentence is None else "sentences"
                messages.say(f"Cosine of two random {pair}: {found.mean_cosine:.3f} on average")
            for each, nearest in zip(chunk, found.nearest, strict=True):
                number += 1
                if as_json:
                    _print_json(activations, each, nearest, found.mean_cosine)
                else:
                    _print_lines(activations, nearest, None if query is not None else number)


def _whole(sentence: str, cut: "Cut") -> "Occurrence":
    """A sentence as a query."""
    from elmo_cli.analysis.cosine import Occurrence

    tokens = cut(sentence)
    if not tokens:
        raise click.UsageError("--sentence: expected a sentence, found an empty text")
    return Occurrence(tokens, 0)


def _find(word: str, sentence: str, number: int | None, cut: "Cut") -> "Occurrence":
    """A word in a sentence as a query."""
    from elmo_cli.analysis.cosine import find_occurrence

    return find_occurrence(cut(sentence), word, number, option="--occurrence")


def _chunks(number: int | None, cut: "Cut") -> "Iterator[list[Occurrence]]":
    """The queries of standard input, those together that are there."""
    from elmo_cli.text.lines import open_lines

    with open_lines(STANDARD_INPUT) as lines:
        yield from chunks(_queries(lines, number, cut), MAX_QUERIES, lines.is_ready)


def _queries(lines: Iterable[str], occurrence: int | None, cut: "Cut") -> "Iterator[Occurrence]":
    for number, line in enumerate(lines, start=1):
        word, tab, sentence = line.partition("\t")
        try:
            if not tab:
                raise InputError("expected a word and a sentence with a tab between, found no tab")
            yield _find(word.strip(), sentence, occurrence, cut)
        except InputError as error:
            raise InputError(f"standard input, line {number}: {error}") from None


def _load_embedder(activations: "Activations", named: dict[str, Any]) -> "ElmoEmbedder":
    """The model that made a file, unless another is named."""
    from elmo_cli.analysis.neighbours import settings_of

    settings = settings_of(activations)
    if named["model"] is None and named["options_file"] is None:
        named["model"] = settings["model"]
        if named["model"] is None:
            raise click.UsageError(
                f"{activations.paths[0]} does not say which model made it; --model names it"
            )
    try:
        return loading.load_embedder(**named, state=settings["state"])
    except ModelError as error:
        if options.given("--model", "--options-file"):
            raise
        raise ModelError(f"the model of {activations.paths[0]}: {error}; or --model") from None


def _print_lines(
    activations: "Activations", nearest: "Iterable[Neighbour]", number: int | None
) -> None:
    """Print neighbours, a line each; tabs and the number of the query for a program."""
    for found in nearest:
        path, record = activations.source(found.record)
        line = f"{path}:{record + 1}" if len(activations.paths) > 1 else str(record + 1)
        is_pooled = "pooling" in activations.attributes
        text = " ".join(found.sentence) if is_pooled else found.marked
        if number is None:
            click.echo(f"{found.cosine:6.3f}  {line:>5}  {text}")
        else:
            click.echo(f"{number}\t{found.cosine:.6f}\t{line}\t{text}")


def _print_json(
    activations: "Activations",
    query: "Occurrence",
    nearest: "Iterable[Neighbour]",
    mean_cosine: float | None,
) -> None:
    def shown(use: "Occurrence") -> dict[str, Any]:
        is_pooled = "pooling" in activations.attributes
        return {
            "tokens": use.sentence,
            **({} if is_pooled else {"word": use.token, "index": use.index}),
        }

    found = []
    for neighbour in nearest:
        path, record = activations.source(neighbour.record)
        place = {"cosine": neighbour.cosine, "file": str(path), "line": record + 1}
        found.append({**place, **shown(neighbour)})
    answer = {"query": shown(query), "mean_cosine": mean_cosine, "neighbours": found}
    click.echo(json.dumps(answer, ensure_ascii=False))
