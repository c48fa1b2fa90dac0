"""Wrong calls of the functions of a language model."""

import pytest

from elmo_cli import (
    measure_perplexity,
    measure_surprisal,
    sample_sentences,
)
from elmo_cli.errors.exceptions import InputError, SettingsError
from tests.support.small_models import SmallModels
from tests.support.wrong_calls import WrongCall, check_error, each_wrong_call


@pytest.mark.usefixtures("folder")
@each_wrong_call(
    WrongCall(
        lambda models: sample_sentences(models.model, "a", max_words=-1),
        SettingsError,
        "max_words: expected 0 or more, found -1",
    ),
    WrongCall(
        lambda models: sample_sentences(models.model, 1),  # type: ignore[arg-type]
        InputError,
        "text: expected a string or a list of tokens, found 1",
    ),
    WrongCall(
        lambda models: measure_surprisal("We sat.", models.model),  # type: ignore[call-overload]
        InputError,
        "model: expected a LanguageModel, found the string 'We sat.'. Give the model "
        "first, such as LanguageModel().",
    ),
    WrongCall(
        lambda models: measure_perplexity(models.model, str(models.text)),
        InputError,
        "texts: expected a text, found the file 'FOLDER/in.txt'. Read it first: "
        "Path('FOLDER/in.txt').read_text().splitlines()",
    ),
)
def test_a_wrong_argument_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)
