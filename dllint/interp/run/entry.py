"""The programs of a module: the module run as a script, and every function and class that this does not reach."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from dllint.interp.run.classes import execute_attributes, find_member, framework_of
from dllint.interp.run.drivers import Method, inherited_drivers, outer_methods_first
from dllint.interp.run.failures import failure_of
from dllint.interp.run.instances import instantiate
from dllint.interp.run.names import module_attribute
from dllint.interp.run.updates import repeated
from dllint.interp.source.trees import walk as walk_tree
from dllint.sites import Site
from dllint.structure import Block, Program, walk
from dllint.values import Arguments, Class, Function, Instance

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.sieve.relevance import Concerned
    from dllint.interp.source.module import SourceModule

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
Visit = Callable[[Program, "Concerned | None"], None]


def interpret(machine: Machine, visit: Visit) -> None:
    """Interpret all programs of the machine's module, calling ``visit`` with each while its state is alive.

    Where the machine knows what is relevant, definitions in which no rule could fire are left out, and ``visit`` is
    told which rules could.
    """
    module = machine.main
    body = Block()
    machine.as_script = True
    with machine.recording(body):
        left = machine.execute_block(module.tree.body, machine.module_scope(module))
        if left == "raise" and not module.source.has_cells:
            machine.failed_at = failure_of(body)
    machine.as_script = False
    visit(Program("module", module.name, module, body, machine.truncated or module.is_incomplete), None)
    machine.keep_modes(event for event in walk(body) if not event.frame.function)
    _interpret_nested(machine, visit)
    for definition in _callers_first(module):
        relevance = machine.relevance
        concerned = relevance.to_definition(definition, machine.reached) if relevance is not None else None
        if concerned is not None and not concerned:
            continue
        if isinstance(definition, ast.ClassDef):
            _interpret_class(machine, definition, concerned, visit)
        elif definition not in machine.reached:
            _interpret_function(machine, definition, concerned, visit)


def _callers_first(module: SourceModule) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The top-level definitions, those that no other one mentions first.

    A function is then seen with what its callers in the file pass before it would be interpreted on its own.
    """
    definitions = list(_definitions(module.tree.body))
    names = {node.name for node in definitions}
    mentioned: set[str] = set()
    for node in definitions:
        found = (names & module.words_in(node)) - mentioned - {node.name}
        if found:  # as a word, but perhaps only in a comment or behind a dot, like ``model.train()``
            mentioned.update(found.intersection(part.id for part in walk_tree(node) if isinstance(part, ast.Name)))
    return sorted(definitions, key=lambda node: node.name in mentioned)


def _definitions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement
        elif isinstance(statement, ast.If | ast.Try):
            yield from _definitions([*statement.body, *statement.orelse])


def _interpret_function(
    machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, concerned: Concerned | None, visit: Visit
) -> None:
    function = module_attribute(machine, machine.main, node.name)
    if not isinstance(function, Function) or function.node is not node:
        return
    body = Block()

    def run() -> None:
        with machine.recording(body):
            machine.invoke(function, Arguments(exact=False), Site(machine.main, node))
        alone = Site(machine.main, node)
        visit(Program("function", node.name, machine.main, body, machine.truncated, alone), concerned)
        _interpret_nested(machine, visit)

    machine.renew_budget()
    machine.grad = "on"
    machine.run_arm((), run)


def _interpret_nested(machine: Machine, visit: Visit) -> None:
    """Interpret the functions that were defined within others and handed on: callbacks, whose caller is not seen.

    They are seen with the variables around them as these are at the end.
    """
    nested, machine.nested = machine.nested, []
    for function in nested:
        node = function.node
        if node in machine.reached or function.module is not machine.main or not isinstance(node, _FUNCTION):
            continue
        concerned = machine.relevance.to_nested(node) if machine.relevance is not None else None
        if concerned is None or concerned:
            machine.renew_budget()
            machine.run_arm((), partial(_run_nested, machine, function, node, concerned, visit))


def _run_nested(
    machine: Machine,
    function: Function,
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    concerned: Concerned | None,
    visit: Visit,
) -> None:
    body = Block()
    with machine.recording(body):
        machine.invoke(function, Arguments(exact=False), Site(machine.main, node))
    visit(Program("function", node.name, machine.main, body, machine.truncated, Site(machine.main, node)), concerned)
    _interpret_nested(machine, visit)


def _interpret_class(machine: Machine, node: ast.ClassDef, concerned: Concerned | None, visit: Visit) -> None:
    methods = [item for item in node.body if isinstance(item, _FUNCTION) and item.name != "__init__"]
    if node in machine.reached or (methods and all(method in machine.reached for method in methods)):
        return
    cls = module_attribute(machine, machine.main, node.name)
    if not isinstance(cls, Class) or cls.node is not node:
        return

    def run() -> None:
        start = Block()
        instance: Instance | None = None
        with machine.recording(start):
            execute_attributes(machine, cls)
            instance = instantiate(machine, cls, Arguments(exact=False), Site(machine.main, node))
        visited = False
        drivers = inherited_drivers(machine, cls, methods)
        for method in outer_methods_first(machine.main, methods, drivers) if instance is not None else ():
            reaching = [each for each in methods if each.name in drivers[method]] if method in drivers else [method]
            if all(each in machine.reached for each in reaching):
                continue
            together = _called_together(machine, cls, method)
            wanted = _rules_for(machine, node, together, method in drivers)
            if wanted is None or wanted:
                visited = True
                machine.renew_budget()
                visit_method = partial(_run_methods, machine, instance, method, together, start, wanted, visit)
                machine.run_arm((), visit_method)
        if not visited:  # what the constructor does is part of what each method is seen with
            alone = Site(machine.main, node)
            visit(Program("class", cls.name, machine.main, start, machine.truncated, alone), concerned)

    machine.renew_budget()
    machine.grad = "on"
    machine.run_arm((), run)


def _called_together(machine: Machine, cls: Class, method: Method) -> list[Function]:
    """A method, with that by which Lightning goes on from it, or which it calls before: in the order of the calls."""
    together = _CALLED_IN_TURN.get(framework_of(machine, cls), ())
    names = together if method.name in together else (method.name,)
    return [each for name in names if isinstance(each := find_member(machine, cls, name), Function)]


def _rules_for(machine: Machine, cls: ast.ClassDef, methods: list[Function], is_inherited: bool) -> Concerned | None:
    relevance = machine.relevance
    if relevance is None:
        return None
    own = [method.node for method in methods if method.node in cls.body]
    if is_inherited or len(own) < len(methods):
        return relevance.to_inherited(cls)
    return frozenset[int]().union(*(relevance.to_method(cls, method) for method in own))


def _run_methods(
    machine: Machine,
    instance: Instance,
    node: Method,
    methods: list[Function],
    start: Block,
    concerned: Concerned | None,
    visit: Visit,
) -> None:
    """Run methods of an object one after the other, and show that as one program: that of the method ``node``."""
    cls = instance.cls
    assert isinstance(cls, Class)
    function = next((each for each in methods if each.node is node), None)
    if function is None:
        return
    body = Block()
    with machine.recording(body):
        for each in methods:
            receiver = None if each.kind == "static" else cls if each.kind == "class" else instance
            machine.invoke(each, Arguments(exact=False), Site(each.module, each.node), receiver=receiver)
    alone = None if _is_called_by_library(machine, cls, function) else Site(machine.main, node)
    whole = Block([start, body if alone is None else repeated(instance, node, start, body)])
    visit(Program("class", f"{cls.name}.{node.name}", machine.main, whole, machine.truncated, alone), concerned)
    _interpret_nested(machine, visit)


def _is_called_by_library(machine: Machine, cls: Class, method: Function) -> bool:
    """Whether a framework or a library calls a method of a class that derives from one of its own."""
    if framework_of(machine, cls):
        return method.kind != "static"
    return bool(cls.library_bases) and method.name in _CALLED_BY_LIBRARIES


_CALLED_IN_TURN: dict[str, tuple[str, ...]] = {  # by Lightning, in this order
    "lightning": ("configure_optimizers", "training_step"),
    "lightning-data": (
        "prepare_data",
        "setup",
        "train_dataloader",
        "val_dataloader",
        "test_dataloader",
        "predict_dataloader",
    ),
}
_CALLED_BY_LIBRARIES = frozenset(("forward", "__getitem__", "__getitems__", "__iter__", "__next__", "__len__"))
