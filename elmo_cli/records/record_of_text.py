"""Record of a text that is tokenized, and perhaps split into sentences."""

from itertools import chain

from elmo_cli.records.record import Record, Span
from elmo_cli.text.tokenizers import Tokenizer


def record_of_text(text: str, tokenizer: Tokenizer) -> Record:
    """Return the record of a text, with its sentences if there are several."""
    sentences = tokenizer.split_sentences(text)
    if len(sentences) < 2:
        return Record(text, tokenizer.tokenize(text))
    tokens = [tokenizer.tokenize(sentence) for sentence in sentences]
    spans = [
        Span(sentence, len(own_tokens))
        for sentence, own_tokens in zip(sentences, tokens, strict=True)
    ]
    return Record(text, list(chain.from_iterable(tokens)), sentences=spans)
