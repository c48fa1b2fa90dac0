"""`elmo perplexity`, `elmo surprisal` and `elmo predict`: probabilities of words."""

import os
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import loading, messages, options
from elmo_cli.cli.answers import as_json_line, as_row, in_chunks
from elmo_cli.cli.command import command, given, receives
from elmo_cli.errors import InputError, counted
from elmo_cli.settings import ModelSettings, TextSettings
from elmo_cli.text.lines import check_input, name_of, size_in_bytes
from elmo_cli.text.pipes import STANDARD_INPUT

if TYPE_CHECKING:
    from elmo_cli.language_model.perplexity import Perplexity, Surprisals
    from elmo_cli.language_model.prediction import Candidate, Prediction, Substitutes
    from elmo_cli.language_model.scoring import LanguageModel, SentenceScore
    from elmo_cli.text.records import Record, Sentence
    from elmo_cli.text.tokenizers import Tokenizer

_READING = ("--input-format", "--text-column", "--paragraphs", "--split-sentences")
"""Options of `predict` that have no effect on a text that is an argument."""
_OF_SENTENCES = (
    *("sentence", "tokens", "unknown", "log_p_forward", "log_p_backward"),
    *("forward", "backward", "average"),
)
_OF_TOKENS = ("sentence", "position", "token", "known", "log_p_forward", "log_p_backward")
_OF_SURPRISAL = ("sentence_id", "token_id", "token", "surprisal", "known")


def _options(function: Any) -> Any:
    """Add the options that both commands share."""
    batch_size = options.batch_size_option(requires="--state carry")
    speed = options.batch_tokens_option(batch_size(function))
    return options.text_options("whitespace")(options.language_model_options(speed))


@command()
@click.argument("text", metavar="FILE", type=options.PATH)
@options.flag("--per-sentence", excludes="--per-token", help="Print one line per sentence, as TSV.")
@options.flag("--per-token", help="Print one line per token, as TSV.")
@options.json_option("an object, or one a line")
@_options
@receives(model_settings=ModelSettings, text_settings=TextSettings)
def perplexity(
    text: str,
    per_sentence: bool,
    per_token: bool,
    as_json: bool,
    batch_size: int,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Measure the perplexity of FILE: text, one sentence per line.

    White space separates tokens, unless --tokenizer names another tokenizer.

    FILE may be compressed, a table, or - for standard input. The forward direction predicts
    every token and the end of the sentence. The backward direction predicts every token and
    the start of the sentence. Both predict over the whole vocabulary; the average is over both log
    probabilities. Tokens outside the vocabulary count as the word <UNK>. Blank lines are not
    predicted.

    Log probabilities are natural. With --per-token, position 0 is <S>, which only the backward
    direction predicts, and the last one is </S>, which only the forward direction predicts.

    \b
    $ elmo perplexity test.txt
    $ elmo perplexity test.txt --per-sentence > scores.tsv
    $ elmo perplexity test.txt --per-token --json
    """
    check_input(text)  # Loading the model can take a while.
    tokenizer = loading.load_tokenizer(text_settings, model_settings, text)
    model = loading.load_language_model(model_settings)

    from elmo_cli.language_model.perplexity import perplexity_of_scores

    has_rows = per_sentence or per_token
    columns, rows_of = (_OF_TOKENS, _token_rows) if per_token else (_OF_SENTENCES, _sentence_rows)
    if has_rows and not as_json:
        click.echo(as_row(columns))
    score_all = partial(model.score, batch_size=batch_size)
    scores = _score_file(text, text_settings, tokenizer, model, score_all)

    def printed() -> "Iterator[SentenceScore]":
        for name, score in scores:
            if has_rows:
                _print_rows(columns, rows_of(name, score), as_json)
            yield score

    result = perplexity_of_scores(printed())
    if has_rows:
        average = result.all_words.average
        messages.say(
            f"{counted(result.tokens, 'token')}, perplexity {average:,.2f} (average of directions)"
        )
    else:
        click.echo(as_json_line(asdict(result)) if as_json else _table(result))


@command()
@click.argument("text", metavar="FILE", type=options.PATH)
@options.choice(
    "--direction",
    ["forward", "backward"],
    default="forward",
    help="Predict each token from the tokens before it, or after it.",
)
@options.flag("--entropy", "with_entropy", help="Print the entropy of each prediction too.")
@options.json_option("an object a line")
@_options
@receives(model_settings=ModelSettings, text_settings=TextSettings)
def surprisal(
    text: str,
    direction: str,
    with_entropy: bool,
    as_json: bool,
    batch_size: int,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Print the surprisal of each token of FILE: text, one sentence per line.

    White space separates tokens, unless --tokenizer names another tokenizer. FILE may be
    compressed, a table, or - for standard input. The output is TSV with a header: the line
    number or the id of the record, the number of the token in it, both numbers from 1, the
    token, its surprisal in bits, and whether the vocabulary contains it (1) or not (0).
    An unknown token has the surprisal of <UNK>, which covers all unknown words and says little
    about this one. --entropy adds the entropy over the whole vocabulary, in bits: the expected
    surprisal at this position.

    \b
    $ elmo surprisal stimuli.txt > surprisal.tsv
    $ echo "The keys to the cabinet are on the table ." | elmo surprisal - --entropy
    """
    check_input(text)
    tokenizer = loading.load_tokenizer(text_settings, model_settings, text)
    model = loading.load_language_model(model_settings)

    from elmo_cli.language_model.perplexity import measure_surprisal

    measure = partial(
        measure_surprisal,
        model,
        batch_size=batch_size,
        backward=direction == "backward",
        with_entropy=with_entropy,
    )
    columns = [*_OF_SURPRISAL, *["entropy"] * with_entropy]
    if not as_json:
        click.echo(as_row(columns))
    n_tokens = n_unknown = 0
    for name, found in _score_file(text, text_settings, tokenizer, model, measure, first=1):
        _print_rows(columns, _surprisal_rows(name, found), as_json)
        n_tokens += len(found.tokens)
        n_unknown += int((~found.known).sum())
    messages.say(f"{counted(n_tokens, 'token')}, {n_unknown:,} of them unknown")


def _score_file(
    text: str,
    settings: TextSettings,
    tokenizer: "Tokenizer",
    model: "LanguageModel",
    score: Callable[..., Iterator[Any]],
    first: int = 0,
) -> Iterator[tuple[str | int, Any]]:
    """Yield the id of each record of a file, and what `score` yields for its tokens.

    Records without ids have numbers, the first of which is `first`.
    """
    from elmo_cli.cli.runs import progress_bar, show_rate
    from elmo_cli.pretrained.domains import warn_about_domain

    names: deque[str | int] = deque()

    def sentences(records: "Iterable[Record]") -> "Iterator[Sentence]":
        checked = warn_about_domain(records, model.files.name)
        for number, record in enumerate(checked, start=first):
            names.append(number if record.id is None else record.id)
            yield record.tokens

    options = settings.read_options(model.engine.options.token_limit)
    with (
        progress_bar(total=size_in_bytes(text)) as bar,
        settings.open_records(text, tokenizer, options, bar.update) as (records, is_ready, _),
    ):
        n_tokens = 0
        for found in score(sentences(records), is_ready=is_ready):
            yield names.popleft(), found
            n_tokens += len(found.tokens)
            show_rate(bar, n_tokens)


def _print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], as_json: bool) -> None:
    """Print the rows of a table without its header; in JSON, one object per row."""
    lines = [
        as_json_line(dict(zip(columns, row, strict=True))) if as_json else as_row(row)
        for row in rows
    ]
    if lines:
        click.echo("\n".join(lines))


def _sentence_rows(number: int | str, score: "SentenceScore") -> Iterator[Sequence[Any]]:
    from elmo_cli.language_model.perplexity import perplexity_of_scores

    n_unknown = int((~score.known).sum())
    log_p = float(score.forward.sum()), float(score.backward.sum())
    of_sentence = astuple(perplexity_of_scores([score]).all_words) if score.tokens else [None] * 3
    yield number, len(score.tokens), n_unknown, *log_p, *of_sentence


def _token_rows(number: int | str, score: "SentenceScore") -> Iterator[Sequence[Any]]:
    from elmo_cli.model.vocabulary import END_TOKEN, START_TOKEN

    if not score.tokens:
        return
    tokens = [START_TOKEN, *score.tokens, END_TOKEN]
    known = [True, *score.known.tolist(), True]
    forward = [None, *score.forward.tolist()]
    backward = [*score.backward.tolist(), None]
    for position, values in enumerate(zip(tokens, known, forward, backward, strict=True)):
        yield number, position, *values


def _surprisal_rows(number: int | str, score: "Surprisals") -> Iterator[Sequence[Any]]:
    columns = [score.tokens, score.surprisal.tolist(), score.known.tolist()]
    if score.entropy is not None:
        columns.append(score.entropy.tolist())
    for position, values in enumerate(zip(*columns, strict=True), start=1):
        yield number, position, *values


def _table(found: "Perplexity") -> str:
    lines = [
        f"sentences    {found.sentences:>12,}",
        f"tokens       {found.tokens:>12,}",
        f"predictions  {found.predictions:>12,}  in each direction",
        f"unknown      {found.unknown:>12.2%}  of the tokens",
        "",
        f"perplexity   {'all words':>12}  {'known words':>12}",
    ]
    all_words, known_words = asdict(found.all_words), asdict(found.known_words)
    for name, value in all_words.items():
        lines.append(f"{name:<11}  {value:>12,.2f}  {known_words[name]:>12,.2f}")
    return "\n".join(lines)


@command()
@click.argument("text", required=False)
@options.option(
    "--file",
    metavar="FILE",
    type=options.PATH,
    help="File with one text per line, or - for standard input, in place of TEXT.",
)
@options.count("--top", default=10, excludes="--sample", help="Number of words.")
@options.flag("--backward", help="Predict the word before TEXT.")
@options.flag(
    "--with-unknown",
    excludes="--sample or --each",
    help="Show <UNK>, which covers all words outside the vocabulary.",
)
@options.flag(
    "--each", excludes="--backward or --sample", help="Predict substitutes for each token."
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
@options.text_options("moses", with_ids=False)
@options.language_model_options
@receives(model_settings=ModelSettings, text_settings=TextSettings)
def predict(
    text: str | None,
    file: str | None,
    top: int,
    backward: bool,
    with_unknown: bool,
    each: bool,
    n_samples: int | None,
    temperature: float,
    max_words: int,
    seed: int,
    as_json: bool,
    model_settings: ModelSettings,
    text_settings: TextSettings,
) -> None:
    """Predict the words that follow TEXT, or that fill the gap ___ in it.

    Prints the most probable words of the vocabulary with their probabilities; </S> is the end
    of the sentence. Both directions together fill a gap. With --each they predict substitutes
    for each token. With --file FILE, or - in place of TEXT for standard input, reads one text
    per line, or another input format. It prints one tab-separated line per word: the number of
    the text, with --each the number of the token and the token, the probability and the word.

    \b
    $ elmo predict "The cat sat on the"
    $ elmo predict "We sat on the ___ of the river ."
    $ elmo predict "The king" --sample 3 --temperature 0.7 --seed 1
    $ elmo predict - --each --top 3 --json < texts.txt
    $ elmo predict --file items.csv --text-column sentence --top 3
    """
    source = _find_texts(text, file)
    if source is not None:
        check_input(source)
    tokenizer = loading.load_tokenizer(text_settings, model_settings, source)
    texts = _read_texts(text or "", source, text_settings, tokenizer, each=each)
    model = loading.load_language_model(model_settings)
    if n_samples is not None:
        from elmo_cli.language_model.prediction import sample_sentences

        sample = partial(
            sample_sentences,
            n_samples=n_samples,
            backward=backward,
            temperature=temperature,
            seed=seed,
            max_words=max_words,
        )
        for tokens in chain.from_iterable(texts):
            _print_samples(tokens, sample(model, tokens), as_json)
        return

    from elmo_cli.language_model.prediction import Prediction, predict_words, substitute_words

    find: Callable[[list[Sentence]], Iterable[Prediction | Substitutes]] = (
        partial(substitute_words, model, top=top)
        if each
        else partial(predict_words, model, top=top, backward=backward, with_unknown=with_unknown)
    )
    shares = []
    for number, found in enumerate(chain.from_iterable(map(find, texts))):
        lines = _lines(found, None if source is None else number)
        for line in [as_json_line(_facts(found))] if as_json else lines:
            click.echo(line)
        if isinstance(found, Prediction) and found.place != "gap":
            shares.append(found.unknown)
    if shares and not with_unknown:
        share = f"{sum(shares) / len(shares):.1%}{' on average' if len(shares) > 1 else ''}"
        messages.say(
            f"<UNK>, all words outside the vocabulary, has {share}; --with-unknown shows it"
        )


def _find_texts(text: str | None, file: str | None) -> str | None:
    """Return the file of the texts, or None if the argument is the text."""
    if (text is None) == (file is None):
        raise click.UsageError("expected TEXT or --file FILE")
    if text is not None and os.path.isfile(text):
        raise click.UsageError(
            f"{text}: TEXT is the text itself, but there is a file of this name. Use `elmo predict "
            f"--file {shlex.quote(text)}` to read the texts in it."
        )
    if text is not None and text != STANDARD_INPUT and given(*_READING):
        raise click.UsageError(f"{given(*_READING)[0]} requires --file FILE, or - as TEXT")
    return file or (STANDARD_INPUT if text == STANDARD_INPUT else None)


def _read_texts(
    text: str, source: str | None, settings: TextSettings, tokenizer: "Tokenizer", *, each: bool
) -> "Iterator[list[Sentence]]":
    """Yield the tokens of the text, or of the texts in a file that can be read without waiting."""
    from elmo_cli.language_model.prediction import GAP, check_text, cut_around_gaps

    def check(tokens: "Sentence") -> "Sentence":
        if each and GAP in tokens:
            raise InputError(f"--each goes without a gap ({GAP})")
        return check_text(tokens)

    tokenize = partial(cut_around_gaps, cut=tokenizer.tokenize)
    if source is None:
        yield [check(tokenize(text))]
        return
    options = settings.read_options(ignores_ids=True)
    input_format = settings.find_format(source, tokenizer)
    if not input_format.has_tokens:
        tokenizer = replace(tokenizer, tokenize=tokenize)
    with settings.open_records(source, tokenizer, options) as (records, is_ready, _):
        sentences = (record.tokens for record in records)
        place = f"{name_of(source)}, {input_format.unit}"
        yield from in_chunks(sentences, check, is_ready, place)


def _print_samples(tokens: "Sentence", samples: "list[Sentence]", as_json: bool) -> None:
    for sample in samples:
        facts = {"tokens": tokens, "sample": sample}
        click.echo(as_json_line(facts) if as_json else " ".join(sample))


def _lines(found: "Prediction | Substitutes", number: int | None) -> Iterator[str]:
    """Yield the lines of an answer, for people or as rows with the number of the text."""
    from elmo_cli.language_model.prediction import Prediction

    answers: Iterable[tuple[tuple[Any, ...], list[Candidate]]]
    if isinstance(found, Prediction):
        answers = [((), found.candidates)]
    else:
        answers = zip(enumerate(found.tokens, start=1), found.candidates, strict=True)
    for place, candidates in answers:
        if number is None:
            yield from place[1:]
        for word, probability in candidates:
            row = [number, *place, probability, word]
            yield f"{probability:8.4f}  {word}" if number is None else as_row(row)


def _facts(found: "Prediction | Substitutes") -> dict[str, Any]:
    from elmo_cli.language_model.prediction import Prediction

    if isinstance(found, Prediction):
        words = [candidate._asdict() for candidate in found.candidates]
        facts = {"tokens": found.tokens, "place": found.place}
        return {**facts, "words": words, "unknown": found.unknown}
    substitutes = [[candidate._asdict() for candidate in each] for each in found.candidates]
    return {"tokens": found.tokens, "words": substitutes}
