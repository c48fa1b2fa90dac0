"""`elmo predict`: the next words, those before, those of a gap; or sentences drawn at random."""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import options
from elmo_cli.cli.streams import chunks
from elmo_cli.errors import InputError
from elmo_cli.text.lines import STANDARD_INPUT, open_lines

if TYPE_CHECKING:
    from elmo_cli.language_model.prediction import Prediction
    from elmo_cli.text.lines import Sentence

MAX_TEXTS = 64
"""Maximum number of lines from standard input that are predicted together."""


@options.command()
@click.argument("text")
@options.count("--top", default=10, excludes="--sample", help="Number of words.")
@options.flag("--backward", help="Predict the word before TEXT.")
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
def predict(text: str, top: int, n_samples: int | None, as_json: bool, **named: Any) -> None:
    """Predict the words that follow TEXT, or that fill the gap ___ in it.

    Prints the most probable words of the vocabulary, with their probability: <UNK> stands for
    all other words, </S> for the end of the sentence. A gap is filled from both sides, by
    both directions. With - in place of TEXT, reads texts from standard input (`< FILE`), one a
    line, and prints a line a word: the number of the text, the probability and the word, with
    tabs between.

    \b
    $ elmo predict "The cat sat on the"
    $ elmo predict "We sat on the ___ of the river ."
    $ elmo predict "The king" --sample 3 --temperature 0.7 --seed 1
    $ elmo predict - --top 1 --json < texts.txt
    """
    _check(text, named["state"])
    backward = named.pop("backward")
    sampling = {name: named.pop(name) for name in ("temperature", "max_words", "seed")}
    option = "--sample" if n_samples is not None else "--backward" if backward else None
    cut = options.take_tokenizer(named).cut
    with _open_texts(text, cut, option) as (texts, is_ready):
        model = options.load_language_model(**named)
        if n_samples is not None:
            from elmo_cli.language_model.prediction import sample_sentences

            for tokens in texts:
                drawn = sample_sentences(model, tokens, n_samples, backward=backward, **sampling)
                _print_samples(tokens, drawn, as_json)
            return

        from elmo_cli.language_model.prediction import predict_words

        predictions = (
            predict_words(model, chunk, top, backward=backward)
            for chunk in chunks(texts, MAX_TEXTS, is_ready)
        )
        for number, prediction in enumerate(chain.from_iterable(predictions)):
            _print(prediction, None if text != STANDARD_INPUT else number, as_json)


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


@contextmanager
def _open_texts(
    text: str, cut: "Callable[[str], Sentence]", option: str | None
) -> "Iterator[tuple[Iterator[Sentence], Callable[[], bool]]]":
    """The tokens of the text, or of each line of standard input, and whether the next is there."""
    from elmo_cli.language_model.prediction import GAP, check_text, cut_around_gaps

    if text == STANDARD_INPUT:
        with open_lines(STANDARD_INPUT) as lines:
            yield _read_texts(lines, cut, option), lines.is_ready
        return
    found = check_text(cut_around_gaps(text, cut))  # before a model is loaded
    if option and GAP in found:
        raise click.UsageError(f"{option} goes without a gap ({GAP})")
    yield iter([found]), lambda: True


def _read_texts(
    lines: Iterable[str], cut: "Callable[[str], Sentence]", option: str | None
) -> "Iterator[Sentence]":
    """The tokens of lines; with --backward some may have gaps, which both directions fill."""
    from elmo_cli.language_model.prediction import GAP, check_text, cut_around_gaps

    for number, line in enumerate(lines, start=1):
        name = f"standard input, line {number}: "
        found = check_text(cut_around_gaps(line, cut), name)
        if option == "--sample" and GAP in found:
            raise InputError(f"{name}{option} goes without a gap ({GAP})")
        yield found


def _print(prediction: "Prediction", number: int | None, as_json: bool) -> None:
    """Print a prediction: for people, or with its number as a table or JSON."""
    if as_json:
        words = [candidate._asdict() for candidate in prediction.candidates]
        found = {"tokens": prediction.tokens, "place": prediction.place, "words": words}
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    for word, probability in prediction.candidates:
        if number is None:
            click.echo(f"{probability:8.4f}  {word}")
        else:
            click.echo(f"{number}\t{probability:.6f}\t{word}")


def _print_samples(tokens: "Sentence", samples: "list[Sentence]", as_json: bool) -> None:
    for sample in samples:
        found = {"tokens": tokens, "sample": sample}
        click.echo(json.dumps(found, ensure_ascii=False) if as_json else " ".join(sample))
