"""Where the value that a variable has after a statement is read, in the order of the text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.interp.source.bindings import Definition, blocks_of
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.interp.source.trees import children, walk
from dllint.sites import Module, Site

_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_LOOPS = ast.For | ast.AsyncFor | ast.While


def later_reads(name: str, site: Site, module: Module) -> Iterator[ast.Name]:
    """The places that read a variable after the statement at a place, before it certainly gets another value.

    Loops are gone around once, so that what stands above in their body comes later, too. Functions within read whatever
    the variable holds when they are called, wherever they stand; at the top of a module they all do.
    """
    scope = enclosing_definition(site) or module.tree
    if any(isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in walk(scope)):
        yield from _reads(name, module.tree)
        return
    statement = next((node for node in ancestors(site) if isinstance(node, ast.stmt)), None)
    yield from _read_by_functions(name, scope)
    while statement is not None:
        parent = next(iter(ancestors(Site(module, statement))), module.tree)
        block = next((each for each in blocks_in(parent) if any(one is statement for one in each)), [])
        place = next((index for index, each in enumerate(block) if each is statement), len(block))
        reads, ends = _reads_until_bound(name, block[place + 1 :])
        yield from reads
        if ends:
            return
        if isinstance(parent, _LOOPS):
            yield from _reads_of_next_round(name, parent, block[:place])
        if parent is scope or not isinstance(parent, ast.stmt):
            return
        others = (block for block in blocks_in(parent) if all(each is not statement for each in block))
        yield from (read for block in others if isinstance(parent, ast.Try | _LOOPS) for read in _reads(name, *block))
        statement = parent


def blocks_in(node: ast.AST) -> Iterator[list[ast.stmt]]:
    if isinstance(node, ast.Module):
        yield node.body
    elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
        yield from blocks_of(node)  # type: ignore[arg-type]


def _read_by_functions(name: str, scope: ast.AST) -> Iterator[ast.Name]:
    inner = (node for node in walk(scope) if isinstance(node, Definition | ast.Lambda) and node is not scope)
    yield from (read for node in inner for read in _reads(name, node))


def _reads_until_bound(name: str, block: list[ast.stmt]) -> tuple[list[ast.Name], bool]:
    """The reads in a block up to a statement that gives the variable another value, and whether there is one."""
    found: list[ast.Name] = []
    for statement in block:
        found += _reads(name, statement)
        if binds(name, statement):
            return found, True
        if isinstance(statement, ast.Return | ast.Raise):
            return found, True
    return found, False


def _reads_of_next_round(
    name: str, loop: ast.For | ast.AsyncFor | ast.While, above: list[ast.stmt]
) -> Iterator[ast.Name]:
    if isinstance(loop, ast.While):
        yield from _reads(name, loop.test)
    elif any(isinstance(each, ast.Name) and each.id == name for each in walk(loop.target)):
        return
    yield from _reads_until_bound(name, above)[0]


def _reads(name: str, *nodes: ast.AST) -> list[ast.Name]:
    """Where a variable is read: adding to it is no reading that anything else sees, but it keeps what was there."""
    inside = [each for node in nodes for each in walk_without_own(name, node)]
    grown = [each.target for each in inside if isinstance(each, ast.AugAssign)]
    loads = [each for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    return [each for each in (*loads, *grown) if isinstance(each, ast.Name) and each.id == name]


def walk_without_own(name: str, node: ast.AST) -> Iterator[ast.AST]:
    """All nodes; of a comprehension with a variable of that name only what it goes over, which is computed before."""
    pending = [node]
    for current in pending:  # which grows meanwhile
        yield current
        if isinstance(current, _COMPREHENSIONS) and any(_is_target(name, each) for each in current.generators):
            pending.append(current.generators[0].iter)
        else:
            pending += children(current)


def _is_target(name: str, generator: ast.comprehension) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in walk(generator.target))


def binds(name: str, statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(
        isinstance(each, ast.Name) and each.id == name
        for target in targets
        for each in (target.elts if isinstance(target, ast.Tuple) else [target])
    )
