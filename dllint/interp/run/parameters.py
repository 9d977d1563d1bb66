"""Binding the arguments of a call to the parameters of a project function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import alternatives, present
from dllint.interp.run import command_options
from dllint.sites import Site
from dllint.values import (
    Absent,
    Arguments,
    Const,
    External,
    Function,
    Instance,
    Items,
    Scope,
    Setting,
    Symbol,
    Table,
    Value,
)

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


def bind_parameters(machine: Machine, function: Function, arguments: Arguments, receiver: Value | None = None) -> Scope:
    """The scope of a call: each parameter with its argument, its default, or a symbol when neither is known."""
    scope = Scope(function.module, function.scope, function)
    machine.made(scope.variables)
    parameters = function.node.args
    positional = [*parameters.posonlyargs, *parameters.args]
    given = list(arguments.positional)
    if receiver is not None:
        given.insert(0, receiver)
    keywords = dict(arguments.keywords)
    first_default = len(positional) - len(parameters.defaults)
    for index, parameter in enumerate(positional):
        default = parameters.defaults[index - first_default] if index >= first_default else None
        if index < len(given):
            value = given[index]
        elif parameter.arg in keywords:
            value = _given(machine, function, parameter, default, keywords.pop(parameter.arg))
        else:
            value = _missing(machine, function, parameter, default, arguments.exact)
        scope.variables[parameter.arg] = value
    for parameter, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        if parameter.arg in keywords:
            value = _given(machine, function, parameter, default, keywords.pop(parameter.arg))
            scope.variables[parameter.arg] = value
        else:
            scope.variables[parameter.arg] = _missing(machine, function, parameter, default, arguments.exact)
    if parameters.vararg is not None:
        rest = given[len(positional) :]
        scope.variables[parameters.vararg.arg] = Items("tuple", rest, exact=arguments.exact)
    if parameters.kwarg is not None:
        scope.variables[parameters.kwarg.arg] = Table(keywords, exact=arguments.exact)
    return scope


def _given(machine: Machine, function: Function, parameter: ast.arg, default: ast.expr | None, value: Value) -> Value:
    """The value of a keyword argument; where ``**keywords`` may lack it, the default stands in."""
    if not any(isinstance(option, Absent) for _, option in alternatives(value)):
        return value
    return present(value, _missing(machine, function, parameter, default, exact=True))


def _missing(machine: Machine, function: Function, parameter: ast.arg, default: ast.expr | None, exact: bool) -> Value:
    """The value of a parameter that was not given: its default, which is only a setting if others may be passed."""
    if default is None:
        option = command_options.decorated(machine, function, parameter.arg)
        return option if option is not None else unknown_parameter(machine, function, parameter)
    with machine.aside():
        value = machine.evaluate(default, function.scope)
    if command_options.is_declaration(value):
        return command_options.declared(parameter.arg, value)
    if exact:
        return value
    if isinstance(value, Const) and value.value is None:
        return unknown_parameter(machine, function, parameter)
    return Setting(parameter.arg, value, value.site)


def unknown_parameter(machine: Machine, function: Function, parameter: ast.arg) -> Value:
    """A parameter about which nothing is known but its name and its annotation."""
    annotation = parameter.annotation
    if isinstance(annotation, ast.Name | ast.Attribute):
        with machine.aside():
            declared = machine.evaluate(annotation, function.scope)
        if isinstance(declared, External) and machine.facts.role(declared.name) in (
            "optimizer",
            "scheduler",
            "scaler",
            "loader",
        ):
            instance = Instance(declared.name, Arguments(exact=False), Site(function.module, parameter))
            instance.hint = parameter.arg
            return instance
    symbol = Symbol("parameter", (), Site(function.module, parameter), detail=parameter.arg)
    symbol.hint = parameter.arg
    return symbol
