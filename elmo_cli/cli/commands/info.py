"""`elmo info`."""

from typing import Any

import click

from elmo_cli.cli import options
from elmo_cli.cli.command import command
from elmo_cli.cli.installation import describe_installation
from elmo_cli.errors.wording import size_text
from elmo_cli.files.json_form import json_text


@command()
@click.argument("model", required=False, shell_complete=options.complete_models)
@options.flag("--json", "as_json", help="Print a JSON object.")
def info(model: str | None, as_json: bool) -> None:
    """Show the size of MODEL, its architecture, files, checksums and card.

    MODEL is a name listed by `elmo models`, a folder or a zip file. Nothing is downloaded,
    except for a model of the Hugging Face hub. Without MODEL, the command shows your
    installation, as needed for a bug report, and the default model.

    \b
    $ elmo info
    $ elmo info mini
    $ elmo info ./my-model
    """
    from elmo_cli.pretrained.describe import describe_model

    installation = None if model else describe_installation()
    description = describe_model(model)
    if as_json:
        values = (
            {"installation": installation, **description}
            if installation
            else description
        )
        click.echo(json_text(values, indent=1))
        return
    blocks = [_text(description)]
    if installation:
        blocks.insert(
            0, "\n".join(f"{name:<12}  {value}" for name, value in installation.items())
        )
    click.echo("\n\n".join(blocks))


def _text(description: dict[str, Any]) -> str:
    rows = [
        (name, description.get(name)) for name in ("state", "language", "trained_on")
    ]
    rows += _architecture(description) if "options" in description else []
    sizes = {"parameters": description["parameters"], **description.get("parts", {})}
    for part, number in sizes.items():
        name = part if part == "parameters" else f"  {part}"
        rows.append((name, None if number is None else f"{number:>12,}"))
    for role, file in description.get("files", {}).items():
        rows += [(role, f"{file['path']} ({size_text(file['bytes'])})")]
        rows += [("", f"sha256 {file['sha256']}")]
    shown = [
        (name.replace("_", " "), value) for name, value in rows if value is not None
    ]
    lines = [description["name"], *(f"  {name:<21}  {value}" for name, value in shown)]
    if description.get("state") == "available":
        lines.append(f"  To download it, use `elmo download {description['name']}`.")
    if description.get("card"):
        lines += ["", *description["card"]]
    return "\n".join(lines)


def _architecture(description: dict[str, Any]) -> list[tuple[str, str | None]]:
    lstm, characters = (
        description["options"]["lstm"],
        description["options"]["char_cnn"],
    )
    n_words, clip = description["words"], lstm["cell_clip"]
    lstm_layer = (
        f"{lstm['dim']:,} cells and {lstm['projection_dim']:,} outputs per direction"
    )
    rows = [
        (
            "layers",
            f"{description['layers']}: the token layer and {lstm['n_layers']} LSTM layers",
        ),
        ("width", f"{description['width']:,} values per token and layer"),
        ("words", n_words and f"{n_words:,}"),
        ("LSTM layer", lstm_layer + (f", clipped at {clip:g}" if clip else "")),
        ("residual connections", "yes" if lstm["use_skip_connections"] else "no"),
    ]
    if characters:
        widths, counts = zip(*characters["filters"], strict=True)
        limit = characters["max_characters_per_token"]
        filters = (
            f"{sum(counts):,} filters for {min(widths)} to {max(widths)} characters"
        )
        rows += [
            ("character CNN", filters),
            ("token length", f"at most {limit} characters"),
        ]
    return rows
