"""Arguments of sentence-transformers' `encode` with another or no meaning here.

They are those of its version 6.2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from elmo_cli.errors.checks import check_choice
from elmo_cli.errors.exceptions import SettingsError
from elmo_cli.errors.wording import listed
from elmo_cli.options.selection import Pooling
from elmo_cli.types import Text

_TEXTS: Final = ("inputs", "sentences")
"""Names of the texts in the present version, and in older ones."""
_OUTPUTS: Final = ("sentence_embedding", "token_embeddings")


class _Unused(NamedTuple):
    default: object
    reason: str
    remedy: str | None = None


_UNUSED: Final = {
    "prompt_name": _Unused(None, "ELMo has no prompts."),
    "prompt": _Unused(
        None, "ELMo has no prompts.", remedy="Add the words to the texts."
    ),
    "precision": _Unused(
        "float32", "vectors are float32.", remedy="Convert the array instead."
    ),
    "truncate_dim": _Unused(
        None, "the first numbers of ELMo's vectors are no more important than the rest."
    ),
    "pool": _Unused(None, "encode uses all cores of the CPU without a pool."),
    "chunk_size": _Unused(None, "encode uses all cores of the CPU without chunks."),
}


def take_texts(texts: Any, others: dict[str, Any]) -> str | Iterable[Text]:
    """Return the texts, which may have another name among the other arguments."""
    for name in _TEXTS:
        if name not in others:
            continue
        if texts is not None:
            raise TypeError(f"encode() got {name!r} and the texts before it")
        texts = others.pop(name)
    given: str | Iterable[Text] = texts
    return given


def take_normalize(normalize: bool, others: dict[str, Any]) -> bool:
    """Return whether vectors are scaled, which may have another name in the others."""
    return normalize or bool(others.pop("normalize_embeddings", False))


def check_unused_arguments(others: dict[str, Any]) -> None:
    """Raise an error for an argument without a meaning, unless it has its default."""
    for name, value in others.items():
        if name not in _UNUSED:
            raise TypeError(f"encode() got an unexpected keyword argument {name!r}")
        unused = _UNUSED[name]
        if value != unused.default:
            raise SettingsError(f"{name}: {unused.reason}", remedy=unused.remedy)


@dataclass(frozen=True)
class ResultForm:
    """Form of the result of `encode`."""

    pooling: Pooling | None
    """None is one vector per token."""
    has_tensors: bool
    """True for tensors in place of arrays."""
    is_stacked: bool
    """True for one array or tensor; False for a list with one per text."""


def result_form(
    pooling: Pooling | None,
    *,
    output_value: str | None,
    convert_to_numpy: bool,
    convert_to_tensor: bool,
) -> ResultForm:
    """Return the form of the result that the arguments choose together."""
    if output_value is None:
        raise SettingsError(
            "output_value: encode returns vectors alone",
            remedy=f"Choose {listed(_OUTPUTS, 'or')}.",
        )
    check_choice("output_value", output_value, _OUTPUTS)
    has_tensors = convert_to_tensor or not convert_to_numpy
    if output_value == "token_embeddings":
        pooling = None
        has_tensors = True
    # Without convert_to_tensor, tensors are in a list, as in sentence-transformers.
    is_list = pooling is None or (has_tensors and not convert_to_tensor)
    return ResultForm(pooling, has_tensors=has_tensors, is_stacked=not is_list)


def check_one_device(device: object) -> None:
    """Raise a `SettingsError` for several devices."""
    if isinstance(device, (list, tuple)):
        raise SettingsError(
            f"device {device!r}: expected one device, because encode runs in one "
            "process"
        )
