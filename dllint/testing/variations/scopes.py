"""Variations of scope: the code of a script inside a function, or inside a method."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping, Sequence

from dllint.findings import Edit
from dllint.interp.source.trials import is_main_guard
from dllint.testing.variations.source import (
    Code,
    Definition,
    code_of,
    first_line,
    is_imported,
    last_line,
    needs,
    share_lines,
)


def in_function(files: Mapping[str, str]) -> dict[str, str] | None:
    """The statements of the main file in a function that is called under ``if __name__ == "__main__":``."""
    main, code = main_code(files)
    moved = movable(code) if code is not None else []
    if code is None or not moved:
        return None
    name = code.fresh("main")
    return {**files, main: _called(code, moved, [f"def {name}():"], f"{name}()", 1)}


def in_method(files: Mapping[str, str]) -> dict[str, str] | None:
    """The same in a method; where there are only functions, each becomes the method of a class of its own."""
    main, code = main_code(files)
    if code is None:
        return None
    moved = movable(code)
    if not moved:
        varied = _with_methods(code)
        return {**files, main: varied} if varied != code.text else None
    name = code.fresh("Runner")
    return {**files, main: _called(code, moved, [f"class {name}:", "    def run(self):"], f"{name}().run()", 2)}


def main_code(files: Mapping[str, str]) -> tuple[str, Code | None]:
    """The main file, or nothing if its names are used in ways that forbid to move them."""
    main, *others = files
    code = code_of(files[main])
    is_fixed = any(isinstance(node, ast.Global) for node in code.nodes)
    used = is_imported(main, [code_of(files[name]) for name in others])
    return main, None if code.is_dynamic or is_fixed or used or share_lines(code.tree.body) else code


def movable(code: Code) -> list[ast.stmt]:
    """The statements to move: all but imports and definitions or, if these need them, all but imports."""
    body = [node for node in code.tree.body if not _is_docstring(node) and node not in code.imports]
    definitions = [node for node in body if isinstance(node, Definition)]
    guards = [node for node in body if is_main_guard(node)]
    rest = [node for node in body if node not in definitions and node not in guards]
    bound, imported, defined = _bound(rest), _bound(code.imports), _bound(definitions)
    if not rest or bound & imported:
        return []
    needed = frozenset().union(_read(guards), *map(needs, definitions))
    if bound.isdisjoint(needed | defined):
        return rest
    is_whole = not guards and not defined & imported and _is_reached(definitions, rest)
    return sorted([*rest, *definitions], key=first_line) if is_whole else []


def _is_reached(definitions: Sequence[Definition], statements: Sequence[ast.stmt]) -> bool:
    """Whether the statements use all definitions, so that they remain in use inside a function."""
    names = set(_read(statements))
    pending = list(definitions)
    while reached := [node for node in pending if node.name in names]:
        pending = [node for node in pending if node not in reached]
        names.update(*map(needs, reached))
    return not pending


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _bound(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The names that statements may bind in their own scope (and some in inner ones)."""
    names: set[str] = set()
    for node in (node for statement in statements for node in _outside_definitions(statement)):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, Definition):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return frozenset(names)


def _outside_definitions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, Definition):
        for child in ast.iter_child_nodes(node):
            yield from _outside_definitions(child)


def _read(statements: Sequence[ast.stmt]) -> frozenset[str]:
    nodes = (node for statement in statements for node in ast.walk(statement))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


def wrapped(code: Code, moved: Sequence[ast.stmt], header: Sequence[str], depth: int) -> str:
    """The module with some statements moved to its end, below a header."""
    gone = {line for node in moved for line in range(first_line(node), last_line(node) + 1)}
    kept = [line if number not in gone else "" for number, line in enumerate(code.lines, 1)]
    inner = [line for node in moved for line in [*code.indented(first_line(node), last_line(node), depth), ""]]
    return "\n".join([*kept, *header, *inner, ""])


def _called(code: Code, moved: Sequence[ast.stmt], header: Sequence[str], call: str, depth: int) -> str:
    """The same with a call of what the header defines."""
    return f'{wrapped(code, moved, header, depth)}if __name__ == "__main__":\n    {call}\n'


def _with_methods(code: Code) -> str:
    """Each function that is only ever called becomes the method of a class, and its calls call that."""
    edits: list[Edit] = []
    classes: dict[int, tuple[int, str]] = {}
    for node in code.tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not _is_plain(node):
            continue
        calls = _calls_of(code, node.name)
        if calls is None:
            continue
        name = code.fresh(f"{node.name.title().replace('_', '')}Runner")
        edits += [_insert_self(code, node), *(code.replace(call, f"{name}().{node.name}") for call in calls)]
        classes[first_line(node)] = (last_line(node), name)
    changed = Code(code.edited(edits))
    lines = list(changed.lines)
    for first in sorted(classes, reverse=True):
        last, name = classes[first]
        lines[first - 1 : last] = [f"class {name}:", *changed.indented(first, last)]
    return "\n".join(lines)


def _is_plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function can become a method: its decorators are those of torch, and it has no ``self``."""
    own = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
    return "self" not in own and all(ast.unparse(part).startswith("torch.") for part in node.decorator_list)


def _calls_of(code: Code, function: str) -> list[ast.Name] | None:
    """The names in the calls of a function, or ``None`` if it is used in another way, too, or bound again."""
    nodes = list(code.nodes)
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = [node for node in nodes if isinstance(node, ast.Name) and node.id == function]
    binding = [
        node
        for node in nodes
        if function in (getattr(node, field, None) for field in ("name", "arg", "asname"))
        and not isinstance(node, ast.keyword)
    ]
    is_plain = all(name in called for name in names) and function not in code.names_in_strings
    return names if is_plain and len(binding) == 1 else None


def _insert_self(code: Code, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Edit:
    """The edit that puts ``self`` in front of the parameters of a function."""
    lines = code.lines[node.lineno - 1 : last_line(node)]
    tokens = tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline)
    depth = 0
    for token in tokens:
        depth += {"[": 1, "]": -1}.get(token.string, 0)
        if token.string == "(" and not depth:
            break
    is_empty = not ast.unparse(node.args)
    return code.insert(node.lineno + token.end[0] - 1, token.end[1], "self" if is_empty else "self, ")
