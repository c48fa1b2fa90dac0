"""Choice of a tokenizer."""

from typing import Literal

from elmo_cli.options.text import TextSettings
from elmo_cli.text.tokenizers import Tokenizer, make_tokenizer

Content = Literal["tokens", "lines", "raw", "strings"]
"""What is tokenized:

tokens   CoNLL-U and FASTA, and text in a column `tokens`
lines    lines of text, which are often tokenized already
raw      texts in tables, typed texts, and lines of which words are asked for
strings  strings that Python code passes
"""


def choose_tokenizer(
    settings: TextSettings,
    content: Content,
    *,
    trained: str | None = None,
    model_language: str | None = None,
) -> Tokenizer:
    """Return the tokenizer of a text. The first rule that applies decides.

    | the user or the model names | tokens     | lines      | raw     | strings |
    |-----------------------------|------------|------------|---------|---------|
    | a tokenizer                 | that       | that       | that    | that    |
    | only a language             | whitespace | whitespace | moses   | trained |
    | the one of its training     | whitespace | trained    | trained | trained |
    | none of them                | whitespace | whitespace | moses   | moses   |

    `trained` is the tokenizer of the model's training. Without it, the last line
    applies to strings with a language, too. The language of a tokenizer without one is
    that of the settings, or else of the model, or else English.

    Args:
        settings: Options of the text, of which the tokenizer, the language and
            `split_sentences` count.
        content: What is tokenized.
        trained: Name of the tokenizer of the model's training. None if it is not known.
        model_language: Code of the model's language. None if it is not known.
    """
    if settings.tokenizer is not None:
        name = settings.tokenizer
    elif content == "tokens":
        name = "whitespace"
    elif trained is not None and (settings.language is None or content == "strings"):
        name = trained
    elif content == "lines":
        name = "whitespace"
    else:
        name = "moses"
    return make_tokenizer(
        name,
        settings.language or model_language,
        split_sentences=settings.split_sentences,
    )
