"""Where what was interpreted certainly fails: it ends in a call that cannot be made, or a name that is not there."""

from __future__ import annotations

import ast

from dllint.dataclass import dataclass
from dllint.events import Event, OptimizerStep
from dllint.sites import Site
from dllint.structure import Block, Branch, Invocation, Leave, Loop, Node, walk


def failure_of(body: Block) -> Site | None:
    """Where a block certainly fails, as a call or a name in it is refused; nothing where it ends as it should."""
    last = body.items[-1] if body.items else None
    if isinstance(last, Loop):
        return failure_of(last.body)
    return last.site if isinstance(last, Leave) and last.kind == "raise" and not _is_meant(last) else None


def origin_of(body: Block) -> Site | None:
    """Where it is that what a block certainly fails in goes wrong: in the innermost of the functions called."""
    last = body.items[-1] if body.items else None
    if isinstance(last, Leave) and len(body.items) > 1:
        called = body.items[-2]
        if isinstance(called, Invocation) and called.site == last.site:
            return origin_of(called.body) or last.site
    return origin_of(last.body) if isinstance(last, Loop) else failure_of(body)


def _is_meant(left: Leave) -> bool:
    """Whether somebody wrote down that control leaves: by ``raise``, or ``sys.exit()``."""
    return isinstance(left.site.node, ast.Raise | ast.Expr)


def fails_in_training(body: Block) -> bool:
    """Whether what certainly fails is in the loop that trains: whatever is learned is lost in its first round."""
    last = body.items[-1] if body.items else None
    if isinstance(last, Leave) and len(body.items) > 1:
        called = body.items[-2]
        last = called if isinstance(called, Invocation) and called.site == last.site else None
    if last is not None and _trains_again(last):
        return True
    return isinstance(last, Loop | Invocation) and fails_in_training(last.body)


def _trains_again(holder: Node | None) -> bool:
    """Whether something is a loop that trains, in which each round goes on from the one before."""
    if not isinstance(holder, Loop) or holder.kind == "once":
        return False
    return any(isinstance(each, OptimizerStep) for each in walk(holder))


@dataclass(frozen=True, slots=True)
class Failure:
    """That a part of a program certainly fails: where, what it is the end of, and whether what was learned is lost."""

    site: Site
    body: Block
    in_training: bool


def failure_after(body: Block, event: Event) -> Failure | None:
    """How a program certainly fails once it has come to an event, if it does.

    That is said of the part around the event alone: the script may do something else, as another setting tells it.
    """
    places = _places(body)
    item: Node = event
    while id(item) in places:
        block, index, holder = places[id(item)]
        rest = block.items[index + 1 :]
        site = failure_of(block)
        ways = {kind for each in (rest[:-1] if site is not None else rest) for kind in ways_out(each)}
        if site is not None and not ways:
            return Failure(site, block, _trains_again(holder) or fails_in_training(block))
        if ways - _ends_in(holder) or holder is None:
            return None
        item = holder
    return None


def _places(body: Block) -> dict[int, tuple[Block, int, Node | None]]:
    """The block that each item stands in, where in it, and what the block is the body of."""
    places: dict[int, tuple[Block, int, Node | None]] = {}
    stack: list[tuple[Block, Node | None]] = [(body, None)]
    while stack:
        block, holder = stack.pop()
        for index, item in enumerate(block.items):
            places[id(item)] = block, index, holder
            stack.extend((inner, item) for inner in _blocks_in(item))
    return places


def ways_out(item: Node) -> set[str]:
    """How control may leave what stands around an item, other than by an exception."""
    if isinstance(item, Leave):
        is_exit = item.kind == "raise" and isinstance(item.site.node, ast.Expr)
        return {"exit"} if is_exit else {item.kind} - {"raise"}
    inside = {kind for block in _blocks_in(item) for each in block.items for kind in ways_out(each)}
    return inside - _ends_in(item)


def _ends_in(holder: Node | None) -> set[str]:
    """The ways to leave a block that end in what it is the body of."""
    if isinstance(holder, Loop):
        return {"break", "continue"}
    return {"return"} if isinstance(holder, Invocation) else set()


def _blocks_in(item: Node) -> list[Block]:
    if isinstance(item, Branch):
        return [arm.body for arm in item.arms]
    if isinstance(item, Loop | Invocation):
        return [item.body]
    return [item] if isinstance(item, Block) else []
