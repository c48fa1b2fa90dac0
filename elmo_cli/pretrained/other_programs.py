"""Files of other programs that users give in place of a model, each with its remedy."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from elmo_cli.errors.exceptions import WeightsError
from elmo_cli.pretrained.roles import role_of


class _Kind(NamedTuple):
    """Kind of file, recognized by patterns of its name and of its first characters."""

    what: str
    remedy: str
    name: str = ".*"
    head: str = ""


_GIVE_A_MODEL: Final = "Give a name of `elmo models`, or the folder of an ELMo model."
_DUMP: Final = "`python bin/dump_weights.py --save_dir FOLDER --outfile weights.hdf5`"

_KINDS: Final = (
    _Kind(
        "a part of an ELMoForManyLangs model",
        "Give the folder with all its files, including config.json, as the model.",
        name=r"(encoder|token_embedder)\.pkl",
    ),
    _Kind(
        "a checkpoint of `elmo train`",
        "Give its folder when that is done.",
        name=r"checkpoint\.pt",
    ),
    _Kind(
        "a pickle or a file of PyTorch",
        "Give ELMo's HDF5 weights and options, which AllenNLP names in the config.json "
        "next to it. If it is an LSTM language model, use `elmo convert INPUT OUTPUT "
        "--vocabulary-file FILE`.",
        head=r"PK\x03\x04(?s:.{26})[^/]*/data\.pkl|\x80[\x02-\x05]",
    ),
    _Kind(
        "a pointer of git-lfs",
        "Get the file with `git lfs pull`.",
        head=r"version https://git-lfs",
    ),
    _Kind(
        "a web page",
        "Download the file itself.",
        head=r"\s*<(?i:!doctype|html)",
    ),
    _Kind(
        "a file of word vectors",
        _GIVE_A_MODEL,
        head=r"\d+ \d+\s|\xba\x16\x4f\x2f",
    ),
    _Kind(
        "part of a transformers model",
        _GIVE_A_MODEL,
        name=r"config\.json",
        head=r'(?s:.*)"(architectures|model_type)"',
    ),
    _Kind(
        "a packed file",
        "Unpack it, and give what is in it.",
        head=r"\x1f\x8b|BZh|\xfd7zXZ|7z\xbc|Rar!|(?s:.{257})ustar",
    ),
    _Kind(
        "a checkpoint of TensorFlow",
        f"Write HDF5 from its folder with bilm-tf: {_DUMP}.",
        name=r".*\.ckpt.*|checkpoint",
    ),
    _Kind(
        "a module of TensorFlow",
        "Use the model `original` for TF-Hub's elmo.",
        name=r"(saved_model|tfhub_module)\.pb",
    ),
)


def refuse_other_program(path: Path, start: str | None = None) -> None:
    """Raise a `WeightsError` for a file of another program.

    Its message begins with `start`, by default the path and a colon.
    """
    if role_of(path.name) == "vocabulary":
        return
    # The name of a TensorFlow checkpoint is the beginning of its files' names.
    is_checkpoint = os.path.exists(f"{path}.index")
    if not is_checkpoint and not os.path.isfile(path):
        return
    head = ""
    with suppress(OSError), open(path, encoding="latin-1", newline="") as file:
        head = file.read(1000)
    for kind in _KINDS:
        if re.fullmatch(kind.name, path.name) and re.match(kind.head, head):
            raise WeightsError(f"{start or f'{path}:'} {kind.what}", remedy=kind.remedy)
