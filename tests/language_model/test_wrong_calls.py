"""Wrong calls of the functions of a language model."""

import pytest

from elmo_cli import (
    find_substitutes,
    iter_substitutes,
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
    WrongCall(
        lambda models: find_substitutes(models.model, "the ___ sat"),
        InputError,
        "texts: a gap (___) has no token to replace. Use predict_words to fill the "
        "gap, or write a word there.",
    ),
    WrongCall(
        lambda models: find_substitutes(models.model, ["the cat", ["the", "[MASK]"]]),
        InputError,
        "texts[1]: a gap (___) has no token to replace. Use predict_words to fill the "
        "gap, or write a word there.",
    ),
    WrongCall(
        lambda models: list(iter_substitutes(models.model, ["the ___ sat"])),
        InputError,
        "texts[0]: a gap (___) has no token to replace. Use predict_words to fill the "
        "gap, or write a word there.",
    ),
)
def test_a_wrong_argument_is_named(wrong: WrongCall, models: SmallModels) -> None:
    check_error(wrong, models)
