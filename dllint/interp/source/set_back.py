"""Values of variables that nothing reads, as the next statement which binds the name gives it a first number again."""

from __future__ import annotations

import ast

from dllint.dataclass import dataclass
from dllint.interp.source.later_reads import binds, blocks_in, later_reads
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.sites import Site


@dataclass(frozen=True, slots=True)
class SetBack:
    """A variable that gets a first number again (``begun``), and the loops in whose headers that is read."""

    name: str
    begun: Site
    loops: tuple[ast.stmt, ...]


def set_back(taken: Site) -> SetBack | None:
    """How a variable that a statement gives something computed is set back to 0 or 1, before anything reads it."""
    name = _variable_of(taken.node)
    again = _next_binding(name, taken) if name else None
    if again is None or not _is_first_number(again) or any(later_reads(name, _value_of(taken), taken.module)):
        return None
    begun = Site(taken.module, again)
    heads = (_header_around(Site(taken.module, read)) for read in later_reads(name, _value_of(begun), taken.module))
    return SetBack(name, begun, tuple(head for head in heads if head is not None))


def _next_binding(name: str, site: Site) -> ast.stmt | None:
    """The statement that certainly gives a variable another value after the one at a place, where it is the next that
    may: it stands below it, or below what that stands in, in the same function, and no other binds the name before."""
    scope = enclosing_definition(site) or site.module.tree
    statement = site.node
    while isinstance(statement, ast.stmt) and statement is not scope:
        block = block_around(Site(site.module, statement))
        for below in block[next(index for index, each in enumerate(block) if each is statement) + 1 :]:
            if binds(name, below):
                return below
            bound = (each for each in ast.walk(below) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
            if isinstance(below, ast.Return | ast.Raise) or any(each.id == name for each in bound):
                return None
        parent = next(iter(ancestors(Site(site.module, statement))), None)
        if not isinstance(parent, ast.If | ast.With | ast.Try):
            return None
        statement = parent
    return None


def block_around(site: Site) -> list[ast.stmt]:
    """The statements of the block in which that at a place stands, or in which the place is."""
    statement: ast.AST | None = site.node
    if not isinstance(statement, ast.stmt):
        statement = next((node for node in ancestors(site) if isinstance(node, ast.stmt)), None)
    if statement is None:
        return []
    parent = next(iter(ancestors(Site(site.module, statement))), site.module.tree)
    return next((each for each in blocks_in(parent) if any(one is statement for one in each)), [])


def _value_of(assigned: Site) -> Site:
    return Site(assigned.module, getattr(assigned.node, "value", assigned.node))


def _variable_of(statement: ast.AST) -> str:
    """The variable that a statement gives something that is computed."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) and not isinstance(statement.value, ast.Constant) else ""


def _is_first_number(statement: ast.stmt) -> bool:
    """Whether a statement gives a variable the number that counting begins with."""
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    is_number = isinstance(value, ast.Constant) and type(value.value) is int
    return is_number and isinstance(value, ast.Constant) and value.value in (0, 1)


def _header_around(name: Site) -> ast.stmt | None:
    """The loop in whose header a variable is read: in the test of ``while``, or in what ``for`` goes over."""
    node = name.node
    for parent in ancestors(name):
        if isinstance(parent, ast.While):
            return parent if node is parent.test else None
        if isinstance(parent, ast.For):
            return parent if node is parent.iter else None
        if isinstance(parent, ast.stmt):
            return None
        node = parent
    return None
