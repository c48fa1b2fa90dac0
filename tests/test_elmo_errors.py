"""Errors of `Elmo`: wrong options and ids."""

import pytest
import torch

from elmo_cli import Elmo, batch_to_ids
from elmo_cli.errors.exceptions import InputError, SettingsError
from tests.support.commands import TINY
from tests.support.small_models import SmallModels
from tests.support.wrong_calls import WrongCall, check_error, each_wrong_call

IDS = batch_to_ids([["a", "cat"], ["the"]])
WORDS = torch.tensor([[1, 3], [2, 0]])


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: Elmo(model=TINY, num_output_representations=0),
        SettingsError,
        "num_output_representations: expected 1 or more, found 0",
    ),
    WrongCall(
        lambda models: Elmo(model=TINY, requires_grad=True, vocab_to_cache=["a"]),
        InputError,
        "vocab_to_cache: cannot be used with requires_grad, because training "
        "would not change the cached vectors. Remove one of them.",
    ),
    WrongCall(
        lambda models: Elmo(model=TINY, precision="double"),  # type: ignore[arg-type]
        SettingsError,
        "precision: expected float32, tf32, bfloat16, float16 or int8, found 'double'",
    ),
    WrongCall(
        lambda models: Elmo(model=TINY, precision="bfloat16", requires_grad=True),
        SettingsError,
        "precision='bfloat16': requires a frozen biLM, without gradients or dropout. "
        "Use precision='float32'.",
    ),
)
def test_a_wrong_option_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: models.cached(IDS[..., 0]),
        InputError,
        "inputs: expected shape (B, T, 50), found (2, 2)",
    ),
    WrongCall(
        lambda models: models.cached(IDS[..., :12]),
        InputError,
        "inputs: expected shape (B, T, 50), found (2, 2, 12)",
    ),
    WrongCall(
        lambda models: models.cached(IDS.float()),
        InputError,
        "inputs: expected int64, found torch.float32",
    ),
    WrongCall(
        lambda models: models.cached(IDS.flip(1)),
        InputError,
        "inputs: padding before a token. It must come after the tokens.",
    ),
    WrongCall(
        lambda models: models.cached(IDS * 0, WORDS.flip(1)),
        InputError,
        "inputs: padding before a token. It must come after the tokens.",
    ),
    WrongCall(
        lambda models: models.cached(IDS * 1000),
        InputError,
        "inputs: expected ids from batch_to_ids or bilm.sentence_ids, found 0 to "
        "261000",
    ),
    WrongCall(
        lambda models: models.cached(IDS.masked_fill(IDS[0, 0, 1] == IDS, -2)),
        InputError,
        "inputs: expected ids from batch_to_ids or bilm.sentence_ids, found -2 to 261",
    ),
    WrongCall(
        lambda models: models.cached(IDS, WORDS[:, :1]),
        InputError,
        "word_inputs: expected shape (2, 2), found (2, 1)",
    ),
    WrongCall(
        lambda models: models.cached(IDS * 0, WORDS * 2),
        InputError,
        "word_inputs: expected indices in vocab_to_cache where inputs has no "
        "characters, found one outside it",
    ),
)
def test_wrong_ids_are_described(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)
