"""Commands about models and their files, and `elmo completion`, which a shell loads for TAB."""

import os
from typing import Any

import click
from click.shell_completion import get_completion_class

from elmo_cli.cli import messages, options
from elmo_cli.cli.command import command
from elmo_cli.errors import counted, size_text
from elmo_cli.json_form import json_text
from elmo_cli.outputs.output_formats import DTYPES


@command()
@options.flag("--all", "show_all", help="List each model of ELMoForManyLangs too.")
@options.option("--language CODE", help="List the models of a language, such as fr.")
@options.flag("--downloaded", help="List the models on this disk.")
@options.option(
    "--remove NAME",
    excludes="--all or --language or --downloaded or --json",
    help="Delete the files of a downloaded model.",
)
@options.json_option("a list with one object per model")
def models(
    show_all: bool, language: str | None, downloaded: bool, remove: str | None, as_json: bool
) -> None:
    """List the pretrained models, English ones first.

    A bundled or downloaded model works offline. An available model is downloaded on
    first use, or with `elmo download`.

    \b
    $ elmo models
    $ elmo models --language fr
    """
    if remove is not None:
        from elmo_cli.pretrained.find import remove_model

        folder, n_bytes = remove_model(remove)
        messages.say(f"{folder}: removed, {size_text(n_bytes)}")
        return

    from elmo_cli.pretrained.find import describe_models

    descriptions = describe_models(language, downloaded=downloaded)
    if as_json:
        click.echo(json_text(descriptions, indent=1))
    else:
        click.echo(_table(descriptions if show_all or language else _grouped(descriptions)))


def _grouped(descriptions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group the models of ELMoForManyLangs that are not on this disk into the last row."""
    from elmo_cli.pretrained.registry import MANY_LANGS_PREFIX

    many_langs = [model for model in descriptions if model["name"].startswith(MANY_LANGS_PREFIX)]
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
        rows.append([model["name"], millions, model["language"], size, state, trained_on])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = zip("<><><<", widths, strict=True)  # Numbers are aligned to the right.
    line = "  ".join(f"{{:{side}{width}}}" for side, width in sides)
    return "\n".join(line.format(*row).rstrip() for row in rows)


@command()
@click.argument("model", required=False, shell_complete=options.complete_models)
@options.json_option("an object")
def info(model: str | None, as_json: bool) -> None:
    """Show the size of MODEL, its files, their checksums and its card.

    MODEL is a name (see `elmo models`), a folder or a zip file; without it, the default
    model. Nothing is downloaded, except for a model of the Hugging Face hub.

    \b
    $ elmo info mini
    $ elmo info ./my-model
    """
    from elmo_cli.pretrained.find import describe_model

    description = describe_model(model)
    click.echo(json_text(description, indent=1) if as_json else _text(description))


def _text(description: dict[str, Any]) -> str:
    keys = ("state", "language", "trained_on", "layers", "width", "words")
    rows = [(key, description.get(key)) for key in keys]
    sizes = {"parameters": description["parameters"], **description.get("parts", {})}
    for part, number in sizes.items():
        name = part if part == "parameters" else f"  {part}"
        rows.append((name, None if number is None else f"{number:>13,}"))
    for section, start in (("lstm", "LSTM_"), ("char_cnn", "")):
        values = description.get("options", {}).get(section) or {}
        rows += [(f"{start}{key.removeprefix('use_')}", values[key]) for key in values]
    for role, file in description.get("files", {}).items():
        rows += [(role, file["path"]), ("", f"{file['bytes']:,} bytes")]
        rows.append(("", f"sha256 {file['sha256']}"))
    shown = [(key.replace("_", " "), _shown(value)) for key, value in rows if value is not None]
    lines = [description["name"], *(f"  {key:<24}  {value}" for key, value in shown)]
    if description.get("state") == "available":
        lines.append(f"  not on this disk; get it with `elmo download {description['name']}`")
    if description.get("card"):
        lines += ["", *description["card"]]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    """Format a value: filters as `1 x 32` (width and count), and numbers with commas."""
    if isinstance(value, tuple):
        return ", ".join(f"{width} x {count}" for width, count in value)
    return f"{value:,}" if type(value) is int else str(value)


@command()
@click.argument("name", shell_complete=options.complete_models)
@options.flag("--with-softmax", help="Also download the softmax and its vocabulary.")
@options.path_option(
    "--from FILE|FOLDER",
    "sources",
    multiple=True,
    excludes="--with-softmax",
    help="Take the files from a folder, a zip file or single files instead of downloading them. "
    "May be given several times.",
)
def download(name: str, with_softmax: bool, sources: tuple[str, ...]) -> None:
    """Download the model NAME, and print its folder.

    Existing files are not downloaded again. `elmo models` lists the names; hf:OWNER/NAME is a
    model of the Hugging Face hub. The environment variable ELMO_CACHE names another folder
    for models, HF_HOME another one for models of the hub. ELMO_MIRROR names a mirror, which
    is tried first.

    --from puts a model that was downloaded elsewhere into the cache folder, after checking
    that it is complete and has the SHA-256 of the model NAME, if that is known.

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
@click.argument("source", metavar="IN", type=options.PATH)
@click.argument("target", metavar="OUT", type=options.PATH)
@options.choice(
    "--dtype",
    DTYPES,
    help="Data type of the values in OUT. [default: float16 if all of IN is, else float32]",
)
@options.overwrite_option()
def convert(source: str, target: str, dtype: str | None, overwrite: bool) -> None:
    """Convert the weights of a biLM or of a softmax from IN to OUT.

    The suffixes choose HDF5 or safetensors. float16 halves the size; the weights are still
    loaded as float32. OUT appears when it is complete.

    \b
    $ elmo convert weights.hdf5 weights.safetensors
    $ elmo convert weights.hdf5 small.hdf5 --dtype float16
    """
    from elmo_cli.pretrained.manage import convert_weights

    n_tensors, dtype = convert_weights(source, target, dtype, overwrite=overwrite)
    n_bytes = os.stat(target).st_size
    messages.say(f"{target}: {counted(n_tensors, 'tensor')}, {dtype}, {n_bytes:,} bytes")


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete `elmo` with TAB.

    Commands, options, files, models, formats, layers and devices. Where the script goes:

    \b
    bash  ~/.local/share/bash-completion/completions/elmo
    zsh   a file _elmo in a folder of $fpath
    fish  ~/.config/fish/completions/elmo.fish

    \b
    $ elmo completion bash > ~/.local/share/bash-completion/completions/elmo
    $ elmo completion zsh > ~/.zfunc/_elmo
    $ elmo completion fish > ~/.config/fish/completions/elmo.fish
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    click.echo(shell_class(ctx.find_root().command, {}, "elmo", "_ELMO_COMPLETE").source())
