"""Models of the Hugging Face hub, `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`."""

import os
import re
from functools import partialmethod
from pathlib import Path
from typing import Final

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import ModelError
from elmo_cli.errors.optional_imports import load_extra
from elmo_cli.pretrained.download import failure_reason, tqdm_disable
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.model_folder import read_folder
from elmo_cli.pretrained.registry import published_model

HUB_PREFIX: Final = "hf:"
HUB_NAME: Final = re.compile(r"(hf:)?\w[\w.-]*/[\w.-]+(@|$)")

_FROM_HUB: Final = (
    "*.json",
    "*.hdf5",
    "*.safetensors",
    "*vocab*.txt",
    "*vocab*.txt.gz",
    "card.md",
)


def name_or_hub_name(name: str | Path, revision: str | None = None) -> str | Path:
    """Return the name of a model for `find_files_by_name`, with the hub's prefix.

    `OWNER/NAME` is a model of the hub if there is no published model, file or folder of
    this name. Only models of the hub have revisions.
    """
    check_type("name", name, (str, os.PathLike), "a name or a path")
    is_local = isinstance(name, Path) or published_model(name) or os.path.exists(name)
    if not is_local and HUB_NAME.match(str(name)):
        in_hub = HUB_PREFIX + str(name).removeprefix(HUB_PREFIX)
        return in_hub if not revision else f"{in_hub}@{revision}"
    if revision is not None:
        raise ModelError(
            f"{name}: only models of the hub have revisions",
            remedy="Remove the revision.",
        )
    return name


def find_in_hub(name: str, *, with_softmax: bool = False) -> ModelFiles:
    """Find the files of a model of the hub, and download missing ones.

    The hub's own package has its own cache (HF_HOME), mirrors (HF_ENDPOINT) and
    HF_HUB_OFFLINE.
    """
    if not HUB_NAME.match(name):
        raise ModelError(f"{name}: expected {HUB_PREFIX}OWNER/NAME")

    from tqdm import tqdm

    class Bars(tqdm):  # type: ignore[misc]
        __init__ = partialmethod(tqdm.__init__, disable=tqdm_disable())

    hub = load_extra(name, "huggingface_hub", "hub")
    repository, _, revision = name.removeprefix(HUB_PREFIX).partition("@")
    try:
        folder = hub.snapshot_download(
            repository,
            revision=revision or None,
            allow_patterns=_FROM_HUB,
            ignore_patterns=None if with_softmax else "*softmax*",
            tqdm_class=Bars,
        )
    except hub.errors.RepositoryNotFoundError:
        raise ModelError(
            f"{name}: no such model on the hub",
            remedy="For a private model run `hf auth login` first.",
        ) from None
    except hub.errors.RevisionNotFoundError:
        raise ModelError(f"{name}: the model has no revision {revision}") from None
    except Exception as error:  # The errors of the network differ between versions.
        reason = failure_reason(error.__cause__ or error).removesuffix(".")
        reason = re.sub(r"^\[Errno -?\d+\] ", "", reason)
        raise ModelError(
            f"{name}: cannot download from the hub: {reason}",
            remedy="If you have a copy, give its path.",
        ) from None
    return read_folder(Path(folder), name)
