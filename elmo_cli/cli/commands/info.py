"""`elmo info`: what a model is and where its files are."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli import options
from elmo_cli.pretrained.model_files import FILE_NAMES
from elmo_cli.text.lines import read_text

if TYPE_CHECKING:
    from elmo_cli.pretrained.model_files import ModelFiles

_CARD_LINES = 12
_MAX_CARD_BYTES = 1 << 20


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
    from elmo_cli.pretrained.cache import model_state
    from elmo_cli.pretrained.loading import default_model, find_model
    from elmo_cli.pretrained.registry import published_model

    name = model or default_model()
    published = published_model(name)
    found: dict[str, Any] = {"name": name}
    if published is not None:
        found = {
            "name": published.name,
            "state": model_state(published),
            "language": published.language,
            "trained_on": published.text,
        }
    if published is None or model_state(published) != "available":
        found |= _of_files(find_model(name))
    else:
        found |= {"parameters": published.parameters}
    click.echo(json.dumps(found, indent=1, ensure_ascii=False) if as_json else _text(found))


def _of_files(files: "ModelFiles") -> dict[str, Any]:
    from elmo_cli.model.characters import N_CHARACTERS
    from elmo_cli.model.options import ManyLangsOptions, read_options
    from elmo_cli.model.parameters import parameters_by_part
    from elmo_cli.model.vocabulary import read_vocabulary
    from elmo_cli.pretrained.model_files import sha256

    options = read_options(files.options)
    n_words, n_characters = None, N_CHARACTERS
    if isinstance(options, ManyLangsOptions):
        from elmo_cli.model.many_langs import read_lexicons

        lexicons = read_lexicons(files.options.parent, options)
        n_words = lexicons.words.n_rows if lexicons.words else None
        n_characters = lexicons.characters.n_rows if lexicons.characters else 0
    elif files.vocabulary and (options.char_cnn is None or files.softmax):
        n_words = len(read_vocabulary(files.vocabulary))
    parts = parameters_by_part(options, n_words, n_characters)
    paths = {
        role: {"path": str(path.absolute()), "bytes": path.stat().st_size, "sha256": sha256(path)}
        for role in FILE_NAMES
        if (path := getattr(files, role)) is not None
    }
    return {
        "layers": options.n_layers,
        "width": options.width,
        "words": n_words,
        "parameters": sum(parts.values()),
        "parts": parts,
        "options": asdict(options),
        "files": paths,
        "card": _card(files.options.parent / "card.md"),
    }


def _card(path: Path) -> list[str]:
    """The first lines of a model's card, if it has one."""
    try:
        lines = read_text(path, _MAX_CARD_BYTES).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return lines[:_CARD_LINES]


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
