"""Every function that takes a raw text takes a tokenizer and a language for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elmo_cli import (
    LanguageModel,
    SettingsError,
    average_word_vectors,
    find_substitutes,
    iter_substitutes,
    measure_perplexity,
    measure_surprisal,
    predict_words,
    sample_sentences,
)
from elmo_cli.embedder import embedder_on

TEXT = "L'eau, the cat."
Call = Callable[..., Any]
FUNCTIONS = [
    pytest.param(lambda model, **o: model.score(TEXT, **o).tokens, id="score"),
    pytest.param(
        lambda model, **o: next(model.iter_scores([TEXT], **o)).tokens, id="iter_scores"
    ),
    pytest.param(
        lambda model, **o: predict_words(model, TEXT, **o).tokens, id="predict_words"
    ),
    pytest.param(
        lambda model, **o: find_substitutes(model, TEXT, **o).tokens,
        id="find_substitutes",
    ),
    pytest.param(
        lambda model, **o: next(iter_substitutes(model, [TEXT], **o)).tokens,
        id="iter_substitutes",
    ),
    pytest.param(
        lambda model, **o: sample_sentences(model, TEXT, max_words=0, **o)[0],
        id="sample_sentences",
    ),
    pytest.param(
        lambda model, **o: [unit.text for unit in measure_surprisal(model, TEXT, **o)],
        id="measure_surprisal",
    ),
    pytest.param(
        lambda model, **o: (
            average_word_vectors(
                embedder_on(model.engine), TEXT, min_count=1, **o
            ).words
        ),
        id="average_word_vectors",
    ),
]


@pytest.mark.parametrize("tokens_of", FUNCTIONS)
def test_a_text_is_tokenized_as_the_arguments_say(
    tokens_of: Call, model_folder: Path
) -> None:
    model = LanguageModel(model_folder)
    english = ["L", "'eau", ",", "the", "cat", "."]
    assert tokens_of(model) == english
    assert tokens_of(model, tokenizer="whitespace") == ["L'eau,", "the", "cat."]
    french = ["L'", "eau", ",", "the", "cat", "."]
    assert tokens_of(model, language="fr") == french
    assert tokens_of(model, tokenizer="moses:fr") == french
    with pytest.raises(
        SettingsError, match=r"^tokenizer: expected auto, .*, found 'words'"
    ):
        tokens_of(model, tokenizer="words")


def test_the_perplexity_is_that_of_the_tokens(model_folder: Path) -> None:
    model = LanguageModel(model_folder)
    assert measure_perplexity(model, TEXT).tokens == 6
    assert measure_perplexity(model, TEXT, tokenizer="whitespace").tokens == 3
