"""Extension of Griffe for the API page: lists of fields, and public signatures.

The fields of a named tuple or dataclass become a section `Attributes` of its docstring,
so that they are one list in place of a heading per field. Fields that are options have
the same help as on the command line. Signatures lose names that are internal.
"""

from importlib import import_module
from typing import Any, Final

import griffe

from elmo_cli.errors.messages import Message
from elmo_cli.options.fields import info_of, option_fields

TEXTS: Final = {
    "adjusted_p": "p adjusted for the number of words.",
    "average": "Perplexity of both directions together.",
    "backward": "Perplexity of the backward direction.",
    "change": "Change of the word.",
    "cosine": "Cosine with the query.",
    "elmo_representations": "Representations, float, shape (B, T, W) each.",
    "first": "First occurrence of the pair.",
    "forward": "Perplexity of the forward direction.",
    "id": "Id of the record, if it has one.",
    "known_words": "Perplexity of the predictions of known words and boundaries.",
    "layers": "Layers, float, shape (L, B, T + 2, W), zero where the mask is zero.",
    "location": "Location of the sentence.",
    "mask": "Mask of the tokens, shape (B, T), or with boundaries, (B, T + 2).",
    "n_drawn": "Number of points.",
    "n_new": "Number of its new occurrences.",
    "n_occurrences": "Number of occurrences found.",
    "n_old": "Number of its old occurrences.",
    "n_tokens": "Number of its tokens.",
    "n_unknown": "Number of its tokens that are not in the vocabulary.",
    "number": "Position of a token, from 0; or number of a word or region, from 1.",
    "options": "Path of options.json.",
    "path": "Path of the file.",
    "probability": "Its probability.",
    "record": "Id, text and tokens of the record.",
    "region": "Region of a word, if the text has regions.",
    "second": "Second occurrence of the pair.",
    "sentence": "Tokens of the sentence.",
    "softmax": "Path of the weights of the softmax, if there is one.",
    "source": "File of the record.",
    "state": "State at the end of each sentence.",
    "summary": "Summary of the run.",
    "text": "Its text.",
    "tokens": "Its tokens.",
    "weights": "Path of the weights.",
    "word": "The word.",
}
"""Descriptions of fields that neither are options nor have a docstring."""
HIDDEN: Final = {"VectorFiles.on_progress", "VectorFiles.sources"}
INTERNAL: Final = " | TextInput"
"""Type that the command line passes to a public function, and that is not public."""
ALIASES: Final = {
    "Direction": "str",
    "OnProgress": "Callable",
    "Pair": "tuple[Occurrence, Occurrence]",
    "SupportsIndex": "int",
    "TextFile": "IO[str] | str | Path",
    "UnitKind": "str",
    "_Path": "str | Path | None",
}
"""Names of types in signatures that a reader cannot look up."""
DEFAULTS: Final = {"DEFAULT_BATCH_SIZE": "64", "DEFAULT_LAYERS": "'top'"}
"""Values of constants in signatures."""


class Fields(griffe.Extension):
    """Extension that adds the fields of a result to its docstring."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Append a section with the fields to the docstring of a tuple or dataclass."""
        bases = " ".join(str(base) for base in cls.bases)
        is_tuple_or_dict = "NamedTuple" in bases or "TypedDict" in bases
        has_fields = is_tuple_or_dict or "dataclass" in cls.labels
        if cls.docstring is None or not has_fields:
            return
        helps = option_helps(cls)
        rows = []
        for name, field in cls.attributes.items():
            is_hidden = name.startswith("_") or f"{cls.name}.{name}" in HIDDEN
            if is_hidden or "property" in field.labels:
                continue
            texts = []
            if name in helps:
                texts.append(helps[name])
            if field.docstring is not None:
                texts.append(field.docstring.value)
            if not texts:
                texts.append(TEXTS.get(name, ""))
            text = " ".join(" ".join(texts).split())
            rows.append(f"    {name}: {text}")
        cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace names in a signature that are not public."""
        for parameter in func.parameters:
            if INTERNAL in str(parameter.annotation):
                parameter.annotation = str(parameter.annotation).replace(INTERNAL, "")
            replace_aliases(parameter.annotation)
            parameter.default = DEFAULTS.get(str(parameter.default), parameter.default)
        replace_aliases(func.returns)


def option_helps(cls: griffe.Class) -> dict[str, str]:
    """Return the help of the fields of a class that are options, by their names."""
    values = [str(field.value) for field in cls.attributes.values()]
    # Only classes with options are imported: griffe reads the source of the others.
    if not any(value.startswith("option(") for value in values):
        return {}
    options = getattr(import_module(cls.module.path), cls.name)
    helps = {}
    for name in option_fields(options):
        info = info_of(options, name)
        text = str(Message(info.help))
        if info.choices:
            choices = ", ".join(f"`{choice}`" for choice in info.choices)
            text += f" Choices: {choices}."
        if info.default_text:
            text += f" Default: {Message(info.default_text)}."
        helps[name] = text
    return helps


def replace_aliases(expression: Any) -> None:
    """Replace the aliases in an expression by their values."""
    if isinstance(expression, griffe.Expr):
        for name in expression.iterate(flat=True):
            if isinstance(name, griffe.ExprName):
                name.name = ALIASES.get(name.name, name.name)
