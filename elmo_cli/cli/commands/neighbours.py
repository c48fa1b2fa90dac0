"""`elmo neighbours`: the uses in an embedded corpus nearest to a word in a sentence."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import as_json_line, as_row, read_queries
from elmo_cli.errors import InputError, ModelError
from elmo_cli.text.lines import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.cosine import Occurrence
    from elmo_cli.analysis.neighbours import Neighbour
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.outputs.reader import Activations
    from elmo_cli.text.lines import Sentence


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
@options.mean_layers_option("compared")
@options.tokenizer_options("moses")
@options.json_option("an object a query")
@options.file_options
@options.option_group("Speed", options.device_option())
def neighbours(
    arguments: tuple[str, ...],
    occurrence: int | None,
    sentence: str | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Find the uses in FILEs nearest to WORD in SENTENCE.

    FILE is what `elmo embed` wrote, in HDF5, a folder of `elmo distribute`, or a pattern of
    such names; several are searched as one. SENTENCE is cut by the tokenizer, and embedded
    by the model and from the state that made them, unless others are named. Prints the
    cosine of each use, the number of its line, and its sentence with the word marked;
    SENTENCE itself is left out. With - in place of WORD and SENTENCE, reads them from
    standard input, separated by a tab, a query a line, and prints the number of the query
    and these, separated by tabs. Cosines of ELMo are high everywhere: that of two random
    tokens is printed on standard error.

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

    from elmo_cli.analysis.neighbours import word_neighbours
    from elmo_cli.analysis.uses import check_pooling, has_token_layer
    from elmo_cli.outputs.reader import open_activations

    searching: dict[str, Any] = {name: named.pop(name) for name in ("top", "layers", "other_words")}
    with open_activations(*files) as activations:
        check_pooling(activations, pooled=sentence is not None)
        if has_token_layer(activations, searching["layers"]):
            messages.say("Warning: layer 0 is in these vectors; it finds words of like spelling.")
        _take_settings(activations, named)
        cut = loading.take_tokenizer(named).cut
        queries = _read_queries(arguments, sentence, occurrence, cut)
        embedder = _load_embedder(activations, named)
        number = 0
        for chunk in queries:
            found = word_neighbours(embedder, activations, chunk, **searching)
            if number == 0 and found.mean_cosine is not None:
                pair = "tokens" if sentence is None else "sentences"
                messages.say(f"Cosine of two random {pair}: {found.mean_cosine:.3f} on average")
            for query, nearest in zip(chunk, found.nearest, strict=True):
                number += 1
                if as_json:
                    neighbours = [_facts(activations, near) for near in nearest]
                    facts = {"query": _use(activations, query), "mean_cosine": found.mean_cosine}
                    click.echo(as_json_line({**facts, "neighbours": neighbours}))
                else:
                    _print(activations, nearest, number if n_before == 1 else None)


def _read_queries(
    arguments: tuple[str, ...],
    sentence: str | None,
    occurrence: int | None,
    cut: "Callable[[str], Sentence]",
) -> "Iterable[list[Occurrence]]":
    """The query, or those in the lines of standard input: those together that are there."""
    from elmo_cli.analysis.cosine import Occurrence, find_occurrence

    def find(word: str, text: str) -> Occurrence:
        return find_occurrence(cut(text), word, occurrence, option="--occurrence")

    def find_in_line(line: str) -> Occurrence:
        word, tab, text = line.partition("\t")
        if not tab:
            raise InputError("expected a word and a sentence with a tab between, found no tab")
        return find(word.strip(), text)

    if sentence is None:
        from_input = arguments[0] == STANDARD_INPUT
        return read_queries(find_in_line) if from_input else [[find(*arguments[:2])]]
    if not (tokens := cut(sentence)):
        raise click.UsageError("--sentence: expected a sentence, found an empty text")
    return [[Occurrence(tokens, 0)]]


def _take_settings(activations: "Activations", named: dict[str, Any]) -> None:
    """Add what made a file to the options: the state, and what is not named of model and text."""
    from elmo_cli.analysis.neighbours import settings_of

    settings = settings_of(activations)
    if named["model"] is not None or named["options_file"] is not None:
        del settings["model"]
    elif settings["model"] is None:
        raise click.UsageError(
            f"{activations.paths[0]} does not say which model made it; --model names it"
        )
    made_by = activations.attributes.get("tokenizer")
    if made_by is not None and not options.given("--tokenizer", "--language"):
        settings["tokenizer"] = made_by
    named |= settings


def _load_embedder(activations: "Activations", named: dict[str, Any]) -> "ElmoEmbedder":
    try:
        return loading.load_embedder(**named)
    except ModelError as error:
        if options.given("--model", "--options-file"):
            raise
        raise ModelError(f"the model of {activations.paths[0]}: {error}; or --model") from None


def _print(activations: "Activations", nearest: "list[Neighbour]", number: int | None) -> None:
    """Print a neighbour a line; for a program, with tabs and the number of the query."""
    from elmo_cli.analysis.uses import record_name

    for found in nearest:
        name = record_name(activations, found.record)
        text = " ".join(found.sentence) if "pooling" in activations.attributes else found.marked
        if number is None:
            click.echo(f"{found.cosine:6.3f}  {name:>5}  {text}")
        else:
            click.echo(as_row([number, found.cosine, name, text]))


def _use(activations: "Activations", found: "Occurrence") -> dict[str, Any]:
    word = {"word": found.token, "index": found.index}
    return {"tokens": found.sentence} | ({} if "pooling" in activations.attributes else word)


def _facts(activations: "Activations", found: "Neighbour") -> dict[str, Any]:
    path, number = activations.source(found.record)
    key = activations.key(found.record)
    name = {"line": number + 1} if key is None else {"key": key}
    return {"cosine": found.cosine, "file": str(path)} | name | _use(activations, found)
