"""The softmax of a model, in a file of its own or among the weights."""

from dataclasses import replace

from elmo_cli.errors.exceptions import MissingModelError
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.roles import only_file
from elmo_cli.pretrained.tensor_names import has_tensor


def with_softmax_in_weights(files: ModelFiles) -> ModelFiles:
    """Return the files with the weights as the softmax, if one file has both."""
    if files.softmax is not None or files.weights.suffix == ".pkl":
        return files
    if has_tensor(files.weights, "softmax/W"):
        return replace(files, softmax=files.weights)
    return files


def require_softmax(files: ModelFiles) -> ModelFiles:
    """Return the files with their softmax and its vocabulary, which must exist.

    The vocabulary of the softmax is the model's, or else the one next to the softmax.
    """
    files = with_softmax_in_weights(files)
    if files.softmax is None:
        raise MissingModelError(
            "{name}: predicting words requires a softmax",
            remedy=(
                "Add softmax.hdf5 next to {weights}, or give {--softmax-file}.",
                "Add softmax.hdf5 next to {weights}.",
            ),
            name=files.name,
            weights=files.weights,
        )
    vocabulary = files.vocabulary or only_file(files.softmax.parent, "vocabulary")
    if vocabulary is None:
        raise MissingModelError(
            "{name}: the softmax requires its vocabulary",
            remedy=(
                "Add vocab.txt next to {softmax}, or give {--vocabulary-file}.",
                "Add vocab.txt next to {softmax}.",
            ),
            name=files.name,
            softmax=files.softmax,
        )
    return replace(files, vocabulary=vocabulary)
