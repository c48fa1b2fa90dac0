"""`elmo info`."""

from typing import Any

import click

from elmo_cli.cli import shared_options
from elmo_cli.cli.command import command
from elmo_cli.cli.installation import describe_installation
from elmo_cli.cli.usage_errors import misused_error
from elmo_cli.cli.value_completion import complete_models
from elmo_cli.errors.wording import counted, size_text
from elmo_cli.files.json_form import json_text


@command()
@click.argument("model", required=False, shell_complete=complete_models)
@shared_options.flag("--json", "as_json", help="Print the same facts as a JSON object.")
def info(model: str | None, as_json: bool) -> None:
    """Show the size of MODEL, its architecture, files, checksums and model card.

    \b
    $ elmo info
    $ elmo info mini
    $ elmo info ./my-model

    MODEL is a name that `elmo models` lists, hf:OWNER/NAME for a model on the Hugging
    Face hub, a folder or a zip file. Without MODEL, the command describes your
    installation and the default model. Add that to a bug report.

    A model on the hub is downloaded first, but a listed model is not: until you
    download it, its architecture, files and card are missing.
    """
    if model == "":
        raise misused_error("MODEL: empty", "Name a model, or leave MODEL out.")
    from elmo_cli.pretrained.describe import describe_model

    if model:
        installation = {}
    else:
        installation = describe_installation()
    description = describe_model(model)
    if as_json and installation:
        click.echo(json_text({"installation": installation, **description}, indent=1))
    elif as_json:
        click.echo(json_text(description, indent=1))
    else:
        for name, value in installation.items():
            click.echo(f"{name:<12}  {value}")
        if installation:
            click.echo()
        click.echo("\n".join(_lines(description)))


def _lines(description: dict[str, Any]) -> list[str]:
    """Return the lines that describe a model."""
    rows = [
        (name, description.get(name)) for name in ("status", "language", "trained_on")
    ]
    if "options" in description:
        rows += _architecture_rows(description)
    rows.append(("parameters", _aligned_number(description["parameters"])))
    for part, n_parameters in description.get("parts", {}).items():
        rows.append((f"  {part}", _aligned_number(n_parameters)))
    for role, file in description.get("files", {}).items():
        rows.append((role, f"{file['path']} ({size_text(file['bytes'])})"))
        rows.append(("", f"sha256 {file['sha256']}"))
    lines = [description["name"]]
    for name, value in rows:
        if value is not None:
            lines.append(f"  {name.replace('_', ' '):<21}  {value}")
    if description.get("status") == "available":
        lines.append(f"  To download it, use `elmo download {description['name']}`.")
    elif description.get("status") == "import":
        lines.append(
            f"  To import it, use `elmo download {description['name']} --from FOLDER`."
        )
    if description.get("card"):
        lines += ["", *description["card"]]
    return lines


def _aligned_number(number: int | None) -> str | None:
    return None if number is None else f"{number:>12,}"


def _architecture_rows(description: dict[str, Any]) -> list[tuple[str, str | None]]:
    lstm = description["options"]["lstm"]
    characters = description["options"]["char_cnn"]
    words = description["words"]
    lstm_layer = (
        f"{lstm['dim']:,} cells and {lstm['projection_dim']:,} outputs per direction"
    )
    if lstm["cell_clip"]:
        lstm_layer += f", clipped at {lstm['cell_clip']:g}"
    reads_backward = "backward" in description["directions"]
    width = f"{description['width']:,} values per token and layer"
    rows = [
        (
            "layers",
            f"{description['layers']}: the token layer "
            f"and {counted(lstm['n_layers'], 'LSTM layer')}",
        ),
        ("directions", None if reads_backward else "only forward"),
        ("width", width if reads_backward else None),
        ("words", f"{words:,}" if words else None),
        ("LSTM layer", lstm_layer),
        ("residual connections", "yes" if lstm["use_skip_connections"] else "no"),
    ]
    if characters:
        widths, counts = zip(*characters["filters"], strict=True)
        filters = (
            f"{sum(counts):,} filters for {min(widths)} to {max(widths)} characters"
        )
        limit = characters["max_characters_per_token"]
        rows.append(("character CNN", filters))
        rows.append(("token length", f"at most {limit - 2} bytes"))
    return rows
