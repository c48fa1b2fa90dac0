"""Models of the Hugging Face hub, `hf:OWNER/NAME@REVISION`, and folders to put there.

The hub's own package downloads them, to its own cache (HF_HOME), and knows private models,
mirrors (HF_ENDPOINT) and HF_HUB_OFFLINE. Only safetensors, HDF5, JSON and words are taken.
"""

import shutil
from functools import partialmethod
from pathlib import Path
from typing import Final

from elmo_cli.atomic import check_output, output_error
from elmo_cli.errors import ElmoError, ModelError, first_line, load_extra
from elmo_cli.pretrained.download import hides_bars
from elmo_cli.pretrained.model_files import ModelFiles, read_folder

HUB_PREFIX: Final = "hf:"
_TAKEN: Final = ("*.json", "*.hdf5", "*.safetensors", "*vocab*.txt", "*vocab*.txt.gz", "card.md")


def find_in_hub(name: str, *, with_softmax: bool = False) -> ModelFiles:
    """Find the files of a model of the hub; those that are not here are downloaded.

    Args:
        name: `hf:OWNER/NAME`, with `@` and a branch, a tag or a commit, else `main`.
        with_softmax: take the softmax too.

    Raises:
        ModelError: there is no such model, or the hub does not answer.
        ElmoError: the package for it is not installed.
    """
    from tqdm import tqdm

    class Bars(tqdm):  # type: ignore[misc]
        __init__ = partialmethod(tqdm.__init__, disable=hides_bars())

    hub = load_extra(name, "huggingface_hub", "hub")
    repository, _, revision = name.removeprefix(HUB_PREFIX).partition("@")
    try:
        folder = hub.snapshot_download(
            repository,
            revision=revision or None,
            allow_patterns=_TAKEN,
            ignore_patterns=None if with_softmax else "*softmax*",
            tqdm_class=Bars,
        )
    except hub.errors.RepositoryNotFoundError:
        raise ModelError(
            f"{name}: no such model on the hub; one that is private needs `hf auth login`"
        ) from None
    except hub.errors.RevisionNotFoundError:
        raise ModelError(f"{name}: the model has no revision {revision}") from None
    except Exception as error:  # which errors of the network there are depends on the version
        reason = first_line(error.__cause__ or error)
        raise ModelError(f"{name}: cannot download from the hub: {reason}") from None
    return read_folder(Path(folder), name)


def save_model(files: ModelFiles, folder: str | Path) -> None:
    """Write a model as folders of the hub are: config.json, model.safetensors and its words.

    Raises:
        ElmoError: it is one of ELMoForManyLangs, which has no such form; a file is there already,
            or cannot be written; the package for safetensors is not installed.
    """
    from elmo_cli.pretrained.convert_weights import convert_weights

    folder = Path(folder)
    if files.weights.suffix == ".pkl":
        raise ModelError(
            f"{files.name}: a model of ELMoForManyLangs, which has no form as safetensors; copy "
            f"the folder {files.weights.parent}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_output(folder / "config.json", overwrite=False)
        convert_weights(files.weights, folder / "model.safetensors")
        if files.softmax is not None:
            convert_weights(files.softmax, folder / "softmax.safetensors")
        if files.vocabulary is not None:
            shutil.copyfile(files.vocabulary, folder / files.vocabulary.name)
        shutil.copyfile(files.options, folder / "config.json")
    except OSError as error:
        raise error if isinstance(error, ElmoError) else output_error(folder, error) from None
