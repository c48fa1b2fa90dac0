"""`elmo cosine` and `elmo neighbours`: how alike the vectors of two uses of words are."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import as_json_line, as_row, read_queries
from elmo_cli.cli.command import command, given, option_group, receives
from elmo_cli.errors import InputError, ModelError
from elmo_cli.settings import ModelSettings, TextSettings
from elmo_cli.text.pipes import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.analysis.cosine import Occurrence, Similarity
    from elmo_cli.analysis.neighbours import Neighbour
    from elmo_cli.embedder import ElmoEmbedder
    from elmo_cli.outputs.reader import Activations
    from elmo_cli.text.records import Sentence


@command()
@click.argument("word")
@click.argument("sentence1")
@click.argument("sentence2", required=False)
@options.option("--word2", metavar="WORD", help="Word in SENTENCE2, if it differs from WORD.")
@options.count("--occurrence1", help="Number of the occurrence in SENTENCE1, from 1.")
@options.count("--occurrence2", help="Number of the occurrence in SENTENCE2, from 1.")
@options.tokenizer_options("moses")
@options.option(
    "--layer",
    metavar="N|average",
    shell_complete=options.complete_values("average"),
    excludes="--json",
    help="Print only the cosine of this layer, or of the average of all layers.",
)
@options.json_option("an object a pair")
@options.run_options
@receives(model_settings=ModelSettings, text_settings=TextSettings)
def cosine(
    word: str,
    sentence1: str,
    sentence2: str | None,
    word2: str | None,
    occurrence1: int | None,
    occurrence2: int | None,
    layer: str | None,
    as_json: bool,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Compare the vectors of WORD in SENTENCE1 and in SENTENCE2.

    Prints the cosine similarity for each layer (0 is the token layer, which does not depend
    on the sentence) and for the average of all layers. With - in place of the sentences,
    reads pairs from standard input, two sentences a line separated by a tab, and answers
    each with a line: the cosine of each layer and of the average, separated by tabs.

    \b
    $ elmo cosine bank "I sat by the bank." "The bank lent us money."
    $ elmo cosine bank - --layer 2 < pairs.tsv
    """
    if (sentence1 == "-") == (sentence2 is not None):
        raise click.UsageError("expected two sentences, or - for pairs from standard input")

    from elmo_cli.analysis.cosine import find_pair, similarities

    language = loading.model_language(model_settings)
    tokenize = loading.make_tokenizer(text_settings, language).tokenize

    def find(sentences: Sequence[str]) -> "tuple[Occurrence, Occurrence]":
        return find_pair(sentences, tokenize, word, word2, occurrence1, occurrence2)

    # A wrong word of the command line is found before a model is loaded.
    pair = None if sentence2 is None else find([sentence1, sentence2])
    embedder = loading.load_embedder(model_settings)
    layers = [*map(str, range(embedder.options.n_layers)), "average"]
    if layer not in (None, *layers):
        expected = f"expected a number from 0 to {layers[-2]}, or average"
        raise click.UsageError(f"--layer {layer!r}: {expected}")
    pairs = read_queries(lambda line: find(line.split("\t")))
    for chunk in pairs if pair is None else [[pair]]:
        for found in similarities(embedder, chunk):
            click.echo(_shown(found, layer, as_json, as_table=pair is not None))


def _shown(found: "Similarity", layer: str | None, as_json: bool, *, as_table: bool) -> str:
    if as_json:
        pair = {"first": _place(found.first), "second": _place(found.second)}
        return as_json_line({**pair, "layers": found.layers, "average": found.average})
    if layer is not None:
        return as_row([found.average if layer == "average" else found.layers[int(layer)]])
    if not as_table:
        return as_row([*found.layers, found.average])
    lines = [found.first.marked, found.second.marked, ""]
    lines += [f"layer {k}  {value:8.4f}" for k, value in enumerate(found.layers)]
    return "\n".join([*lines, f"average  {found.average:8.4f}"])


def _place(occurrence: "Occurrence") -> dict[str, Any]:
    return {"tokens": occurrence.sentence, "word": occurrence.token, "index": occurrence.index}


@command()
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
@option_group("Speed", options.device_option())
@receives(model_settings=ModelSettings, text_settings=TextSettings)
def neighbours(
    arguments: tuple[str, ...],
    top: int,
    other_words: bool,
    occurrence: int | None,
    sentence: str | None,
    layers: str | None,
    as_json: bool,
    model_settings: ModelSettings,
    text_settings: TextSettings,
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

    with open_activations(*files) as activations:
        check_pooling(activations, pooled=sentence is not None)
        if has_token_layer(activations, layers):
            messages.say("Warning: layer 0 is in these vectors; it finds words of like spelling.")
        model_settings = _model_of(activations, model_settings)
        text_settings = _text_of(activations, text_settings)
        language = loading.model_language(model_settings)
        tokenize = loading.make_tokenizer(text_settings, language).tokenize
        queries = _read_queries(arguments, sentence, occurrence, tokenize)
        embedder = _load_embedder(activations, model_settings)
        number = 0
        for chunk in queries:
            found = word_neighbours(
                *(embedder, activations, chunk, top), layers=layers, other_words=other_words
            )
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
    tokenize: "Callable[[str], Sentence]",
) -> "Iterable[list[Occurrence]]":
    """The query, or those in the lines of standard input: those together that are there."""
    from elmo_cli.analysis.cosine import Occurrence, find_occurrence

    def find(word: str, text: str) -> Occurrence:
        return find_occurrence(tokenize(text), word, occurrence, option="--occurrence")

    def find_in_line(line: str) -> Occurrence:
        word, tab, text = line.partition("\t")
        if not tab:
            raise InputError("expected a word and a sentence with a tab between, found no tab")
        return find(word.strip(), text)

    if sentence is None:
        from_input = arguments[0] == STANDARD_INPUT
        return read_queries(find_in_line) if from_input else [[find(*arguments[:2])]]
    if not (tokens := tokenize(sentence)):
        raise click.UsageError("--sentence: expected a sentence, found an empty text")
    return [[Occurrence(tokens, 0)]]


def _model_of(activations: "Activations", given_settings: ModelSettings) -> ModelSettings:
    """Return the settings of the model that made a file, unless the options name another."""
    recorded = ModelSettings.from_attributes(activations.attributes)
    if given_settings.model is not None or given_settings.options_file is not None:
        return replace(given_settings, state=recorded.state)
    if recorded.model is None:
        raise click.UsageError(
            f"{activations.paths[0]} does not say which model made it; --model names it"
        )
    return replace(given_settings, model=recorded.model, state=recorded.state)


def _text_of(activations: "Activations", given_settings: TextSettings) -> TextSettings:
    """Return the settings of the text of a file, unless the options name a tokenizer."""
    recorded = activations.attributes.get("tokenizer")
    if recorded is None or given("--tokenizer", "--language"):
        return given_settings
    return replace(given_settings, tokenizer=recorded)


def _load_embedder(activations: "Activations", settings: ModelSettings) -> "ElmoEmbedder":
    try:
        return loading.load_embedder(settings)
    except ModelError as error:
        if given("--model", "--options-file"):
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
    return {"tokens": found.sentence} if "pooling" in activations.attributes else _place(found)


def _facts(activations: "Activations", found: "Neighbour") -> dict[str, Any]:
    path, number = activations.source(found.record)
    key = activations.key(found.record)
    name = {"line": number + 1} if key is None else {"key": key}
    return {"cosine": found.cosine, "file": str(path)} | name | _use(activations, found)
