"""Which tests in functions that a loop calls are about something else in each of its turns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.events import Event, Frame
from dllint.interp.run.guards import names_in
from dllint.interp.source.bindings import targets_in
from dllint.sites import Guard
from dllint.structure import Block, Branch, Invocation, Loop, Node

Renewed = frozenset[tuple[str, str]]
"""Variables, and attributes of ``self``, by the function that they are of."""


def renewed_in(loop: Loop) -> Renewed:
    """What gets another value in each turn of a loop, in it and in the functions that it calls.

    That is what they assign, and parameters that are given such a thing.
    """
    found = {(loop.frame.scope, name) for name in loop.targets}
    pending: list[Node] = [loop.body]
    for node in pending:  # which grows meanwhile; who calls comes before what is called
        if isinstance(node, Invocation):
            found.update((node.frame.scope, name) for name in _assigned_by(node.frame))
            found.update((node.frame.scope, name) for name in _given_new(node.frame, found))
        pending.extend(_below(node))
    return frozenset(found)


def is_renewed(guard: Guard, renewed: Renewed) -> bool:
    """Whether a condition is about one of these in a function: a comparison by size, or what a call says of it.

    A flag that a function reads from somewhere, and each call in the same way, stays what it is. What is called is of
    no function, whichever asks (`is_better(loss)`): there the names count.
    """
    scope, found, _ = guard.subject.partition(":")
    is_called = isinstance(guard.node, ast.Call)
    if not is_called and guard.relation not in ("<", ">"):
        return False
    if found:
        return any((scope, name) in renewed for name in guard.names)
    return is_called and any(name in guard.names for _, name in renewed)


def _below(node: Node) -> list[Node]:
    if isinstance(node, Block):
        return [each for each in node.items if not isinstance(each, Event)]
    if isinstance(node, Branch):
        return [arm.body for arm in node.arms]
    return [node.body] if isinstance(node, Loop | Invocation) else []


def _assigned_by(frame: Frame) -> Iterator[str]:
    function = frame.definition.node if frame.definition is not None else None
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        for target in targets_in(function.body):
            if isinstance(target, ast.Name):
                yield target.id
            elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                yield f"{target.value.id}.{target.attr}"


def _given_new(frame: Frame, renewed: set[tuple[str, str]]) -> Iterator[str]:
    """The parameters of a function whose arguments name what is renewed where it is called."""
    function = frame.definition.node if frame.definition is not None else None
    call = frame.call.node if frame.call is not None else None
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or not isinstance(call, ast.Call):
        return
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    parameters = parameters[1:] if frame.receiver is not None else parameters
    given = [*zip(parameters, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
    scope = frame.caller.scope if frame.caller is not None else ""
    for name, argument in given:
        if name is not None and any((scope, each) in renewed for each in names_in(argument)):
            yield name
