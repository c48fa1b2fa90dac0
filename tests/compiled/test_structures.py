"""Arguments of functions in C: the classes in Python against the structures in C."""

import re
from ctypes import Structure, c_double, c_int64, c_void_p
from typing import Any

import pytest
import torch

from elmo_cli.compiled.kernels import SOURCE
from elmo_cli.compiled.structures import (
    Arguments,
    Rows,
    Scales,
    Strides,
    Values,
    address,
)

CLASSES = Arguments.__subclasses__()
KINDS: dict[str, Any] = {"int64_t": c_int64, "double": c_double}
"""Classes of the fields that are not addresses, by their types in C."""
NESTED = [Strides, Scales, Rows]
"""Structures that are only fields of others."""


def c_structures() -> dict[str, list[tuple[str, Any]]]:
    """Return the fields of each structure in the C files, with their ctypes."""
    found: dict[str, list[tuple[str, Any]]] = {}
    structure = re.compile(r"^struct (\w+) \{(.*?)^\};", re.M | re.S)
    for path in SOURCE.parent.glob("kernels*.[ch]"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for name, body in structure.findall(text):
            found[name] = fields_of(body)
    return found


def fields_of(body: str) -> list[tuple[str, Any]]:
    """Return the fields that declarations such as `const float *a, *b;` declare."""
    fields = []
    pattern = r"\s*(?:const )?(?P<kind>(?:struct )?\w+)\s+(?P<names>.+)"
    for declaration in re.findall(r"[^;]+(?=;)", body):
        match = re.fullmatch(pattern, declaration, re.S)
        assert match is not None, declaration
        for name in match["names"].split(","):
            kind = KINDS.get(match["kind"])
            if name.strip().startswith("*"):
                kind = c_void_p
            fields.append((name.strip(" *\n"), kind))
    return fields


def c_name(kind: type[Structure]) -> str:
    """Return the name in C of a class: `training_cells` for `TrainingCells`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


for _class in CLASSES:
    KINDS[f"struct {c_name(_class)}"] = _class


@pytest.mark.parametrize("kind", CLASSES, ids=c_name)
def test_the_fields_are_those_in_c(kind: type[Structure]) -> None:
    assert list(kind._fields_) == c_structures()[c_name(kind)]


def test_every_structure_that_a_function_takes_has_a_class() -> None:
    function = re.compile(r"^(?:TILES )?\s*void \w.*\(const struct (\w+) \*\w+\)", re.M)
    taken = set()
    for path in SOURCE.parent.glob("kernels*.[ch]"):
        taken.update(function.findall(path.read_text()))
    classes = {c_name(kind) for kind in CLASSES}
    assert taken == classes - {c_name(kind) for kind in NESTED}


def test_missing_and_unknown_fields_are_errors() -> None:
    with pytest.raises(TypeError, match=r"^Values: .*missing or unknown: values$"):
        Values(n=1, dim=1)
    with pytest.raises(TypeError, match=r"missing or unknown: more$"):
        Values(n=1, dim=1, values=None, more=2)
    with pytest.raises(TypeError):
        Values(1, 1, None)  # type: ignore[call-arg]


def test_values_of_wrong_types_are_errors() -> None:
    with pytest.raises(TypeError):
        Values(n=1.5, dim=1, values=None)
    with pytest.raises(TypeError):
        Values(n=1, dim=1, values=torch.zeros(1))


def test_addresses_are_of_contiguous_tensors_of_a_type() -> None:
    values = torch.zeros(2, 3)
    assert address(values, torch.float32) == values.data_ptr()
    assert address(None, torch.float32) is None
    with pytest.raises(ValueError, match=r"torch\.float64, found torch\.float32, str"):
        address(values, torch.float64)
    with pytest.raises(ValueError, match=r"found torch\.float32, strides \(1, 3\)$"):
        address(values.t(), torch.float32)
