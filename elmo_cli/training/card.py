"""A run to the card of its model: what it is, how it was made, how good it is."""

import time
from collections.abc import Mapping
from typing import Any

from elmo_cli import __version__
from elmo_cli.model.options import parse_options
from elmo_cli.model.parameters import parameters_by_part
from elmo_cli.model.vocabulary import Vocabulary
from elmo_cli.training.log import duration

_STATES = {
    "zero": "from the zero state",
    "carry": "where the sentence before ended: the state was carried",
}


def training_card(
    record: Mapping[str, Any], content: Mapping[str, Any], vocabulary: Vocabulary
) -> str:
    """The card, in Markdown.

    Args:
        record: what training.json says.
        content: of the model's options.json.
        vocabulary: of its softmax.
    """
    options = parse_options(dict(content))
    settings = record["options"]
    n_parameters = sum(parameters_by_part(options, len(vocabulary)).values())
    batch = f"batches of {settings['batch_tokens']:,} tokens"
    if settings["state"] == "carry":
        batch = f"{settings['batch_size']} streams in blocks of {settings['unroll']} tokens"
    softmax = "the full softmax"
    if 0 < settings["samples"] < len(vocabulary):
        softmax = f"a sampled softmax of {settings['samples']:,} words"
    rows = {
        "made": f"{time.strftime('%Y-%m-%d')}, by elmo-cli {__version__}",
        "architecture": _architecture(content),
        "activations": f"{options.n_layers} layers x {options.width}",
        "parameters": f"{n_parameters:,}, the softmax aside",
        "words to predict": f"{len(vocabulary):,}",
        "weights before": record["from"] if record["from_weights"] else "random",
        "text": ", ".join(f"`{path}`" for path in record["text"]),
        "trained on": f"{record['tokens']:,} tokens in {record['step']:,} steps, "
        f"{duration(record['seconds'])}",
        "sentences start": _STATES[settings["state"]],
        "trained with": f"{batch}, {softmax}, {settings['optimizer']} at "
        f"{settings['learning_rate']:g}, dropout {settings['dropout']:g}, "
        f"{settings['precision']}, seed {settings['seed']}",
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    return f"# A model trained with elmo train\n\n| | |\n|---|---|\n{table}\n{_quality(record)}"


def _architecture(content: Mapping[str, Any]) -> str:
    lstm, char_cnn = content["lstm"], content.get("char_cnn")
    source = "a table of words"
    if char_cnn is not None:
        n_filters = sum(count for _, count in char_cnn["filters"])
        source = (
            f"character CNN ({len(char_cnn['filters'])} filter widths, {n_filters} filters, "
            f"{char_cnn['n_highway']} highway layers)"
        )
    return (
        f"{source}, 2 x {lstm['n_layers']} LSTMs of {lstm['dim']} with projections to "
        f"{lstm['projection_dim']}"
    )


def _quality(record: Mapping[str, Any]) -> str:
    found = record["perplexity"]
    if found is None:
        return "No text was held out, so how good it is was not measured.\n"
    return (
        f"Perplexity on {found['tokens']:,} tokens of held-out text (`{record['heldout']}`), full "
        f"softmax, {100 * found['unknown']:.1f} % of the tokens unknown and counted as `<UNK>`: "
        f"**forward {found['forward']:.2f}, backward {found['backward']:.2f}, average "
        f"{found['average']:.2f}**. It can only be compared with figures for the same text and "
        "vocabulary.\n"
    )
