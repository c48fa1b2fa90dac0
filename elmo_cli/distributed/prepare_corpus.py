"""Preparation of a run: what can be wrong before there is a folder, and the tokenizer.

Reading the corpus takes long, so that everything else is checked before.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from elmo_cli.callbacks import ignore
from elmo_cli.distributed.find_inputs import find_input_format, find_paths
from elmo_cli.distributed.plan import CorpusSettings
from elmo_cli.distributed.read_part import read_first_texts_of
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.files.shared_folder import Folder
from elmo_cli.inference.device import CPU, choose_device
from elmo_cli.inference.precision import compute_types
from elmo_cli.options.model import ModelSettings
from elmo_cli.options.resources import ResourceSettings
from elmo_cli.options.text import TextSettings
from elmo_cli.pretrained.find_model import ResolvedModel, find_resolved_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.records.open_input import content_of
from elmo_cli.text.choose_tokenizer import choose_tokenizer
from elmo_cli.text.tokenizers import Tokenizer


class PreparedCorpus(NamedTuple):
    """Settings of a run that were checked, and the model."""

    settings: CorpusSettings
    """Settings that all workers share: the full name of the tokenizer, absolute paths
    of the model, and no shard."""
    files: ModelFiles
    """Files of the model."""
    device: torch.device
    """Device of the workers."""


def prepare_corpus(
    patterns: tuple[str, ...],
    folder: Folder,
    settings: CorpusSettings,
    model: ResolvedModel,
    *,
    resources: ResourceSettings | None = None,
    on_tokenizer: Callable[[Tokenizer], object] = ignore,
) -> PreparedCorpus:
    """Choose the tokenizer, and find the files of the model, or download them.

    Args:
        patterns: Paths, URIs and patterns of the inputs.
        folder: Folder of the parts. It is not created.
        settings: Settings as the user gave them.
        model: Model of the settings.
        resources: Resources of the workers. None computes in this process.
        on_tokenizer: Called with the tokenizer of all files, before a model is
            downloaded.

    Raises:
        ElmoError: An input or the model is missing, or a setting does not fit: layers,
            precision or tokenizer.
    """
    first = find_paths(patterns, folder)[0]
    tokenizer = _choose_tokenizer(first, settings.text, model)
    on_tokenizer(tokenizer)
    files = find_resolved_files(model)
    settings.selection.check_for_model(files.architecture.n_layers)
    device = _find_device(settings.model, resources)
    text_settings = replace(
        settings.text, tokenizer=tokenizer.name, language=None, shard=None
    )
    return PreparedCorpus(
        settings=replace(settings, text=text_settings).for_workers(),
        files=files,
        device=device,
    )


def _choose_tokenizer(
    path: str, text_settings: TextSettings, model: ResolvedModel
) -> Tokenizer:
    """Return the tokenizer of all files, which the beginning of the first one shows."""
    content = content_of(find_input_format(text_settings, path))
    if content != "tokens":
        return choose_tokenizer(
            text_settings,
            content,
            read_first_texts_of(path, text_settings),
            trained=model.tokenizer,
            model_language=model.language,
        )
    if text_settings.names_tokenizer and text_settings.tokenizer != "whitespace":
        raise SettingsError(
            "{--tokenizer}: has no effect with the tokens of {path}",
            remedy="Remove {--tokenizer}.",
            path=path,
        )
    return choose_tokenizer(text_settings, content, model_language=model.language)


def _find_device(
    model: ModelSettings, resources: ResourceSettings | None
) -> torch.device:
    """Return the device of the workers.

    Raise an error for a precision that it is known to lack.
    """
    if resources is None:
        device = choose_device(model.device)
        compute_types(model.precision, device)
        return device
    if resources.gpus_per_worker:
        return torch.device("cuda")
    if model.precision == "tf32":
        # Only the workers know if their processors have int8.
        compute_types(model.precision, CPU)
    return CPU
