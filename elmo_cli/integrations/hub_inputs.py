"""Inputs of TF-Hub's `google/elmo`: sentences, or tokens with padding and lengths."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from torch import Tensor

from elmo_cli.errors.checks import check_batch, check_choice, check_sentences
from elmo_cli.errors.exceptions import InputError
from elmo_cli.errors.wording import counted, kind_of
from elmo_cli.types import Sentence

Inputs = Sequence[str] | Sequence[Sequence[str]] | Mapping[str, Any]
Lengths = Sequence[int] | Tensor | None


def read_hub_inputs(
    inputs: Inputs,
    lengths: Lengths,
    signature: str | None,
    *,
    lengths_name: str = "lengths",
) -> tuple[list[Sentence], int]:
    """Return the tokens of B sentences without padding, and T.

    Args:
        inputs, lengths, signature: As in `HubElmo.forward`.
        lengths_name: Name of the lengths, for errors.
    """
    if signature is not None:
        check_choice("signature", signature, ("default", "tokens"))
    if isinstance(inputs, Mapping):
        _check_mapping(inputs, lengths)
        return read_hub_inputs(
            inputs["tokens"],
            lengths=inputs["sequence_len"],
            signature=signature or "tokens",
            lengths_name="sequence_len",
        )
    batch = list(check_batch(inputs, "inputs"))
    are_strings = any(isinstance(sentence, str) for sentence in batch)
    if batch and signature is not None:
        _check_signature(signature, batch[0], are_strings=are_strings)
    if not are_strings:
        rows = list(check_sentences(batch, "inputs"))
        n_steps = max((len(row) for row in rows), default=0)
        return _without_padding(rows, lengths, lengths_name), n_steps
    if lengths is not None:
        raise InputError(
            "lengths: sentences are split on spaces", remedy="Remove lengths."
        )
    sentences = []
    for index, text in enumerate(batch):
        if not isinstance(text, str):
            raise InputError(
                f"inputs[{index}]: expected a string, found {kind_of(text)}"
            )
        sentences.append([token for token in text.split(" ") if token])
    return sentences, max(len(tokens) for tokens in sentences)


def _check_mapping(inputs: Mapping[str, Any], lengths: Lengths) -> None:
    """Raise an `InputError` unless a mapping is TF-Hub's of the signature `tokens`."""
    if inputs.keys() != {"tokens", "sequence_len"}:
        keys = ", ".join(map(str, inputs)) or "none"
        raise InputError(
            f"inputs: expected the keys tokens and sequence_len, found {keys}"
        )
    if lengths is not None:
        raise InputError(
            "lengths: a mapping contains sequence_len instead", remedy="Remove lengths."
        )


def _check_signature(signature: str, first: object, *, are_strings: bool) -> None:
    """Raise an `InputError` unless a signature fits the inputs."""
    if (signature == "default") == are_strings:
        return
    expected = "sentences" if signature == "default" else "lists of tokens"
    raise InputError(
        f"signature {signature}: expected {expected}, found {kind_of(first)}",
        remedy=f"Give {expected}, or remove signature.",
    )


def _without_padding(
    rows: list[Sentence], lengths: Lengths, name: str
) -> list[Sentence]:
    """Return the tokens of each row; without lengths, each "" at its end is padding.

    `name` is the name of the lengths, for errors.
    """
    if lengths is None:
        counts = [_length(row) for row in rows]
    else:
        counts = _whole_numbers(lengths, name)
    if len(counts) != len(rows):
        raise InputError(
            f"{name}: expected {counted(len(rows), 'number')}, one per sentence, found "
            f"{len(counts)}"
        )
    sentences = []
    for index, (row, count) in enumerate(zip(rows, counts, strict=True)):
        if not 0 <= count <= len(row):
            raise InputError(
                f"{name}[{index}]: expected 0 to {len(row)}, found {count}"
            )
        tokens = row[:count]
        if "" in tokens:
            raise InputError(
                f"inputs[{index}]: the token {tokens.index('')} of {count} is empty"
            )
        sentences.append(tokens)
    return sentences


def _whole_numbers(lengths: Sequence[int] | Tensor, name: str) -> list[int]:
    """Return lengths as numbers; raise an `InputError` for anything else."""
    values = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    counts = list(check_batch(values, name, "a list of whole numbers"))
    for index, count in enumerate(counts):
        if not isinstance(count, Integral) or isinstance(count, bool):
            raise InputError(
                f"{name}[{index}]: expected a whole number, found {kind_of(count)}"
            )
    return counts


def _length(row: Sentence) -> int:
    """Return the number of tokens without the padding at the end."""
    length = len(row)
    while length and not row[length - 1]:
        length -= 1
    return length
