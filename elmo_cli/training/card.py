"""The card of a trained model: its report, for people."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any


def card_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines of card.md for the content of training.json."""
    lines = ["# A model trained with elmo train", ""]
    if not report["finished"]:
        state = (
            f"**Training is not finished**: this is the model after step "
            f"{report['step']:,}, {report['share_done']:.1%} of the run."
        )
        lines += [state, ""]
    lines += [_describe_perplexity(report), "", "| | |", "|---|---|"]
    for name, value in _rows(report).items():
        lines.append(f"| {name} | {value} |")
    return lines


def _describe_perplexity(report: Mapping[str, Any]) -> str:
    perplexity = report["perplexity"]
    if perplexity is not None:
        return (
            f"Perplexity on {perplexity['tokens']:,} tokens of validation text "
            f"(`{report['validation_file']}`), full softmax, "
            f"{100 * perplexity['unknown']:.1f} % of the tokens unknown and counted as "
            f"`<UNK>`: **forward {perplexity['forward']:.2f}, "
            f"backward {perplexity['backward']:.2f}, "
            f"average {perplexity['average']:.2f}**. "
            "Compare it only with figures for the same text and vocabulary."
        )
    if report["validation_file"]:
        return "The perplexity of this model was not measured."
    reason = "because there was no validation text"
    return f"The perplexity of this model was not measured, {reason}."


def _rows(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names and values of the table."""
    start = report["init_from"]
    if not report["init_from_weights"]:
        start = f"random weights, architecture of {start}"
    duration = timedelta(seconds=round(report["seconds"]))
    rows = {
        "trained by": f"elmo-cli {report['elmo_cli_version']}, {report['date']}",
        "started from": start,
        "text": ", ".join(f"`{path}`" for path in report["text"]),
    }
    if report["text_column"]:
        rows["text column"] = f"`{report['text_column']}`"
    rows.update(report["tokenizer"])
    rows["words to predict"] = f"{report['words']:,}"
    rows["trained on"] = (
        f"{report['tokens']:,} tokens in {report['step']:,} steps, {duration}"
    )
    rows.update(report["options"])
    return rows
