"""Options as fields of dataclasses."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

_Settings = TypeVar("_Settings")


def settings_from(settings: type[_Settings], options: Mapping[str, Any]) -> _Settings:
    """Build settings from those options that have the name of a field; others are not read."""
    names = [field.name for field in fields(cast(Any, settings))]
    return settings(**{name: options[name] for name in names if name in options})
