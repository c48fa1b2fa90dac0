"""Removal of a downloaded model."""

import shlex
from pathlib import Path

from elmo_cli.errors.exceptions import ModelError
from elmo_cli.errors.messages import literal
from elmo_cli.files import disk
from elmo_cli.pretrained.cache import published_folder
from elmo_cli.pretrained.hub import HUB_PREFIX
from elmo_cli.pretrained.registry import BUNDLED
from elmo_cli.pretrained.unknown_names import known_model


def remove_model(name: str) -> tuple[Path, int]:
    """Delete the files of a published model. Return their folder and size in bytes."""
    if name.startswith(HUB_PREFIX):
        problem = f"{name}: the hub's own package stores it"
        raise ModelError(problem, remedy="See `hf cache --help`.")
    model = known_model(name)
    if model.name == BUNDLED:
        problem = "the model is bundled with elmo-cli and cannot be removed"
        raise ModelError(f"{BUNDLED}: {problem}")
    folder = published_folder(model)
    if not folder.is_dir():
        raise ModelError(
            f"{model.name}: not downloaded",
            remedy="`elmo models --downloaded` lists the models that you can remove.",
        )
    if folder.is_symlink():
        raise ModelError(
            f"{folder}: a link to a folder, which stays",
            remedy=f"To remove the link, use `rm {literal(shlex.quote(str(folder)))}`.",
        )
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    disk.remove_tree(folder)
    return folder, n_bytes
