"""`elmo models`."""

from typing import Any

import click

from elmo_cli.cli import shared_options, stderr
from elmo_cli.cli.command import command
from elmo_cli.cli.value_completion import complete_models
from elmo_cli.errors.wording import size_text
from elmo_cli.files.json_form import json_text


@command()
@shared_options.flag(
    "--all",
    "show_all",
    help="List every model of ELMoForManyLangs, instead of one row for them.",
)
@shared_options.command_option(
    "--language LANGUAGE",
    help="List only the models for a language, such as fr or French.",
)
@shared_options.flag(
    "--downloaded", help="List only the models on this computer, bundled or downloaded."
)
@shared_options.command_option(
    "--remove NAME",
    shell_complete=complete_models,
    excludes=["--all", "--language", "--downloaded", "--json"],
    help="Delete the files of a downloaded model, and list nothing.",
)
@shared_options.flag(
    "--json", "as_json", help="Print a JSON array with one object per model."
)
def models(
    show_all: bool,
    language: str | None,
    downloaded: bool,
    remove: str | None,
    as_json: bool,
) -> None:
    """List the pretrained models, English ones first.

    \b
    $ elmo models
    $ elmo models --language fr

    Each row is a model, whose name you give to --model. A hyphen means unknown. All
    models give vectors. For `elmo perplexity`, `elmo surprisal` and `elmo predict`, use
    mini, original or original-5.5b: the others have no softmax.

    Models with the status bundled or downloaded work offline. An available model is
    downloaded on first use, or with `elmo download`. For a model with the status
    import, `elmo info NAME` says how to import it.
    """
    if remove is not None:
        from elmo_cli.pretrained.remove import remove_model

        folder, n_bytes = remove_model(remove)
        stderr.say(f"Removed {folder}: {size_text(n_bytes)}")
        return

    from elmo_cli.pretrained.describe import describe_models

    descriptions = describe_models(language, downloaded=downloaded)
    if as_json:
        click.echo(json_text(descriptions, indent=1))
    elif not descriptions:  # Every language that is accepted has a published model.
        stderr.say(f"No model for {language} is on this computer.")
    elif show_all or language:
        click.echo(_models_table(descriptions))
    else:
        click.echo(_models_table(_group_missing_models(descriptions)))


def _group_missing_models(descriptions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group the models of ELMoForManyLangs that are not here into the last row."""
    from elmo_cli.pretrained.registry import MANY_LANGS_PREFIX

    group = []
    others = []
    for model in descriptions:
        is_many_langs = model["name"].startswith(MANY_LANGS_PREFIX)
        if is_many_langs and model["status"] == "available":
            group.append(model)
        else:
            others.append(model)
    if not group:
        return others
    row = {
        **group[0],
        "name": f"{MANY_LANGS_PREFIX}CODE",
        "language": f"{len(group)} languages, see --all",
    }
    return [*others, row]


def _models_table(descriptions: list[dict[str, Any]]) -> str:
    rows = [["name", "parameters", "language", "size", "status", "trained on"]]
    for model in descriptions:
        parameters = "-"
        if model["parameters"] is not None:
            parameters = f"{model['parameters'] / 1e6:.1f}M"
        size = "-"
        if model["bytes"] is not None:
            size = f"{model['bytes'] / 1e6:,.0f} MB"
        rows.append(
            [
                model["name"],
                parameters,
                model["language"],
                size,
                model["status"],
                model["trained_on"] or "-",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = zip("<><><<", widths, strict=True)  # Numbers are aligned to the right.
    line = "  ".join(f"{{:{side}{width}}}" for side, width in sides)
    return "\n".join(line.format(*row).rstrip() for row in rows)
