"""`elmo neighbours`: the uses in an embedded corpus nearest to a word in a sentence."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.streams import input_chunks
from elmo_cli.errors import InputError, ModelError
from elmo_cli.text.lines import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.cosine import Occurrence
    from elmo_cli.analysis.neighbours import Neighbour, Neighbours
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
    options.refuse_standard_input("FILE", *files)

    from elmo_cli.analysis.neighbours import word_neighbours
    from elmo_cli.analysis.uses import check_pooling, has_token_layer
    from elmo_cli.outputs.reader import open_activations

    with open_activations(*files) as activations:
        check_pooling(activations, pooled=sentence is not None)
        if has_token_layer(activations, layers):
            messages.say("Warning: layer 0 is in these vectors; it finds words of like spelling.")
        state = _take_settings(activations, named)
        cut = loading.take_tokenizer(named).cut
        if sentence is not None:
            queries = iter([[_whole(sentence, cut)]])
        elif n_before == 2:  # a wrong word is found before a model is loaded
            queries = iter([[_find(arguments[0], arguments[1], occurrence, cut)]])
        else:
            parse = partial(_find_in_line, number=occurrence, cut=cut)
            queries = input_chunks(parse, MAX_QUERIES)
        embedder = _load_embedder(activations, named, state)
        show = _Printer(activations, as_json=as_json, with_numbers=n_before == 1)
        for chunk in queries:
            found = word_neighbours(
                *(embedder, activations, chunk, top), layers=layers, other_words=other_words
            )
            show(chunk, found)


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


def _find_in_line(line: str, number: int | None, cut: "Cut") -> "Occurrence":
    """The query in a line of standard input."""
    word, tab, sentence = line.partition("\t")
    if not tab:
        raise InputError("expected a word and a sentence with a tab between, found no tab")
    return _find(word.strip(), sentence, number, cut)


def _take_settings(activations: "Activations", named: dict[str, Any]) -> str:
    """Add the model and the tokenizer of a file to the options, unless others are named.

    Returns:
        The state of sentences.
    """
    from elmo_cli.analysis.neighbours import settings_of

    settings = settings_of(activations)
    if named["model"] is None and named["options_file"] is None:
        named["model"] = settings["model"]
        if named["model"] is None:
            raise click.UsageError(
                f"{activations.paths[0]} does not say which model made it; --model names it"
            )
    made_by = activations.attributes.get("tokenizer")
    if made_by is not None and not options.given("--tokenizer", "--language"):
        named["tokenizer"] = made_by
    state: str = settings["state"]
    return state


def _load_embedder(activations: "Activations", named: dict[str, Any], state: str) -> "ElmoEmbedder":
    try:
        return loading.load_embedder(**named, state=state)
    except ModelError as error:
        if options.given("--model", "--options-file"):
            raise
        raise ModelError(f"the model of {activations.paths[0]}: {error}; or --model") from None


class _Printer:
    """Prints neighbours."""

    def __init__(self, activations: "Activations", *, as_json: bool, with_numbers: bool) -> None:
        self._activations, self._as_json = activations, as_json
        self._with_numbers, self._n_queries = with_numbers, 0
        self._is_pooled = "pooling" in activations.attributes

    def __call__(self, queries: "Iterable[Occurrence]", found: "Neighbours") -> None:
        """Print what was found for some queries; before the first, how alike tokens are."""
        if found.mean_cosine is not None and self._n_queries == 0:
            pair = "sentences" if self._is_pooled else "tokens"
            messages.say(f"Cosine of two random {pair}: {found.mean_cosine:.3f} on average")
        for query, nearest in zip(queries, found.nearest, strict=True):
            self._n_queries += 1
            if self._as_json:
                answer = [self._place(each) | self._shown(each) for each in nearest]
                facts = {"query": self._shown(query), "mean_cosine": found.mean_cosine}
                click.echo(json.dumps(facts | {"neighbours": answer}, ensure_ascii=False))
            else:
                for each in nearest:
                    click.echo(self._line(each))

    def _line(self, found: "Neighbour") -> str:
        """A neighbour as a line; for a program, with tabs and the number of the query."""
        from elmo_cli.analysis.uses import record_name

        line = record_name(self._activations, found.record)
        text = " ".join(found.sentence) if self._is_pooled else found.marked
        if self._with_numbers:
            return f"{self._n_queries}\t{found.cosine:.6f}\t{line}\t{text}"
        return f"{found.cosine:6.3f}  {line:>5}  {text}"

    def _place(self, found: "Neighbour") -> dict[str, Any]:
        path, number = self._activations.source(found.record)
        key = self._activations.key(found.record)
        named = {"line": number + 1} if key is None else {"key": key}
        return {"cosine": found.cosine, "file": str(path), **named}

    def _shown(self, use: "Occurrence") -> dict[str, Any]:
        word = {} if self._is_pooled else {"word": use.token, "index": use.index}
        return {"tokens": use.sentence, **word}
