"""Layers of a module that nobody calls: they hold the parameters with which its `forward` computes by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site
from dllint.values import Class

_LISTS = frozenset(("children", "named_children", "modules", "named_modules"))
_OF_PARAMETERS = frozenset(
    ("parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "apply", "add_module", "append", "to")
)
_NUMBERS = frozenset(
    ("weight", "bias", "running_mean", "running_var", "num_batches_tracked", "eps", "momentum", "stride", "padding",
     "dilation", "groups", "kernel_size", "in_features", "out_features", "in_channels", "out_channels")
)  # fmt: skip


def only_holds_parameters(cls: Class, name: str) -> bool:
    """Whether a class reads only the tensors and numbers of a part: `F.batch_norm(x, self.norm.running_mean, ...)`.

    It may go over the layers of the part for that: `for name, layer in self.layers.named_children(): ...`.
    """
    reads = [
        Site(ancestor.module, node)
        for ancestor in cls.lineage
        for node in nodes_of(ancestor.node).attributes.get(name, ())
        if isinstance(node.ctx, ast.Load) and getattr(node.value, "id", "") == "self"
    ]
    return bool(reads) and all(map(_is_of_numbers, reads))


def _is_of_numbers(read: Site) -> bool:
    """Whether only numbers are taken of a module where it is read."""
    around = list(ancestors(read))[:3]
    taken = around[0] if around else None
    if not isinstance(taken, ast.Attribute):
        return False
    if taken.attr in _NUMBERS | _OF_PARAMETERS:
        return True
    call, loop = (*around[1:], None, None)[:2]
    if taken.attr not in _LISTS or not isinstance(call, ast.Call) or call.func is not taken:
        return False
    if not isinstance(loop, ast.For) or loop.iter is not call:
        return False
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    layer = targets[-1]
    if not isinstance(layer, ast.Name) or len(targets) != (2 if taken.attr.startswith("named_") else 1):
        return False
    return all(_is_of_numbers(Site(read.module, each)) for each in _reads_of(layer.id, loop))


def _reads_of(name: str, loop: ast.For) -> Iterator[ast.Name]:
    for statement in loop.body:
        yield from (each for each in nodes_of(statement).names.get(name, ()) if isinstance(each.ctx, ast.Load))
