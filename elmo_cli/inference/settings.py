"""How sentences are computed: where they start, how precisely, and how many at once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, get_args

from elmo_cli.errors import InputError
from elmo_cli.inference.batching import fixed_windows, windows
from elmo_cli.text.lines import Sentence

State = Literal["zero", "carry", "warm"]
Precision = Literal["float32", "bfloat16", "float16", "int8"]

DTYPES: Final = ("float32", "float16")
"""Of the values in a file."""
DEFAULT_BATCH_SIZE: Final = 64
BATCH_TOKENS: Final = {"cpu": 8192, "cuda": 32_768}
"""Tokens in a batch: the more, the more of them are equal, and the more memory they take."""
BATCH_SENTENCES: Final = {"cpu": 256, "cuda": 32_768}
"""Rows of a step: enough for the matrix products to run at full speed; more would take memory."""
WINDOW_BATCHES: Final = 2
"""Batches in a window: enough sentences that those of a batch are of like length."""


def check_settings(state: str | None, precision: str, batch_tokens: int | None) -> None:
    """Raise an `InputError` for a value that a setting of `ElmoEmbedder` cannot have."""
    if state is not None:
        _check_choice("state", state, get_args(State))
    _check_choice("precision", precision, get_args(Precision))
    if batch_tokens is not None and batch_tokens < 1:
        raise InputError(f"batch_tokens {batch_tokens}: expected 1 or more")


def check_dtype(dtype: str | None) -> None:
    """Raise an `InputError` for a type that the values of a file cannot have; None is not given."""
    if dtype is not None:
        _check_choice("dtype", dtype, DTYPES)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{name} {value!r}: expected {' or '.join(choices)}")


def sentence_windows(
    sentences: Iterable[Sentence], state: State, batch_size: int, batch_tokens: int
) -> Iterator[list[Sentence]]:
    """Cut a stream into what is computed together: with carried state, one batch.

    Raises:
        InputError: there is no such batch.
    """
    if batch_size < 1:
        raise InputError(f"batch_size {batch_size}: expected 1 or more")
    if state == "carry":
        return fixed_windows(sentences, batch_size)
    n_tokens = WINDOW_BATCHES * batch_tokens
    return windows(sentences, n_tokens, max_sentences=n_tokens)
