"""Where values go: whether calls of certain names are all that gets them."""

from __future__ import annotations

import ast
from collections.abc import Set

from dllint.context.base import ProgramView
from dllint.interp.source.later_reads import later_reads
from dllint.interp.source.positions import ancestors
from dllint.sites import Site

_MAX_HOPS = 3  # from a variable to the next
_KEEPING = frozenset(
    ("data", "detach", "cpu", "cuda", "to", "float", "clone", "contiguous", "view", "reshape", "flatten", "squeeze",
     "unsqueeze")
)  # fmt: skip


class Destinations(ProgramView):
    """The calls that values are given to."""

    def goes_only_into(self, site: Site, names: Set[str]) -> bool:
        """Whether calls of some names are all that gets the value of an expression, as it is or in another shape.

        Args:
            site: the expression.
            names: how the functions or methods are called: `x.topk(3)`, `torch.topk(x, 3)`.
        """
        return _goes_only_into(site, names)


def _goes_only_into(site: Site, names: Set[str], hops: int = _MAX_HOPS) -> bool:
    node: ast.AST = site.node
    for parent in ancestors(site):
        if isinstance(parent, ast.Attribute):
            if parent.attr in names:
                return True
            if parent.attr not in _KEEPING:
                return False
        elif isinstance(parent, ast.Call):
            if parent.func is not node:
                return node in parent.args[:1] and _last(parent.func) in names
        elif isinstance(parent, ast.Assign) and parent.value is node and len(parent.targets) == 1:
            target = parent.targets[0]
            if not isinstance(target, ast.Name) or not hops:
                return False
            reads = list(later_reads(target.id, Site(site.module, node), site.module))
            return bool(reads) and all(_goes_only_into(Site(site.module, read), names, hops - 1) for read in reads)
        else:
            return False
        node = parent
    return False


def _last(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
