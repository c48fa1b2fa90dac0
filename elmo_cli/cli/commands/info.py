"""`elmo info`: what a model is and where its files are."""

import json
from typing import Any

import click

from elmo_cli.cli import options


@options.command()
@click.argument("model", required=False, shell_complete=options.complete_models)
@options.json_option("an object")
def info(model: str | None, as_json: bool) -> None:
    """Show what MODEL is: its size, its files, their checksums and its card.

    MODEL is a name (see `elmo models`), a folder or a zip file; without it, the default
    model. Nothing is downloaded, but for a model of the Hugging Face hub.

    \b
    $ elmo info mini
    $ elmo info ./my-model
    """
    from elmo_cli.pretrained.description import describe_model

    found = describe_model(model)
    click.echo(json.dumps(found, indent=1, ensure_ascii=False) if as_json else _text(found))


def _text(found: dict[str, Any]) -> str:
    """The same for people, a thing a line."""
    facts = ("state", "language", "trained_on", "layers", "width", "words")
    lines = [found["name"], *_lines({key: found.get(key) for key in facts})]
    if found["parameters"] is not None:
        lines += _lines({"parameters": f"{found['parameters']:>13,}"})
    lines += _lines({f"  {part}": f"{n:>13,}" for part, n in found.get("parts", {}).items()})
    for section in ("lstm", "char_cnn"):
        lines += _lines(found.get("options", {}).get(section) or {})
    for role, file in found.get("files", {}).items():
        lines += _lines({role: file["path"], "": f"{file['bytes']:,} bytes"})
        lines += _lines({" ": f"sha256 {file['sha256']}"})
    if found.get("state") == "available":
        lines.append(f"  not on this disk; get it with `elmo download {found['name']}`")
    if found.get("card"):
        lines += ["", *found["card"]]
    return "\n".join(lines)


def _lines(facts: dict[str, Any]) -> list[str]:
    return [
        f"  {key.replace('_', ' '):<24}  {value}"
        for key, value in facts.items()
        if value is not None
    ]
