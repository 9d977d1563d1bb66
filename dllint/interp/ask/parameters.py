"""All parameters of a module, however a program spells them: in a list, as values of a dict, without frozen ones."""

from __future__ import annotations

import ast

from dllint.choices import Choice
from dllint.forms import element_of
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site
from dllint.values import Absent, Items, Symbol, Table, Value

_COLLECTED = frozenset(("list", "tuple", "set", "iter", "dict", ".values", ".items", "filter"))
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def all_parameters(value: Value | None) -> Symbol | None:
    """The ``parameters()`` or ``named_parameters()`` of which a value has all, but perhaps for frozen ones."""
    if isinstance(value, Items | Table):
        held = value.items if isinstance(value, Items) else tuple(value.contents.values())
        is_whole = len(held) == 1 and value.site is not None and _takes_all(value.site)
        return _gone_over(held[0]) if is_whole else None
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    if value.name in ("parameters", "named_parameters"):
        return value
    if value.name == "filter" and (value.site is None or not _asks_for_gradients(value.site.node)):
        return None
    return all_parameters(value.inputs[0]) if value.name in _COLLECTED else None


def trained_parameters(value: Value | None) -> Symbol | None:
    """The parameters of a module of which a value has those that are trained where it is made, and no frozen ones."""
    if isinstance(value, Symbol) and value.name in _COLLECTED and value.name != "filter" and value.inputs:
        return trained_parameters(value.inputs[0])
    if isinstance(value, Symbol):
        return all_parameters(value) if value.name == "filter" else None
    held = value.items[0] if isinstance(value, Items) and len(value.items) == 1 else None
    if isinstance(held, Choice):
        return _appended(held)
    made = value.site.node if value is not None and value.site is not None else None
    is_asked = isinstance(made, _COMPREHENSIONS) and any(each.ifs for each in made.generators)
    return all_parameters(value) if is_asked else None


def _appended(item: Choice) -> Symbol | None:
    """The parameters of which a loop appends those that are trained: ``if p.requires_grad: params.append(p)``."""
    kept = [(guards, option) for guards, option in item.options if not isinstance(option, Absent)]
    if len(kept) != 1 or len(kept) == len(item.options):
        return None
    ((guards, option),) = kept
    is_asked = all(isinstance(each.node, ast.expr) and _is_of_gradients(each.node) and each.holds for each in guards)
    return _gone_over(option) if guards and is_asked else None


def _gone_over(element: Value) -> Symbol | None:
    """The parameters of which a value is any one, by itself or beside its name."""
    is_beside_name = isinstance(element, Symbol) and element.name == "item" and element.detail == 1
    return all_parameters(element_of(element.inputs[0] if is_beside_name and isinstance(element, Symbol) else element))


def _takes_all(site: Site) -> bool:
    """Whether a comprehension leaves out frozen parameters at the most, and so do those that made what it goes over."""
    definition = enclosing_definition(site) or site.module.tree
    pending, seen = [site.node], set[ast.AST]()
    for node in pending:  # which grows meanwhile
        if node in seen:
            continue
        seen.add(node)
        if not isinstance(node, _COMPREHENSIONS) or len(node.generators) != 1:
            return False
        if not all(map(_is_of_gradients, node.generators[0].ifs)):
            return False
        names = {part.id for part in ast.walk(node.generators[0].iter) if isinstance(part, ast.Name)}
        pending.extend(
            made.value
            for made in ast.walk(definition)
            if isinstance(made, ast.Assign)
            and isinstance(made.value, _COMPREHENSIONS)
            and any(isinstance(target, ast.Name) and target.id in names for target in made.targets)
        )
    return True


def _asks_for_gradients(call: ast.AST) -> bool:
    """Whether a ``filter`` asks for nothing but ``requires_grad``."""
    test = call.args[0] if isinstance(call, ast.Call) and call.args else None
    return isinstance(test, ast.Lambda) and _is_of_gradients(test.body)


def _is_of_gradients(test: ast.expr) -> bool:
    return isinstance(test, ast.Attribute) and test.attr == "requires_grad"
