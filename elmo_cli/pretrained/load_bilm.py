"""The files of a model to its biLM."""

from elmo_cli.errors.checks import check_type
from elmo_cli.errors.exceptions import MissingModelError, SettingsError
from elmo_cli.errors.messages import Template, literal
from elmo_cli.model.bilm import BiLm
from elmo_cli.model.lexicons import read_lexicons
from elmo_cli.model.many_langs import read_many_langs
from elmo_cli.model.many_langs_config import ManyLangsArchitecture
from elmo_cli.model.vocabulary_files import read_vocabulary
from elmo_cli.model.weights import read_weights
from elmo_cli.options.model import ModelSettings
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.pretrained.roles import TOKEN_ENCODER


def load_bilm(files: ModelFiles) -> BiLm:
    """Build a model from its files, in float32."""
    architecture = files.architecture
    if isinstance(architecture, ManyLangsArchitecture):
        token_encoder = files.weights.with_name(TOKEN_ENCODER)
        lexicons = read_lexicons(files.weights.parent, architecture)
        return read_many_langs(
            files.weights,
            token_encoder=token_encoder,
            architecture=architecture,
            lexicons=lexicons,
        )
    if architecture.char_cnn is not None:
        return read_weights(files.weights, architecture)
    if files.vocabulary is None:
        raise MissingModelError(
            f"{files.options}: a word-level model (without char_cnn) requires its "
            "vocabulary",
            remedy=f"Add vocab.txt next to {literal(files.weights)}.",
        )
    return read_weights(files.weights, architecture, read_vocabulary(files.vocabulary))


def check_module(module: object, settings: ModelSettings) -> None:
    """Check the argument `module`, a biLM in place of a model or its files.

    Raises:
        InputError: It is not a biLM.
        SettingsError: The settings name a model too.
    """
    if module is None:
        return
    check_type(
        "module", module, BiLm, "a BiLm", remedy="Give ElmoEmbedder().elmo_bilm."
    )
    if settings.model is not None:
        raise SettingsError(
            "module: cannot be combined with model", remedy="Remove one of them."
        )
    if settings.options_file is not None:
        raise SettingsError(
            Template(
                "module: cannot be combined with {--options-file} and {--weight-file}"
            ),
            remedy="Remove module, or the two files.",
        )
