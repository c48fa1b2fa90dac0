"""The record of a run: training.json for programs, and card.md for people."""

import json
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

from elmo_cli.atomic import write_lines
from elmo_cli.errors import ModelError, OptionsError
from elmo_cli.model.options import read_json
from elmo_cli.model.vocabulary import read_vocabulary
from elmo_cli.pretrained.model_files import candidates
from elmo_cli.training.checkpoint import CHECKPOINT_FILE, Signature
from elmo_cli.training.corpus import TrainingText
from elmo_cli.training.identity import is_identity
from elmo_cli.training.options import effective_options
from elmo_cli.training.run import Run
from elmo_cli.training.start import VOCABULARY_FILE, Start
from elmo_cli.version import __version__

RECORD_FILE = "training.json"
CARD_FILE = "card.md"


class TrainingRecord(TypedDict):
    """Content of training.json."""

    elmo_cli_version: str
    date: str
    finished: bool
    """True after the last step."""
    share_done: float
    step: int
    """Steps that were trained."""
    tokens: int
    """Tokens that the model was trained on."""
    seconds: float
    text: list[str]
    """Names of the text files."""
    tokenizer: dict[str, str]
    text_column: str | None
    """Column of the text, where it was named."""
    init_from: str
    """Name of the model, preset or file with the architecture."""
    init_from_weights: bool
    """True if the weights of that model were the start; False for random weights."""
    words: int
    """Number of words to predict."""
    options: dict[str, Any]
    """Options that had an effect, with the values that were in effect."""
    signature: dict[str, Any]
    """Values that `elmo train` compares with the values of its command."""
    validation_file: str | None
    perplexity: dict[str, float] | None
    """Perplexity of this model on the validation file; see `Report.evaluate`."""


def make_record(
    run: Run,
    signature: Signature,
    start: Start,
    text: TrainingText,
    validation_file: str | Path | None,
    perplexity: dict[str, float] | None,
) -> TrainingRecord:
    """Return the record of the last step of a run."""
    n_words = len(run.vocabulary)
    return {
        "elmo_cli_version": __version__,
        "date": time.strftime("%Y-%m-%d"),
        "finished": run.is_done,
        "share_done": 1.0 if run.is_done else run.share_done,
        "step": run.step,
        "tokens": run.n_tokens,
        "seconds": run.seconds,
        "text": [str(path) for path in text.paths],
        "tokenizer": text.tokenizer.to_attributes(),
        "text_column": text.text_column,
        "init_from": start.name,
        "init_from_weights": start.files is not None,
        "words": n_words,
        "options": effective_options(run.options, n_words, run.warmup_steps),
        "signature": {"identity": signature.identity, "options": signature.options},
        "validation_file": None if validation_file is None else str(validation_file),
        "perplexity": perplexity,
    }


def write_record(folder: Path, record: TrainingRecord) -> None:
    """Write training.json and card.md."""
    write_lines(folder / RECORD_FILE, [json.dumps(record, indent=1)])
    write_lines(folder / CARD_FILE, _card_lines(record))


def find_finished_run(folder: Path) -> Signature | None:
    """Return the signature of a finished run in a folder without a checkpoint, if there is one.

    Raises:
        ModelError: The folder has a model that does not come from a finished run.
    """
    weights = candidates(folder, "weights")
    if not weights or (folder / CHECKPOINT_FILE).exists():
        return None
    other_model = ModelError(
        f"{folder}: {weights[0].name} is there, but no {CHECKPOINT_FILE}. Choose another folder, "
        f"and --init-from {folder} to start from that model."
    )
    try:
        record = read_json(folder / RECORD_FILE)
    except OptionsError:
        raise other_model from None
    signature = record.get("signature")
    if record.get("finished") is not True or not isinstance(signature, dict):
        raise other_model
    identity, options = signature.get("identity"), signature.get("options")
    if not is_identity(identity) or not isinstance(options, dict):
        raise other_model
    return Signature(identity, options, read_vocabulary(folder / VOCABULARY_FILE).words)


def _card_lines(record: TrainingRecord) -> Iterator[str]:
    """Yield the lines of the card, in Markdown."""
    yield "# A model trained with elmo train"
    yield ""
    if not record["finished"]:
        yield (
            f"**Training is not finished**: this is the model after step {record['step']:,}, "
            f"{record['share_done']:.1%} of the run."
        )
        yield ""
    yield _describe_perplexity(record)
    yield from ("", "| | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in _card_rows(record).items())


def _describe_perplexity(record: TrainingRecord) -> str:
    """Return a sentence about the perplexity of the model."""
    perplexity = record["perplexity"]
    if perplexity is None:
        reason = "" if record["validation_file"] else ", because there was no validation text"
        return f"The perplexity of this model was not measured{reason}."
    return (
        f"Perplexity on {perplexity['tokens']:,} tokens of validation text "
        f"(`{record['validation_file']}`), full softmax, {100 * perplexity['unknown']:.1f} % "
        f"of the tokens unknown and counted as `<UNK>`: **forward {perplexity['forward']:.2f}, "
        f"backward {perplexity['backward']:.2f}, average {perplexity['average']:.2f}**. "
        "Compare it only with figures for the same text and vocabulary."
    )


def _card_rows(record: TrainingRecord) -> Mapping[str, Any]:
    """Return the rows of the table in the card."""
    start = "" if record["init_from_weights"] else "random weights, architecture of "
    column = record.get("text_column")  # Older records have none.
    duration = timedelta(seconds=round(record["seconds"]))
    return {
        "trained by": f"elmo-cli {record['elmo_cli_version']}, {record['date']}",
        "started from": f"{start}{record['init_from']}",
        "text": ", ".join(f"`{path}`" for path in record["text"]),
        **({"text column": f"`{column}`"} if column else {}),
        **record["tokenizer"],
        "words to predict": f"{record['words']:,}",
        "trained on": f"{record['tokens']:,} tokens in {record['step']:,} steps, {duration}",
        **record["options"],
    }
