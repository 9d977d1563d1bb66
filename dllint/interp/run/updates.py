"""Methods that update what their object trains, each time that somebody who is not seen calls them."""

from __future__ import annotations

import ast

from dllint.events import Backward, Frame, OptimizerCreated
from dllint.interp.run.classes import set_attributes
from dllint.interp.source.bindings import targets_in
from dllint.sites import Site
from dllint.structure import Block, Invocation, Loop, Node, walk
from dllint.values import Class, Instance

CALLS = "calls"  # the kind of a loop that stands for the calls of a method


def repeated(instance: Instance, node: ast.FunctionDef | ast.AsyncFunctionDef, start: Block, body: Block) -> Block:
    """The body of a method that nobody is seen to call; an update, as an agent's ``learn(self, batch)``, is in a loop.

    An update computes gradients, outside of any loop, in a class that makes its own optimizers: it takes one step, and
    nobody would make an optimizer for that.
    """
    cls, frame = instance.cls, _frame_of(body)
    if not isinstance(cls, Class) or frame is None or not _makes_optimizer(instance, start) or not _is_update(body):
        return body
    changed = {target.id for target in targets_in(node.body) if isinstance(target, ast.Name)}
    changed.update(argument.arg for argument in (*node.args.args[1:], *node.args.kwonlyargs))
    changed.update(f"self.{name}" for name in set_attributes(cls))
    site = Site(cls.module, node)
    return Block([Loop(CALLS, site, None, None, body, frame, frozenset(changed))])


def _frame_of(body: Block) -> Frame | None:
    return next((item.frame for item in body.items if isinstance(item, Invocation)), None)


def _makes_optimizer(instance: Instance, start: Block) -> bool:
    """Whether the constructor makes an optimizer and keeps it."""
    kept = {id(value) for value in instance.attributes.values()}
    return any(isinstance(event, OptimizerCreated) and id(event.optimizer) in kept for event in walk(start))


def _is_update(body: Block) -> bool:
    """Whether gradients are computed once when this happens, not in a loop of its own."""
    pending: list[Node] = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, Backward):
            return True
        if isinstance(node, Block):
            pending.extend(node.items)
        elif isinstance(node, Invocation) or (isinstance(node, Loop) and node.kind == "once"):
            pending.append(node.body)
        elif not isinstance(node, Loop) and hasattr(node, "arms"):
            pending.extend(arm.body for arm in node.arms)
    return False
