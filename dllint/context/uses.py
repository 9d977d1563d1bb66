"""What becomes of values: whether anybody reads them, and whether gradients are computed from them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from dllint.assumptions import Assumption, Assumptions
from dllint.choices import alternatives
from dllint.context.base import ProgramView
from dllint.dataclass import dataclass
from dllint.events import Backward, SchedulerStep
from dllint.interp.run import graph
from dllint.interp.source.effects import Effects
from dllint.interp.source.fitted_joined import transformed_after_joining
from dllint.interp.source.fitted_whole import transformed_after
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition, statement_around
from dllint.interp.source.sliced import cut_after
from dllint.interp.source.trees import walk
from dllint.sites import Site
from dllint.values import Symbol, Value

_MAX_HOPS = 3  # from a variable to the next that is computed from it
_MAX_SOURCES = 2000


@dataclass(frozen=True, slots=True)
class Kept:
    """A place where a value is added to something, or appended to it: ``total += loss``. ``target`` is what it is added
    to, as it is written; ``is_added`` tells the two apart."""

    target: str
    site: Site
    is_added: bool


class Uses(ProgramView):
    """The ways that values go."""

    def kept_in(self, value: Value) -> list[Kept]:
        """Where a value that is assigned to a variable is added to another, or appended to a list, as it is.

        Terms of it count (``total += loss * n``), and what is made of it by a call or an attribute does not
        (``loss.item()``, ``float(loss)``). What is one of several things is kept where one of them is.
        """
        found = (kept for _, option in alternatives(value) for kept in _keepings(option))
        return list({id(kept.site.node): kept for kept in found}.values())

    def kept_beside(self, event: Backward) -> list[Kept]:
        """Where what goes backward is kept as well, by the variable that it is called by there.

        A loss that a function of the project returns has been made in that function; where it is assigned, the call is.
        What is assigned after the backward pass, or detached in place, is another thing. A function that goes backward
        and returns the loss has it kept by who called it.
        """
        variable = _variable_sent(event)
        module: Any = event.site.module
        around = enclosing_definition(event.site) or module.tree
        found: dict[int, Kept] = {}
        in_place = (call.func for call in nodes_of(around).of(ast.Call) if isinstance(call.func, ast.Attribute))
        if any(each.attr == "detach_" and ast.unparse(each.value) == variable for each in in_place):
            return []
        last = getattr(event.site.node, "lineno", 0)
        for statement in nodes_of(around).of(ast.Assign) if variable else ():
            is_before = statement.lineno <= last and _variable_of(statement) == variable
            if is_before and isinstance(statement.value, ast.Call):
                found |= {id(kept.site.node): kept for kept in _keepings_of(Site(module, statement.value))}
        if variable and event.frame.call is not None and _returns_as_it_is(variable, around, event):
            by_caller = [_kept_at(event.frame.call), *_keepings_of(event.frame.call)]
            found |= {id(kept.site.node): kept for kept in by_caller if kept is not None}
        return list(found.values())

    def names_sent_backward(self, site: Site) -> frozenset[str]:
        """What the function around a place computes gradients of, and what that is computed from, as it is written."""
        module: Any = site.module
        around = enclosing_definition(site) or module.tree
        nodes = nodes_of(around)
        schedules = {event.site.node for event in self.all_of(SchedulerStep)}
        calls = [node for node in nodes.of(ast.Call) if _is_backward(node.func) and node not in schedules]
        found = {text for call in calls for text in _named_in(call)}
        bindings = nodes.of(ast.Assign, ast.AugAssign)
        for _ in range(_MAX_HOPS):
            for binding in bindings:
                targets = binding.targets if isinstance(binding, ast.Assign) else [binding.target]
                if any(ast.unparse(target) in found for target in targets):
                    found |= _named_in(binding.value)
        return frozenset(found)

    def goes_backward(self, value: Value) -> bool:
        """Whether some loss that is sent backward was computed from a value."""
        return id(value) in self._behind_losses

    @cached_property
    def _behind_losses(self) -> frozenset[int]:
        pending = [event.loss for event in self.all_of(Backward) if event.loss is not None]
        found: set[int] = set()
        for loss in pending:  # which grows meanwhile
            for source in graph.sources(loss, _MAX_SOURCES):
                returned = self._machine.forwards.get(source) if isinstance(source, Symbol) else None
                if returned is not None and id(returned) not in found:  # of a module that computes losses
                    pending.append(returned)
                found.add(id(source))
        return frozenset(found)

    def assumed_use(self, value: Value, what: str) -> Assumptions:
        """What a claim about a value assumes if nobody reads the value here: that somebody does."""
        return () if self.is_used(value) else (Assumption("effect", f"somebody reads {what}"),)

    def is_used(self, value: Value) -> bool:
        """Whether a value is ever read by anything: printed, returned, handed on, stored in an object, computed with.

        What is assigned to a variable that nobody reads, or only to compute another such variable, is not. In doubt,
        a value is used.
        """
        if self.goes_backward(value):
            return True
        return value.site is None or is_read(value.site)

    def parts_read(self, site: Site) -> tuple[bool, ...]:
        """Of each variable that a call is unpacked into, whether anything reads it: `train, test = split(samples)`.

        Empty where it is not unpacked into variables, and at the top of a file, from which others may import them.
        """
        statement = statement_around(site)
        if not isinstance(statement, ast.Assign) or statement.value is not site.node or len(statement.targets) > 1:
            return ()
        if enclosing_definition(site) is None and site.module.source.notebook is None:
            return ()
        targets = statement.targets[0].elts if isinstance(statement.targets[0], ast.Tuple | ast.List) else ()
        return tuple(not isinstance(each, ast.Name) or _is_variable_read(each.id, statement, site) for each in targets)

    def cut_after(self, site: Site) -> tuple[Site, Site] | None:
        """Where what is computed at a place is cut, later in its scope, into a part for training and one held out.

        By slices, or by rows that are drawn from a table; the names of the parts tell which is which, and the part that
        is held out is read.
        """
        cut = cut_after(site)
        return None if cut is None else (Site(site.module, cut.train), Site(site.module, cut.held_out))

    def transforms_parts(self, fit: Site, transformer: str) -> tuple[Site, Site] | None:
        """Where what is fitted on data transforms a part of them for training, and one that is held out.

        In the scope of the call, where it is fitted on nothing else. The parts are cut off, before or after it, by
        slices whose names tell which is which, or by `train_test_split`.

        Args:
            fit: a call of the method `fit`.
            transformer: the variable or attribute that has what is fitted, as it is written.
        """
        found = transformed_after(fit, transformer)
        return None if found is None else (Site(fit.module, found.train), Site(fit.module, found.held_out))

    def transforms_joined_parts(self, fit: Site, transformer: str) -> tuple[Site, Site] | None:
        """Where what is fitted on parts that are joined for it transforms the one for training, and one held out.

        `scaler.fit(np.concatenate((x_train, x_test)))`: the names of the parts tell which is which. Who has a test part
        besides may fit on the validation part.

        Args:
            fit: a call of the method `fit`.
            transformer: the variable or attribute that has what is fitted, as it is written.
        """
        found = transformed_after_joining(fit, transformer)
        return None if found is None else (Site(fit.module, found.train), Site(fit.module, found.held_out))

    def is_read_at(self, site: Site) -> bool:
        """Whether anything reads the value of the expression at a place; what is thrown away is not read."""
        return is_read(site)


def _keepings(value: Value) -> Iterator[Kept]:
    """Where a value is kept that is no choice."""
    return _keepings_of(value.site) if value.site is not None else iter(())


def _keepings_of(made_at: Site) -> Iterator[Kept]:
    """Where is kept what is made at a place."""
    statement = statement_around(made_at)
    variable = _variable_of(statement) if statement is not None else None
    if statement is None or variable is None:
        return
    made: Any = getattr(statement, "value", None)
    if made_at.node is not statement and not _is_term(made_at.node, made):
        return  # it may be one of several things, or go through something
    module: Any = made_at.module
    around = enclosing_definition(made_at) or module.tree
    places = (Site(module, node) for node in _reads_of(variable, statement, made_at))
    for place in places:
        kept = _kept_at(place) if not _is_rebound(variable, around, statement, place.line) else None
        if kept is not None:
            yield kept


def is_read(site: Site, hops: int = _MAX_HOPS) -> bool:
    """Whether the value of an expression is read by anything."""
    statement = statement_around(site)
    if statement is None or hops == 0:
        return True
    if isinstance(statement, ast.Expr):
        return statement.value is not site.node or _is_shown(statement, site)
    variable = _variable_of(statement)
    return variable is None or _is_variable_read(variable, statement, site, hops - 1)


def is_next_only_shown(item: Site, files: Sequence[SourceModule]) -> bool:
    """Whether something is made the number after what was looked up (``start = checkpoint["epoch"] + 1``), of which
    nothing comes in some files but that it is printed.

    Args:
        item: where it is looked up.
        files: all that may read it.
    """
    statement = statement_around(item)
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add) or item.node is not value.left:
        return False
    is_next = isinstance(value.right, ast.Constant) and value.right.value == 1
    if not is_next or not isinstance(item.module, SourceModule) or any(each.parse_error is not None for each in files):
        return False
    return not Effects(files, lambda _: True).has_effect(item.module, item.node)


def _is_variable_read(variable: str, statement: ast.stmt, site: Site, hops: int = _MAX_HOPS) -> bool:
    return any(is_read(Site(site.module, node), hops) for node in _reads_of(variable, statement, site))


def _is_shown(statement: ast.Expr, site: Site) -> bool:
    """Whether a notebook shows the value of an expression: that of the last one in a cell."""
    source, body = site.module.source, site.module.tree.body
    at = next((index for index, each in enumerate(body) if each is statement), None)
    if at is None or not source.has_cells:
        return False
    following = body[at + 1 : at + 2]
    return not following or source.cell_of(following[0].lineno) != source.cell_of(statement.lineno)


def _variable_of(statement: ast.stmt) -> str | None:
    """The variable that a plain assignment is for, if it is for nothing else."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0] if len(statement.targets) == 1 else None
    else:
        target = statement.target if isinstance(statement, ast.AnnAssign | ast.AugAssign) else None
    return target.id if isinstance(target, ast.Name) else None


def _reads_of(variable: str, statement: ast.stmt, site: Site) -> list[ast.Name]:
    """Where a variable is read in the function in which it is assigned; at the top of a module, in all of it."""
    module: Any = site.module
    around = enclosing_definition(site) or module.tree
    reads = [node for node in nodes_of(around).names.get(variable, ()) if isinstance(node.ctx, ast.Load)]
    inside = {id(node) for node in walk(statement)} if reads else set()
    return [node for node in reads if id(node) not in inside]


def _is_rebound(variable: str, around: ast.AST, statement: ast.stmt, line: int) -> bool:
    """Whether a variable gets another value, or is detached, between a statement and a later line; in doubt, it is.

    What is added to it leaves in it what was there.
    """
    if line <= statement.lineno:
        return True
    nodes = nodes_of(around)
    stored = [node for node in nodes.names.get(variable, ()) if isinstance(node.ctx, ast.Store)]
    between = [node for node in stored if statement.lineno < node.lineno < line]
    grown = {id(node.target) for node in nodes.of(ast.AugAssign) if statement.lineno < node.lineno} if between else ()
    if any(id(node) not in grown for node in between):
        return True
    detached = nodes.attributes.get("detach_", ())
    return any(ast.unparse(node.value) == variable for node in detached if statement.lineno < node.lineno < line)


def _kept_at(place: Site) -> Kept | None:
    """How the statement around a read of a variable keeps it, if it does."""
    statement = statement_around(place)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        is_term = _is_term(place.node, statement.value)
        return Kept(ast.unparse(statement.target), place, is_added=True) if is_term else None
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        target = ast.unparse(statement.targets[0])
        sides = (statement.value.left, statement.value.right)
        is_sum = isinstance(statement.value.op, ast.Add) and target in map(ast.unparse, sides)
        return Kept(target, place, is_added=True) if is_sum and _is_term(place.node, statement.value) else None
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append":
        return Kept(ast.unparse(call.func.value), place, is_added=False) if place.node in call.args else None
    return None


def _is_term(node: ast.AST, expression: ast.expr) -> bool:
    """Whether a node is an expression, or a term or a factor of it."""
    if isinstance(expression, ast.BinOp) and expression is not node:
        return _is_term(node, expression.left) or _is_term(node, expression.right)
    return expression is node


def _variable_sent(event: Backward) -> str:
    """The variable that goes backward: ``loss.backward()``, ``scaler.scale(loss).backward()``, ``backward(loss)``."""
    call = event.site.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    owner = call.func.value
    given = call.args[:1] if event.via else owner.args[:1] if isinstance(owner, ast.Call) else [owner]
    return next((each.id for each in given if isinstance(each, ast.Name)), "")


def _returns_as_it_is(variable: str, around: ast.AST, event: Backward) -> bool:
    """Whether a function that is called by its name goes backward from a variable, and then returns that alone.

    One that goes backward in a loop of its own returns only the last of many.
    """
    call = event.frame.call.node if event.frame.call is not None else None
    called = getattr(call.func, "attr", getattr(call.func, "id", "")) if isinstance(call, ast.Call) else ""
    if not isinstance(around, ast.FunctionDef) or around.name != called or around.decorator_list:
        return False
    nodes, line = nodes_of(around), event.site.line
    if any(each.lineno <= line <= (each.end_lineno or line) for each in nodes.of(ast.For, ast.While)):
        return False
    stored = any(isinstance(each.ctx, ast.Store) and each.lineno > line for each in nodes.names.get(variable, ()))
    returned = [each.value for each in nodes.of(ast.Return) if each.lineno > line]
    return not stored and bool(returned) and all(getattr(each, "id", "") == variable for each in returned)


def _is_backward(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in ("backward", "manual_backward", "step", "grad")


def _named_in(node: ast.AST) -> set[str]:
    return {ast.unparse(each) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)}
