"""Errors for attributes that a class lacks, with the name of what does the same."""

from collections.abc import Mapping


def missing_attribute_error(
    owner: object, name: str, advice: Mapping[str, str]
) -> AttributeError:
    """Return the error for an attribute; `advice` has a sentence for some names."""
    problem = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name in advice:
        problem += f". {advice[name]}"
    # With `name` and `obj`, Python asks whether a similar name was meant.
    return AttributeError(problem, name=name, obj=owner)
