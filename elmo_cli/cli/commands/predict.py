"""`elmo predict`: the next words, those before, those of a gap; or sentences drawn at random."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import as_json_line, as_row, read_queries
from elmo_cli.errors import InputError
from elmo_cli.text.lines import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.language_model.prediction import Candidate, Prediction, Substitutes
    from elmo_cli.language_model.scoring import LanguageModel
    from elmo_cli.text.lines import Sentence


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
    if os.path.isfile(text):
        raise click.UsageError(
            f"{text} is a file, and TEXT the text itself; `elmo predict - < {shlex.quote(text)}` "
            "reads a text a line from it"
        )
    finding = {name: named.pop(name) for name in ("top", "backward", "with_unknown")}
    sampling = {name: named.pop(name) for name in ("temperature", "max_words", "seed")}
    texts = _read_texts(text, loading.take_tokenizer(named).cut, each=each)
    model = loading.load_language_model(**named)
    if n_samples is not None:
        sampling |= {"n_samples": n_samples, "backward": finding["backward"]}
        _print_samples(model, chain.from_iterable(texts), as_json, sampling)
        return

    from elmo_cli.language_model.prediction import Prediction, predict_words, substitute_words

    find: Callable[[list[Sentence]], Iterable[Prediction | Substitutes]] = (
        partial(substitute_words, model, top=finding["top"])
        if each
        else partial(predict_words, model, **finding)
    )
    shares = []
    for number, found in enumerate(chain.from_iterable(map(find, texts))):
        lines = _lines(found, number if text == STANDARD_INPUT else None)
        for line in [as_json_line(_facts(found))] if as_json else lines:
            click.echo(line)
        if isinstance(found, Prediction) and found.place != "gap":
            shares.append(found.unknown)
    if shares and not finding["with_unknown"]:
        share = f"{sum(shares) / len(shares):.1%}{' on average' if len(shares) > 1 else ''}"
        messages.say(
            f"<UNK>, all words outside the vocabulary, has {share}; --with-unknown shows it"
        )


def _read_texts(
    text: str, cut: "Callable[[str], Sentence]", *, each: bool
) -> "Iterable[list[Sentence]]":
    """The tokens of the text, or of the lines of standard input: those together that are there."""
    from elmo_cli.language_model.prediction import GAP, check_text, cut_around_gaps

    def read(line: str) -> "Sentence":
        tokens = check_text(cut_around_gaps(line, cut))
        if each and GAP in tokens:
            raise InputError(f"--each goes without a gap ({GAP})")
        return tokens

    return read_queries(read) if text == STANDARD_INPUT else [[read(text)]]


def _print_samples(
    model: "LanguageModel", texts: "Iterable[Sentence]", as_json: bool, sampling: dict[str, Any]
) -> None:
    from elmo_cli.language_model.prediction import sample_sentences

    for tokens in texts:
        for sample in sample_sentences(model, tokens, **sampling):
            facts = {"tokens": tokens, "sample": sample}
            click.echo(as_json_line(facts) if as_json else " ".join(sample))


def _lines(found: "Prediction | Substitutes", number: int | None) -> Iterator[str]:
    """The lines of an answer: for people, or a table with the number of its text."""
    from elmo_cli.language_model.prediction import Prediction

    if isinstance(found, Prediction):
        yield from _words(found.candidates, number)
        return
    places = zip(found.tokens, found.candidates, strict=True)
    for position, (token, candidates) in enumerate(places, start=1):
        if number is None:
            yield token
        yield from _words(candidates, number, position, token)


def _words(candidates: "list[Candidate]", number: int | None, *place: Any) -> Iterator[str]:
    for word, probability in candidates:
        if number is None:
            yield f"{probability:8.4f}  {word}"
        else:
            yield as_row([number, *place, probability, word])


def _facts(found: "Prediction | Substitutes") -> dict[str, Any]:
    """An answer as an object."""
    from elmo_cli.language_model.prediction import Prediction

    if isinstance(found, Prediction):
        words = [candidate._asdict() for candidate in found.candidates]
        facts = {"tokens": found.tokens, "place": found.place}
        return {**facts, "words": words, "unknown": found.unknown}
    substitutes = [[candidate._asdict() for candidate in each] for each in found.candidates]
    return {"tokens": found.tokens, "words": substitutes}
