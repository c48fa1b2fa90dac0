"""Commands about models and their files: `elmo models`, `info`, `download` and `convert`."""

import os
from typing import Any

import click

from elmo_cli.cli import messages, options
from elmo_cli.cli.command import command
from elmo_cli.cli.help_commands import describe_installation
from elmo_cli.errors import counted, size_text
from elmo_cli.json_form import json_text
from elmo_cli.outputs.output_formats import DTYPES


@command()
@options.flag("--all", "show_all", help="Also list each ELMoForManyLangs model.")
@options.option(
    "--language CODE", help="List only the models for a language, such as fr."
)
@options.flag("--downloaded", help="List only the models on this disk.")
@options.option(
    "--remove NAME",
    shell_complete=options.complete_models,
    excludes="--all or --language or --downloaded or --json",
    help="Delete the files of a downloaded model.",
)
@options.flag("--json", "as_json", help="Print a JSON array with one object per model.")
def models(
    show_all: bool,
    language: str | None,
    downloaded: bool,
    remove: str | None,
    as_json: bool,
) -> None:
    """List the pretrained models, English ones first.

    Bundled and downloaded models work offline. Available models are downloaded on first
    use, or with `elmo download`.

    \b
    $ elmo models
    $ elmo models --language fr
    """
    if remove is not None:
        from elmo_cli.pretrained.find import remove_model

        folder, n_bytes = remove_model(remove)
        messages.say(f"Removed {folder}: {size_text(n_bytes)}")
        return

    from elmo_cli.pretrained.find import describe_models

    descriptions = describe_models(language, downloaded=downloaded)
    shown = descriptions if show_all or language else _grouped(descriptions)
    click.echo(json_text(descriptions, indent=1) if as_json else _table(shown))


def _grouped(descriptions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group the models of ELMoForManyLangs that are not on this disk into the last row."""
    from elmo_cli.pretrained.registry import MANY_LANGS_PREFIX

    many_langs = [
        model for model in descriptions if model["name"].startswith(MANY_LANGS_PREFIX)
    ]
    group = [model for model in many_langs if model["state"] == "available"]
    name, language = f"{MANY_LANGS_PREFIX}CODE", f"{len(group)} languages, see --all"
    one = [{**model, "name": name, "language": language} for model in group[:1]]
    return [model for model in descriptions if model not in group] + one


def _table(descriptions: list[dict[str, Any]]) -> str:
    rows = [["name", "parameters", "language", "size", "state", "trained on"]]
    for model in descriptions:
        parameters, n_bytes = model["parameters"], model["bytes"]
        size = "-" if n_bytes is None else f"{n_bytes / 1e6:,.0f} MB"
        millions = "-" if parameters is None else f"{parameters / 1e6:.1f}M"
        state, trained_on = model["state"], model["trained_on"] or "-"
        rows.append(
            [model["name"], millions, model["language"], size, state, trained_on]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = zip("<><><<", widths, strict=True)  # Numbers are aligned to the right.
    line = "  ".join(f"{{:{side}{width}}}" for side, width in sides)
    return "\n".join(line.format(*row).rstrip() for row in rows)


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
    from elmo_cli.pretrained.find import describe_model

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


@command()
@click.argument("name", shell_complete=options.complete_models)
@options.flag("--with-softmax", help="Also download the softmax and its vocabulary.")
@options.path_option(
    "--from FILE|FOLDER",
    "sources",
    multiple=True,
    excludes="--with-softmax",
    help="Take the files from here instead of downloading them: a folder, a zip file or files. "
    "Can be repeated.",
)
def download(name: str, with_softmax: bool, sources: tuple[str, ...]) -> None:
    """Download the model NAME, and print its folder.

    NAME is listed by `elmo models`, or is hf:OWNER/NAME for a model of the Hugging Face hub.
    Existing files are not downloaded again. To store models in another folder, set the
    environment variable ELMO_CACHE, or HF_HOME for the hub. If ELMO_MIRROR is set, that
    mirror is tried first.

    If you have downloaded a model elsewhere, --from copies it into the cache folder. It must
    be complete and have the SHA-256 of NAME, if that is known.

    \b
    $ elmo download original
    $ elmo download hf:lysandre/elmo
    $ elmo download original --from ~/Downloads/elmo
    """
    if sources:
        from elmo_cli.pretrained.manage import import_model

        click.echo(import_model(name, sources))
        return
    from elmo_cli.pretrained.find import find_model

    click.echo(find_model(name, with_softmax=with_softmax).weights.parent)


@command()
@click.argument("source", metavar="INPUT", type=options.PATH)
@click.argument("target", metavar="OUTPUT", type=options.PATH)
@options.choice(
    "--dtype",
    DTYPES,
    help="Data type of the values. [default: float16 if all of INPUT is, else float32]",
)
@options.output_option()
@options.overwrite_option()
def convert(source: str, target: str, dtype: str | None, overwrite: bool) -> None:
    """Convert the weights of a biLM or a softmax from INPUT to OUTPUT.

    The suffixes choose HDF5 or safetensors. float16 halves the size, but the weights are
    still loaded as float32. OUTPUT appears when it is complete.

    \b
    $ elmo convert weights.hdf5 weights.safetensors
    $ elmo convert weights.hdf5 small.hdf5 --dtype float16
    """
    from elmo_cli.pretrained.manage import convert_weights

    n_tensors, dtype = convert_weights(source, target, dtype, overwrite=overwrite)
    n_bytes = os.stat(target).st_size
    messages.say(
        f"Wrote {target}: {counted(n_tensors, 'tensor')}, {dtype}, {n_bytes:,} bytes"
    )
