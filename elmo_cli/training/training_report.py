"""The report of a run: how its model was trained and how good it is, in training.json.

The signature in it recognizes a finished run, whose checkpoint was removed.
"""

import json
import time
from pathlib import Path

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.files.atomic import write_lines
from elmo_cli.model.json_objects import read_json
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.pretrained.roles import find_candidates
from elmo_cli.training.card import card_lines
from elmo_cli.training.description import Description
from elmo_cli.training.evaluation import Figures
from elmo_cli.training.signature import Signature, check_same_run, is_identity
from elmo_cli.training.training_folder import (
    CARD_FILE,
    CHECKPOINT_FILE,
    REPORT_FILE,
    VOCABULARY_FILE,
)
from elmo_cli.training.training_run import Run
from elmo_cli.training.training_settings import effective_settings
from elmo_cli.version import __version__


def write_report(
    run: Run, description: Description, perplexity: Figures | None
) -> None:
    """Write training.json and card.md, for the model of the last step."""
    start = description.start
    training_text = description.training_text
    signature = description.signature
    validation_file = description.validation_file
    n_words = len(run.vocabulary)
    report = {
        "elmo_cli_version": __version__,
        "date": time.strftime("%Y-%m-%d"),
        "finished": run.is_done,
        "share_done": 1.0 if run.is_done else run.share_done,
        "step": run.step,
        "tokens": run.n_tokens,
        "seconds": run.seconds,
        "text": [str(path) for path in training_text.paths],
        "tokenizer": training_text.tokenizer.to_attributes(),
        "text_column": training_text.settings.text_column,
        "init_from": start.name,
        "init_from_weights": start.files is not None,
        "words": n_words,
        "options": effective_settings(
            run.settings, n_words=n_words, warmup_steps=run.warmup_steps
        ),
        "signature": {"identity": signature.identity, "options": signature.options},
        "validation_file": None if validation_file is None else str(validation_file),
        "perplexity": perplexity,
    }
    folder = description.folder
    write_lines(folder / REPORT_FILE, [json.dumps(report, indent=1)])
    write_lines(folder / CARD_FILE, card_lines(report))


def is_finished(description: Description) -> bool:
    """Return whether the folder has the finished model of this run alone.

    Raise a `ModelError` if it has another model.
    """
    folder = description.folder
    weights = find_candidates(folder, "weights")
    if not weights or (folder / CHECKPOINT_FILE).exists():
        return False
    before = _read_signature(folder)
    if before is None:
        raise ModelError(
            "{folder}: the folder contains {weights}, but no {checkpoint}",
            remedy=(
                "Choose another folder, and {--init-from} {folder} to start from "
                "that model."
            ),
            folder=folder,
            weights=weights[0].name,
            checkpoint=CHECKPOINT_FILE,
        )
    now = description.signature
    check_same_run(before=before, now=now, folder=folder)
    if before.options != now.options:
        raise ModelError(
            "{folder}: training is finished, and its checkpoint was removed",
            remedy="To train longer, choose another folder and {--init-from} "
            "{folder}, or next time use {--keep-checkpoint True}.",
            folder=folder,
        )
    return True


def _read_signature(folder: Path) -> Signature | None:
    """Return the signature of the finished run in a folder; None without a report."""
    try:
        report = read_json(folder / REPORT_FILE)
    except ModelError:
        return None
    match report:
        case {
            "finished": True,
            "signature": {"identity": identity, "options": dict(options)},
        }:
            if is_identity(identity):
                words = read_vocabulary(folder / VOCABULARY_FILE).words
                return Signature(identity, options=options, words=words)
    return None
