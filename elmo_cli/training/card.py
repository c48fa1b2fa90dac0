"""The card of a trained model: its record, for people."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any


def card_lines(record: Mapping[str, Any]) -> list[str]:
    """Return the lines of card.md for a record (`record.py`)."""
    lines = ["# A model trained with elmo train", ""]
    if not record["finished"]:
        state = (
            f"**Training is not finished**: this is the model after step "
            f"{record['step']:,}, {record['share_done']:.1%} of the run."
        )
        lines += [state, ""]
    lines += [_describe_perplexity(record), "", "| | |", "|---|---|"]
    for name, value in _rows(record).items():
        lines.append(f"| {name} | {value} |")
    return lines


def _describe_perplexity(record: Mapping[str, Any]) -> str:
    perplexity = record["perplexity"]
    if perplexity is not None:
        return (
            f"Perplexity on {perplexity['tokens']:,} tokens of validation text "
            f"(`{record['validation_file']}`), full softmax, "
            f"{100 * perplexity['unknown']:.1f} % of the tokens unknown and counted as "
            f"`<UNK>`: **forward {perplexity['forward']:.2f}, "
            f"backward {perplexity['backward']:.2f}, "
            f"average {perplexity['average']:.2f}**. "
            "Compare it only with figures for the same text and vocabulary."
        )
    if record["validation_file"]:
        return "The perplexity of this model was not measured."
    reason = "because there was no validation text"
    return f"The perplexity of this model was not measured, {reason}."


def _rows(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names and values of the table."""
    start = record["init_from"]
    if not record["init_from_weights"]:
        start = f"random weights, architecture of {start}"
    duration = timedelta(seconds=round(record["seconds"]))
    rows = {
        "trained by": f"elmo-cli {record['elmo_cli_version']}, {record['date']}",
        "started from": start,
        "text": ", ".join(f"`{path}`" for path in record["text"]),
    }
    if record["text_column"]:
        rows["text column"] = f"`{record['text_column']}`"
    rows.update(record["tokenizer"])
    rows["words to predict"] = f"{record['words']:,}"
    rows["trained on"] = (
        f"{record['tokens']:,} tokens in {record['step']:,} steps, {duration}"
    )
    rows.update(record["options"])
    return rows
