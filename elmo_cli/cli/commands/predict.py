"""`elmo predict`: the next words, those before, those of a gap; or sentences drawn at random."""

import os
import shlex
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import as_json_line, as_row
from elmo_cli.cli.streams import input_chunks
from elmo_cli.errors import InputError
from elmo_cli.text.lines import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.language_model.prediction import Candidate, Prediction, Substitutes
    from elmo_cli.text.lines import Sentence

MAX_TEXTS = 64
"""Maximum number of lines from standard input that are predicted together."""


@options.command()
@click.argument("text")
@options.count("--top", default=10, excludes="--sample", help="Number of words.")
@options.flag("--backward", help="Predict the word before TEXT.")
@options.flag(
    "--with-unknown",
    excludes="--sample or --each",
    help="Show <UNK>, which stands for all words outside the vocabulary.",
)
@options.flag(
    "--each", excludes="--backward or --sample", help="Predict the word in place of each token."
)
@options.count("--sample", "n_samples", help="Sample N random continuations of TEXT.")
@options.option(
    "--temperature",
    type=click.FloatRange(min=0, min_open=True),
    default=1,
    metavar="T",
    requires="--sample",
    help="Temperature of --sample: below 1, probable words become more probable.",
)
@options.count(
    "--max-words",
    default=50,
    requires="--sample",
    help="Maximum number of words that --sample adds.",
)
@options.count("--seed", least=0, default=0, requires="--sample", help="Seed of --sample.")
@options.json_option("an object a line")
@options.tokenizer_options("moses")
@options.language_model_options
def predict(text: str, each: bool, n_samples: int | None, as_json: bool, **named: Any) -> None:
    """Predict the words that follow TEXT, or that fill the gap ___ in it.

    Prints the most probable words of the vocabulary, with their probability; </S> stands for
    the end of the sentence. A gap is filled from both sides, by both directions, and so is, with
    --each, the place of each token: these are its substitutes. With - in place of TEXT, reads
    texts from standard input (`< FILE`), one a line, and prints a line a word, with tabs between:
    the number of the text, with --each that of the token and the token, the probability and the
    word.

    \b
    $ elmo predict "The cat sat on the"
    $ elmo predict "We sat on the ___ of the river ."
    $ elmo predict "The king" --sample 3 --temperature 0.7 --seed 1
    $ elmo predict - --each --top 3 --json < texts.txt
    """
    _check(text, named["state"])
    finding = {name: named.pop(name) for name in ("top", "backward", "with_unknown")}
    sampling = {name: named.pop(name) for name in ("temperature", "max_words", "seed")}
    texts = _read_texts(text, loading.take_tokenizer(named).cut)
    model = loading.load_language_model(**named)

    from elmo_cli.language_model import prediction

    if n_samples is not None:
        sampling["backward"] = finding["backward"]
        for tokens in chain.from_iterable(texts):
            drawn = prediction.sample_sentences(model, tokens, n_samples, **sampling)
            _print_samples(tokens, drawn, as_json)
        return
    find: Callable[[list[Sentence]], Iterable[Prediction | Substitutes]] = (
        partial(prediction.substitute_words, model, top=finding["top"])
        if each
        else partial(prediction.predict_words, model, **finding)
    )
    shares = []
    for number, found in enumerate(chain.from_iterable(map(find, texts))):
        _print(found, None if text != STANDARD_INPUT else number, as_json)
        if isinstance(found, prediction.Prediction) and found.place != "gap":
            shares.append(found.unknown)
    if shares and not finding["with_unknown"]:
        messages.say(
            f"<UNK>, all words outside the vocabulary, has {sum(shares) / len(shares):.1%}"
            f"{' on average' if len(shares) > 1 else ''}; --with-unknown shows it"
        )


def _check(text: str, state: str | None) -> None:
    """Refuse carried states, and a file in the place of a text."""
    if state == "carry":
        raise click.UsageError("--state carry is for running text; choose zero or warm")
    if os.path.isfile(text):
        name = shlex.quote(text)
        raise click.UsageError(
            f"{text} is a file, and TEXT the text itself: `elmo predict - < {name}` reads a text a "
            f"line from it, `echo {name} | elmo predict -` takes its name as one"
        )


def _read_texts(text: str, cut: "Callable[[str], Sentence]") -> "Iterable[list[Sentence]]":
    """The tokens of the text, or of the lines of standard input: those together that are there."""
    from elmo_cli.language_model.prediction import GAP, check_text, cut_around_gaps

    # Of many lines, some may have gaps, which both directions fill whatever the option.
    without_gaps = ["--sample", "--each"]
    if text != STANDARD_INPUT:
        without_gaps += ["--backward", "--with-unknown"]
    option = next(iter(options.given(*without_gaps)), None)

    def read(line: str) -> "Sentence":
        tokens = check_text(cut_around_gaps(line, cut))
        if option is not None and GAP in tokens:
            raise InputError(f"{option} goes without a gap ({GAP})")
        return tokens

    if text == STANDARD_INPUT:
        return input_chunks(read, MAX_TEXTS)
    with loading.usage_errors():
        return [[read(text)]]


def _print(found: "Prediction | Substitutes", number: int | None, as_json: bool) -> None:
    """Print an answer: for people, or with the number of its text as a table or JSON."""
    from elmo_cli.language_model.prediction import Prediction

    if as_json:
        click.echo(as_json_line(_facts(found)))
    elif isinstance(found, Prediction):
        _print_words(found.candidates, number)
    else:
        for position, token in enumerate(found.tokens, start=1):
            if number is None:
                click.echo(token)
            _print_words(found.candidates[position - 1], number, position, token)


def _facts(found: "Prediction | Substitutes") -> dict[str, Any]:
    from elmo_cli.language_model.prediction import Prediction

    def words(candidates: "list[Candidate]") -> list[dict[str, Any]]:
        return [candidate._asdict() for candidate in candidates]

    if isinstance(found, Prediction):
        answer = {"tokens": found.tokens, "place": found.place, "words": words(found.candidates)}
        return {**answer, "unknown": found.unknown}
    return {"tokens": found.tokens, "words": list(map(words, found.candidates))}


def _print_words(candidates: "list[Candidate]", number: int | None, *columns: int | str) -> None:
    for word, probability in candidates:
        if number is None:
            click.echo(f"{probability:8.4f}  {word}")
        else:
            click.echo(as_row([number, *columns, probability, word]))


def _print_samples(tokens: "Sentence", samples: "list[Sentence]", as_json: bool) -> None:
    for sample in samples:
        found = {"tokens": tokens, "sample": sample}
        click.echo(as_json_line(found) if as_json else " ".join(sample))
