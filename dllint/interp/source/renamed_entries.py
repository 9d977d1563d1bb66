"""The names under which a comprehension keeps the entries that it chooses by how their names begin."""

from __future__ import annotations

import ast


def names_kept(made: ast.DictComp) -> frozenset[str]:
    """The first parts of all names: `head` of `{k[4:]: v for k, v in state.items() if k.startswith("net.head.")}`.

    None where a condition or a key is of another kind, or does not tell the whole first part.
    """
    generator, target = made.generators[0], made.generators[0].target
    if len(made.generators) > 1 or not isinstance(target, ast.Tuple) or not isinstance(target.elts[0], ast.Name):
        return frozenset()
    variable = target.elts[0].id
    told = [found for test in generator.ifs if (found := _beginnings(test, variable))]
    kept = [_renamed(made.key, variable, each) for each in told[0]] if told else []
    names = [name.partition(".")[0] for name in kept if name is not None and "." in name]
    return frozenset(names) if len(names) == len(kept) and all(names) else frozenset()


def _beginnings(test: ast.expr, variable: str) -> list[str]:
    """The texts of which one certainly begins a name where a test holds; none if that is not told."""
    if isinstance(test, ast.BoolOp):
        found = [_beginnings(each, variable) for each in test.values]
        if isinstance(test.op, ast.And):
            return next((each for each in found if each), [])
        return [text for each in found for text in each] if all(found) else []
    if not isinstance(test, ast.Call) or len(test.args) != 1:
        return []
    given = test.args[0]
    if isinstance(test.func, ast.Name) and test.func.id == "any" and isinstance(given, ast.List | ast.Tuple):
        found = [_beginnings(each, variable) for each in given.elts]
        return [text for each in found for text in each] if all(found) else []
    if not _is_method(test.func, "startswith", variable):
        return []
    texts = [_text(each) for each in (given.elts if isinstance(given, ast.Tuple) else [given])]
    return [text for text in texts if text] if all(texts) else []


def _renamed(key: ast.expr, variable: str, beginning: str) -> str | None:
    """What a key makes of the beginning of a name; `None` where that is not told."""
    if isinstance(key, ast.Name):
        return beginning if key.id == variable else None
    if isinstance(key, ast.Subscript) and isinstance(key.value, ast.Name) and key.value.id == variable:
        count = _count(key.slice.lower) if isinstance(key.slice, ast.Slice) and key.slice.upper is None else None
        return beginning[count:] if count is not None and 0 <= count <= len(beginning) else None
    if not isinstance(key, ast.Call):
        return None
    texts = [_text(each) for each in key.args[:2]]
    if _is_method(key.func, "removeprefix", variable) and texts and texts[0]:
        return beginning.removeprefix(texts[0])
    if _is_method(key.func, "replace", variable) and len(texts) > 1 and texts[0] and beginning.startswith(texts[0]):
        return (texts[1] or "") + beginning[len(texts[0]) :]
    return None


def _count(node: ast.expr | None) -> int | None:
    """A number, or the length of a text: `len("model.")`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and node.args:
        text = _text(node.args[0])
        return len(text) if text else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _is_method(function: ast.expr, name: str, variable: str) -> bool:
    of = function.value if isinstance(function, ast.Attribute) and function.attr == name else None
    return isinstance(of, ast.Name) and of.id == variable


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
