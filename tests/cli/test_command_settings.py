"""Settings of commands: no option that a user can give is ignored."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from elmo_cli.cli.command_list import COMMANDS, find_command
from elmo_cli.cli.parameter_types import OutputPath
from elmo_cli.options.fields import option_fields
from tests.support.settings import ALL_SETTINGS


def parameters_of(command: str) -> set[str]:
    """Return the names of the values that a command passes to its function."""
    parameters = find_command(command).params
    return {str(each.name) for each in parameters if each.expose_value}


def arguments_of(function: Any) -> set[str]:
    """Return the names of the arguments of a function, without its `values`."""
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def names_in_values(function: Any) -> Iterator[str]:
    """Yield the names that the function of a command looks up in its `values`.

    These are the fields of the settings that it fills, and the names in
    `values["layers"]` and the like.
    """
    names_in_module = vars(sys.modules[function.__module__])
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield str(node.slice.value)
        if not isinstance(node, ast.Call):
            continue
        if ast.unparse(node.func) in ("settings_from", "option_fields"):
            kind = names_in_module[ast.unparse(node.args[0])]
            yield from (field.name for field in fields(kind))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_uses_each_of_its_parameters(command: str) -> None:
    callback = find_command(command).callback
    assert callback is not None
    function = inspect.unwrap(callback)
    arguments = arguments_of(function)
    in_values = set(names_in_values(function))
    # --json of commands that print rows is another spelling of a format.
    assert parameters_of(command) - {"as_json"} <= arguments | in_values
    # An argument is not in `values`, so settings would keep their default.
    assert not arguments & in_values


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_has_the_type_that_protects_the_inputs(command: str) -> None:
    for parameter in find_command(command).params:
        if (parameter.metavar or "").endswith("OUTPUT"):
            assert isinstance(parameter.type, OutputPath)


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_each_declared_option_is_a_parameter_of_a_command(settings: Any) -> None:
    parameters = set().union(*(parameters_of(command) for command in COMMANDS))
    assert set(option_fields(settings)) <= parameters
