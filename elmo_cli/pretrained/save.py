"""A model written as a folder for the Hugging Face hub."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from elmo_cli.errors.checks import check_path
from elmo_cli.errors.exceptions import ModelError, OutputError
from elmo_cli.errors.messages import literal
from elmo_cli.files import disk
from elmo_cli.files.atomic import new_file, write_lines
from elmo_cli.files.output_checks import check_output, output_error
from elmo_cli.files.text_files import read_text
from elmo_cli.pretrained.convert import convert_weights
from elmo_cli.pretrained.model_files import ModelFiles

_README: Final = "README.md"
_FILES: Final = (
    "config.json",
    _README,
    "model.safetensors",
    "softmax.safetensors",
)


def save_model(files: ModelFiles, folder: str | Path) -> None:
    """Write a model as a folder for the hub, with any vocabulary and softmax."""
    check_path("folder", folder)
    folder = Path(folder)
    if files.weights.suffix == ".pkl":
        raise ModelError(
            f"{files.name}: models of ELMoForManyLangs cannot be saved as safetensors",
            remedy=f"Copy the folder {literal(files.weights.parent)} instead.",
        )
    try:
        disk.make_folder(folder)
        names = [*_FILES]
        if files.vocabulary is not None:
            names.append(files.vocabulary.name)
        for name in names:
            if (folder / name).exists():
                raise OutputError(
                    f"{folder / name}: already exists", remedy="Choose another folder."
                )
            check_output(folder / name, may_exist=False)
        convert_weights(files.weights, folder / "model.safetensors")
        if files.softmax is not None:
            convert_weights(files.softmax, folder / "softmax.safetensors")
        if files.vocabulary is not None:
            _copy(files.vocabulary, folder / files.vocabulary.name)
        _write_readme(files, folder)
        _copy(files.options, folder / "config.json")
    except OSError as error:
        raise output_error(folder, error) from None


def _copy(source: Path, target: Path) -> None:
    """Copy a file to a new one, which appears once it is complete."""
    with open(source, "rb") as old, new_file(target, overwrite=False) as new:
        shutil.copyfileobj(old, new)


def _write_readme(files: ModelFiles, folder: Path) -> None:
    """Write a model's README.md: metadata in YAML, its use, and the model's card."""
    architecture = files.architecture
    language = "" if files.language is None else f"language: {files.language}\n"
    reads_characters = architecture.char_cnn is not None
    template = Path(__file__).with_name("hub_readme.md").read_text(encoding="utf-8")
    page = template.format(
        language=language,
        name=folder.resolve().name,
        layers=architecture.n_layers,
        width=architecture.width,
        shape=f"{architecture.n_layers}, 4, {architecture.width}",
        units="characters" if reads_characters else "the words of its vocabulary",
        card=_card_section(files),
    )
    write_lines(folder / _README, page.splitlines())


def _card_section(files: ModelFiles) -> str:
    """Return a model's card as a section of the page, or nothing without a card."""
    lines = ["", ""]
    with suppress(OSError, UnicodeDecodeError):
        card = read_text(files.options.with_name("card.md"))
        for line in card.splitlines():
            lines.append(f"#{line}" if line.startswith("#") else line)
        return "\n".join(lines)
    return ""
