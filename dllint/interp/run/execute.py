"""Execution of statements: assignments, branches, loops, context managers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dllint.choices import Choice, alternatives
from dllint.events import ParametersUpdated
from dllint.interp.run import assignment, containers, contexts, graph, last_turns, names, unrolling
from dllint.interp.run.classes import make_class, make_function
from dllint.interp.run.conditions import guards_under, sides, test_guards, truth
from dllint.interp.run.guards import consistent, guards_of
from dllint.interp.run.joining import CallError
from dllint.interp.run.missing_names import missing_import
from dllint.interp.run.operators import combine
from dllint.interp.source.bindings import assigned_in
from dllint.sites import Guard, Guards, Site
from dllint.structure import Block, Loop
from dllint.values import Absent, Arguments, Const, Function, Instance, Items, Scope, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


def execute_block(machine: Machine, statements: Sequence[ast.stmt], scope: Scope) -> str | None:
    """Execute statements in order. Returns how control leaves (``return``, ``break``, ``raise``, …), or ``None``.

    Behind an ``if`` of which one side left, the condition of the other side holds for the rest of the block, and of
    what the block wrote, for those who join it with other arms.
    """
    depth = len(machine.path)
    left: str | None = None
    for statement in statements:
        if not machine.tick():
            break
        left = execute(machine, statement, scope)
        if left is not None:
            break
    machine.held = tuple(machine.path[depth:])
    del machine.path[depth:]
    return left


def execute(machine: Machine, statement: ast.stmt, scope: Scope) -> str | None:
    """Execute one statement. A call in it that cannot be made ends it, as ``raise`` does."""
    handler = _HANDLERS.get(type(statement))
    if handler is None:
        return None
    depth, grad, contexts = len(machine.path), machine.grad, machine.contexts
    try:
        return handler(machine, statement, scope)
    except CallError as error:
        del machine.path[depth:]
        machine.grad, machine.contexts = grad, contexts
        return machine.refused(error)


# ---------------------------------------------------------------------------------------------------- assignment


def _expression(machine: Machine, node: ast.Expr, scope: Scope) -> str | None:
    value = machine.evaluate(node.value, scope)
    if isinstance(value, Symbol) and value.name in _EXITS:
        return machine.leave("raise", Site(scope.module, node))
    return None


_EXITS = frozenset(("sys.exit", "exit", "quit", "os._exit"))


def _assign(machine: Machine, node: ast.Assign, scope: Scope) -> str | None:
    value = machine.evaluate(node.value, scope)
    if isinstance(value, Const) and value.value is ...:  # `loss = ...` holds the place of what a reader is to write
        value = Symbol("unknown", site=value.site)
    for target in node.targets:
        assignment.assign(machine, target, value, scope)
    return None


def _annotated(machine: Machine, node: ast.AnnAssign, scope: Scope) -> str | None:
    if node.value is not None:
        assignment.assign(machine, node.target, machine.evaluate(node.value, scope), scope)
    return None


def _augmented(machine: Machine, node: ast.AugAssign, scope: Scope) -> str | None:
    target = node.target
    current = machine.evaluate(target, scope)
    operand = machine.evaluate(node.value, scope)
    site = Site(scope.module, node)
    if isinstance(current, Items) and isinstance(node.op, ast.Add):
        containers.call_method(machine, current, "extend", Arguments((operand,)), site)
        return None
    if isinstance(node.op, ast.Add | ast.Sub) and graph.mentions_attribute(operand, "grad"):
        machine.emit(ParametersUpdated(site, current))
    assignment.assign(machine, target, combine(machine, node.op, current, operand, site), scope)
    return None


def _delete(machine: Machine, node: ast.Delete, scope: Scope) -> str | None:
    for target in node.targets:
        if isinstance(target, ast.Name) and target.id in scope.variables:
            machine.write(scope.variables, target.id, Symbol("unknown", detail=target.id))
        elif isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
            index = machine.evaluate(target.slice, scope)
            containers.delete_item(machine, machine.evaluate(target.value, scope), index)
    return None


# ------------------------------------------------------------------------------------------------------ branches


def _if(machine: Machine, node: ast.If, scope: Scope) -> str | None:
    value = machine.evaluate(node.test, scope)
    known = truth(machine, value)
    if known is None:
        of_sides = sides(machine, node.test, value)
        known = _settled_by_path(machine, of_sides)
    if known is not None:
        depth = len(machine.path)
        if isinstance(value, Symbol):  # the training path is taken, and what happens there happens in training only
            machine.path.extend(guards_under(machine, node.test, known, value))
        left = execute_block(machine, node.body if known else node.orelse, scope)
        del machine.path[depth:]
        return left
    positive, negative = test_guards(machine, of_sides, value)
    arms = [(positive, _block(machine, node.body, scope)), (negative, _block(machine, node.orelse, scope))]
    lefts = [left for left, _, _ in machine.branch(Site(scope.module, node), arms)]
    if None not in lefts:
        return lefts[0] if lefts[0] == lefts[1] else "mixed"
    if lefts[0] is not None:
        machine.path.extend(negative)
    elif lefts[1] is not None:
        machine.path.extend(positive)
    return None


def _settled_by_path(machine: Machine, of_sides: tuple[Guards, Guards]) -> bool | None:
    """The outcome of a test, given by the conditions on its two sides, that the conditions in force already decide."""
    if not machine.path:
        return None
    holding, failing = of_sides
    if not consistent(holding, machine.path):
        return False
    if not consistent(failing, machine.path):
        return True
    return None


def _block(machine: Machine, statements: Sequence[ast.stmt], scope: Scope) -> Callable[[], tuple[str | None, None]]:
    return lambda: (execute_block(machine, statements, scope), None)


def _try(machine: Machine, node: Any, scope: Scope) -> str | None:
    """The body happens; then either no handler or one of them. What the handlers bind is an alternative.

    Where the body certainly raises, one of the handlers is taken; else none is, by default.
    """
    activation = machine.activation
    before = len(activation.returned) if activation is not None else 0
    left = execute_block(machine, node.body, scope)
    if left is None and node.orelse:
        left = execute_block(machine, node.orelse, scope)
    if node.handlers:
        body, handlers = _ways_through(node, scope)
        arms = [
            (guards, _block(machine, each.body, scope)) for guards, each in zip(handlers, node.handlers, strict=True)
        ]
        if left == "raise":
            machine.catch()
        else:
            arms.insert(0, (body, lambda: (left, None)))
        returned = activation.returned[before:] if activation is not None else []
        lefts = [outcome[0] for outcome in machine.branch(Site(scope.module, node), arms)]
        if activation is not None and any(handled != "raise" for handled in lefts[-len(handlers) :]):
            activation.returned[before : before + len(returned)] = [(more + body, value) for more, value in returned]
        left = None if None in lefts else (lefts[0] if len(set(lefts)) == 1 else "mixed")
    final = execute_block(machine, node.finalbody, scope) if node.finalbody else None
    return final or left


def _ways_through(node: Any, scope: Scope) -> tuple[Guards, list[Guards]]:
    """The conditions under which no handler of a ``try`` is taken, and those under which each of them is."""
    line = f"line {node.lineno} of {scope.module.path}"
    is_raised = Guard(f"an exception in {line}", "truthy", None, True, by_default=False)
    if len(node.handlers) == 1:
        return (is_raised.negated(),), [(is_raised,)]
    which = [Guard(f"the exception in {line}", "==", index, True) for index in range(len(node.handlers))]
    return (is_raised.negated(),), [(is_raised, each) for each in which]


def _match(machine: Machine, node: ast.Match, scope: Scope) -> str | None:
    machine.evaluate(node.subject, scope)
    arms: list[tuple[Guards, Any]] = []
    for case in node.cases:
        test: ast.expr | None = None
        if isinstance(case.pattern, ast.MatchValue):
            test = ast.Compare(node.subject, [ast.Eq()], [case.pattern.value])
        guards = guards_of(ast.copy_location(test, node.subject), True, machine.scope_of(node.subject)) if test else ()
        arms.append((guards, _block(machine, case.body, scope)))
    if not any(isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None for case in node.cases):
        arms.append(((), lambda: (None, None)))
    lefts = [outcome[0] for outcome in machine.branch(Site(scope.module, node), arms)]
    return None if None in lefts else "mixed"


# --------------------------------------------------------------------------------------------------------- loops


def _for(machine: Machine, node: ast.For | ast.AsyncFor, scope: Scope) -> str | None:
    iterable = machine.evaluate(node.iter, scope)
    if isinstance(iterable, Choice):
        iterable = names.under_path(machine, iterable)
    if unrolling.is_over_nothing(machine, node, scope):
        return execute_block(machine, node.orelse, scope)
    few = unrolling.few_things(machine, node, iterable, scope)
    if few is not None:
        return _unrolled(machine, node, few, scope)
    site = Site(scope.module, node)
    element = containers.element_of(machine, iterable, Site(scope.module, node.iter))
    targets = assigned_in(node)
    _widen(machine, targets, scope)
    loop = Loop("for", site, iterable, element, Block(), machine.frame, targets)
    with machine.looping(loop):
        assignment.assign(machine, node.target, element, scope)
        left = execute_block(machine, node.body, scope)
    last_turns.keep_last(machine, node, targets, scope)
    if node.orelse:
        execute_block(machine, node.orelse, scope)
    return "raise" if left == "raise" else None


def _unrolled(machine: Machine, node: ast.For | ast.AsyncFor, iterable: Items, scope: Scope) -> str | None:
    """A loop over a few known things is that many iterations, one after the other."""
    for item in iterable.items:
        present = [option for option in alternatives(item) if not isinstance(option[1], Absent)]
        if not present:
            continue
        only = present[0] if len(present) == 1 else None
        loop = Loop("once", Site(scope.module, node), iterable, item, Block(), machine.frame)
        depth = machine.loop_depth
        with machine.looping(loop):
            machine.loop_depth = depth  # the number of iterations is known, so lists stay exact
            with machine.assuming(only[0] if only is not None else ()):  # the element may be there under a condition
                assignment.assign(machine, node.target, item if only is None else only[1], scope)
                left = execute_block(machine, node.body, scope)
            machine.loop_depth = depth + 1
        if left in ("return", "raise"):
            return left
        if left == "break":
            return None
    return None


def _while(machine: Machine, node: ast.While, scope: Scope) -> str | None:
    targets = assigned_in(node)
    _widen(machine, targets, scope)
    loop = Loop("while", Site(scope.module, node), None, None, Block(), machine.frame, targets)
    with machine.looping(loop):
        value = machine.evaluate(node.test, scope)
        if truth(machine, value) is False:
            return None
        left = execute_block(machine, node.body, scope)
    if node.orelse:
        execute_block(machine, node.orelse, scope)
    return "raise" if left == "raise" else None


def _widen(machine: Machine, targets: frozenset[str], scope: Scope) -> None:
    """Forget the constants that a loop changes: in its second iteration they are others."""
    for name in targets:
        variable, _, attribute = name.partition(".")
        holder: dict[Any, Any] | None = scope.variables
        if attribute:
            base = scope.variables.get(variable)
            holder = base.attributes if isinstance(base, Instance) else None
        key = attribute or variable
        value = holder.get(key) if holder is not None else None
        if holder is not None and isinstance(value, Const):
            machine.write(holder, key, Symbol("unknown", (value,), value.site, detail=key))


# -------------------------------------------------------------------------------------------- everything else


def _with(machine: Machine, node: ast.With | ast.AsyncWith, scope: Scope) -> str | None:
    saved = (machine.grad, machine.contexts)
    entered: list[tuple[Value, Site]] = []
    goes_on = False
    for item in node.items:
        before = machine.grad
        manager = machine.evaluate(item.context_expr, scope)
        machine.grad = before
        place = Site(scope.module, item.context_expr)
        goes_on = goes_on or contexts.may_go_on(manager)
        contexts.enter(machine, manager, place)
        given = contexts.call_enter(machine, manager, place)
        if given is not None:
            entered.append((manager, place))
        if item.optional_vars is not None:
            assignment.assign(machine, item.optional_vars, manager if given is None else given, scope)
    left = execute_block(machine, node.body, scope)
    if not entered and not goes_on:
        machine.path.extend(machine.held)  # what holds after an ``if`` in the block holds after the block, too
    for manager, place in reversed(entered):
        contexts.call_exit(machine, manager, place)
    machine.grad, machine.contexts = saved
    return left


def _return(machine: Machine, node: ast.Return, scope: Scope) -> str | None:
    value = machine.evaluate(node.value, scope) if node.value is not None else Const(None)
    activation = machine.activation
    if activation is not None:
        activation.returned.append((tuple(machine.path[activation.path_start :]), value))
    return machine.leave("return", Site(scope.module, node))


def _raise(machine: Machine, node: ast.Raise, scope: Scope) -> str | None:
    return machine.leave("raise", Site(scope.module, node))


def _break(machine: Machine, node: ast.Break, scope: Scope) -> str | None:
    return machine.leave("break", Site(scope.module, node))


def _continue(machine: Machine, node: ast.Continue, scope: Scope) -> str | None:
    return machine.leave("continue", Site(scope.module, node))


def _function(machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> str | None:
    known = names.declared(machine, scope.module, node.name) if scope.parent is None else None
    function = known or make_function(machine, node, scope)
    if machine.activation is not None and machine.block is not None and isinstance(function, Function):
        machine.nested.append(function)
    machine.write(scope.variables, node.name, function)
    return None


def _class(machine: Machine, node: ast.ClassDef, scope: Scope) -> str | None:
    known = names.declared(machine, scope.module, node.name) if scope.parent is None else None
    machine.write(scope.variables, node.name, known or make_class(machine, node, scope))
    return None


def _import(machine: Machine, node: ast.Import | ast.ImportFrom, scope: Scope) -> str | None:
    names.bind_import(machine, node, scope, only=scope.wanted)
    if isinstance(node, ast.ImportFrom) and (missing := missing_import(machine, node, scope.module)) is not None:
        raise CallError(machine.emit(missing).site)
    return None


def _global(machine: Machine, node: ast.Global, scope: Scope) -> str | None:
    scope.global_names |= frozenset(node.names)
    return None


def _nonlocal(machine: Machine, node: ast.Nonlocal, scope: Scope) -> str | None:
    scope.nonlocal_names |= frozenset(node.names)
    return None


def _assert(machine: Machine, node: ast.Assert, scope: Scope) -> str | None:
    """What a caller leaves out, and the function needs, ends here. What nobody calls is taken to get what it needs."""
    value = machine.evaluate(node.test, scope)
    is_refused = isinstance(value, Const) and not value.value and machine.frame.caller is not None
    if not is_refused:
        names.take_for_granted(machine, node.test, scope)
    return machine.leave("raise", Site(scope.module, node)) if is_refused else None


_HANDLERS: dict[type[ast.stmt], Callable[[Machine, Any, Scope], str | None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Delete: _delete,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.Assert: _assert,
}
if hasattr(ast, "TryStar"):
    _HANDLERS[ast.TryStar] = _try
