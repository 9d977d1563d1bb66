"""Conditions as data: what a test says when it holds and when it does not, and which tests exclude each other."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from dllint.assumptions import one_of
from dllint.interp.source.phases import topic_of
from dllint.interp.source.trees import walk
from dllint.sites import Guard, Guards

_RELATIONS: dict[type[ast.cmpop], tuple[str, bool]] = {
    ast.Eq: ("==", True),
    ast.NotEq: ("==", False),
    ast.Is: ("is", True),
    ast.IsNot: ("is", False),
    ast.Lt: ("<", True),
    ast.GtE: ("<", False),
    ast.Gt: (">", True),
    ast.LtE: (">", False),
    ast.In: ("in", True),
    ast.NotIn: ("in", False),
}
_MIRRORED: dict[str, str] = {"==": "==", "is": "is", "<": ">", ">": "<"}


@lru_cache(maxsize=8192)
def guards_of(test: ast.expr, holds: bool, scope: str = "") -> Guards:
    """The conditions that are certain when ``test`` is true (or false).

    ``scope`` names the function whose local variables the test reads, so that equal names elsewhere stay apart. The
    guards are shared: :func:`marked` makes others of them.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return guards_of(test.operand, not holds, scope)
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is holds:
            return tuple(guard for value in test.values for guard in guards_of(value, holds, scope))
        return (_guard(test, test, "truthy", None, holds, scope),)
    if isinstance(test, ast.NamedExpr):
        return guards_of(test.target, holds, scope)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return (_comparison(test, holds, scope),)
    return (_guard(test, test, "truthy", None, holds, scope),)


def _comparison(test: ast.Compare, holds: bool, scope: str) -> Guard:
    relation, positive = _RELATIONS[type(test.ops[0])]
    left, right = test.left, test.comparators[0]
    if isinstance(left, ast.Constant) and relation in _MIRRORED:
        left, right, relation = right, left, _MIRRORED[relation]
    try:
        operand: Any = ast.literal_eval(right)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        operand = text_of(right)
    return _guard(test, left, relation, operand, holds is positive, scope)


def _guard(test: ast.expr, node: ast.expr, relation: str, operand: Any, holds: bool, scope: str) -> Guard:
    subject = text_of(node)
    if isinstance(node, ast.Name) or subject.startswith("self."):
        subject = f"{scope}:{subject}" if scope else subject
    return Guard(subject, relation, operand, holds, names_in(test), node=test, topic_of=topic_of)


def equality(node: ast.expr, constant: object, scope: str, *, by_default: bool | None) -> Guards:
    """The condition that an expression equals a constant, with whether the program's own defaults say so."""
    test = ast.copy_location(ast.Compare(node, [ast.Eq()], [ast.Constant(constant)]), node)  # type: ignore[arg-type]
    return marked((_comparison(test, True, scope),), by_default, False)


def outcome_of_test(guard: Guard) -> bool:
    """Whether the expression that is tested is true where a condition holds."""
    if isinstance(guard.node, ast.Compare) and len(guard.node.ops) == 1:
        return guard.holds is _RELATIONS[type(guard.node.ops[0])][1]
    return guard.holds


@lru_cache(maxsize=8192)
def names_in(node: ast.AST) -> frozenset[str]:
    """The variables, and ``name.attribute`` paths, that an expression reads."""
    found: set[str] = set()
    for child in walk(node):
        if isinstance(child, ast.Name):
            found.add(child.id)
        elif isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
            found.add(f"{child.value.id}.{child.attr}")
    return frozenset(found)


def text_of(node: ast.expr) -> str:
    """The source form of an expression; the common short forms without the cost of unparsing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{text_of(node.value)}.{node.attr}"
    if isinstance(node, ast.Constant):
        return repr(node.value)
    return _unparsed(node)


@lru_cache(maxsize=8192)
def _unparsed(node: ast.expr) -> str:
    return ast.unparse(node)


def marked(guards: Guards, by_default: bool | None, periodic: bool) -> Guards:
    """The same conditions, marked with whether they hold under the program's own defaults, and every so many times."""
    if by_default is None and not periodic:
        return guards
    return tuple(
        Guard(
            guard.subject,
            guard.relation,
            guard.operand,
            guard.holds,
            guard.names,
            by_default,
            periodic,
            node=guard.node,
            topic_of=topic_of,
        )
        for guard in guards
    )


def as_option(guards: Guards, choice: str, option: int, options: int, text: str, asks: str = "") -> Guards:
    """The conditions under which a value is this one of several, with what is assumed by whoever goes on with it.

    Args:
        guards: the conditions, as far as they are known.
        choice: identifies the choice, so that whoever goes on with each of its options assumes nothing.
        option: which of its ``options`` this is.
        options: how many there are.
        text: says which one it is, in words.
        asks: its class, where it is an object.
    """
    chosen = [guard.by_default for guard in guards]
    by_default = None if not chosen or None in chosen else all(chosen)
    assumption = one_of(text, choice, option, options, by_default=bool(by_default), asks=asks)
    marker = Guard(f"which of {choice}", "==", option, True, by_default=by_default, assumption=assumption)
    return (*guards, marker)


def contradict(left: Guard, right: Guard) -> bool:
    """Whether two conditions cannot both hold. Doubt is ``False``."""
    if left.subject != right.subject:
        return False
    if left.relation == right.relation and left.operand == right.operand:
        return left.holds is not right.holds
    pair = {left.relation, right.relation}
    if pair == {"=="}:
        return left.holds and right.holds
    if "truthy" in pair:
        test, other = (left, right) if left.relation == "truthy" else (right, left)
        return any(bool(each) is not test.holds for each in _values_of(other))
    if pair == {"is", "=="}:
        none, equal = (left, right) if left.relation == "is" else (right, left)
        if none.operand is None and none.holds and equal.holds and equal.operand is not None:
            return True
    if "is" in pair and pair <= {"is", "=="}:
        return any(one != other for one in _values_of(left) for other in _values_of(right))
    if "in" in pair:
        return _lists_exclude((left, right))
    return _ranges_exclude(left, right)


def _values_of(guard: Guard) -> tuple[object, ...]:
    """The constant that something is by a condition, if there is one: by ``flag is False``, or ``kind == "a"``."""
    if not guard.holds:
        return ()
    if guard.relation == "is":
        return (guard.operand,) if guard.operand is None or isinstance(guard.operand, bool) else ()
    return (constants_of(guard) or ()) if guard.relation == "==" else ()


def _lists_exclude(guards: Collection[Guard]) -> bool:
    """Whether no constant is left that something may be, of those that ``kind in ("a", "b")`` or ``kind == "a"`` name.

    ``guards`` speak of the same thing. Without a condition that names all that it may be, anything is left.
    """
    named = [(constants_of(guard), guard.holds) for guard in guards]
    allowed = [found for found, holds in named if holds and found is not None]
    if not allowed:
        return False
    refused = [each for found, holds in named if not holds and found is not None for each in found]
    return not any(all(each in other for other in allowed) and each not in refused for each in allowed[0])


def constants_of(guard: Guard) -> tuple[object, ...] | None:
    """The constants that a comparison is with: of ``in`` those of the list that is written there."""
    written = guard.node.comparators[-1] if isinstance(guard.node, ast.Compare) else None
    if guard.relation == "==" and isinstance(guard.node, ast.Compare):
        written = guard.node.left if isinstance(guard.node.left, ast.Constant) else written
        return (guard.operand,) if isinstance(written, ast.Constant) else None
    if guard.relation != "in" or not isinstance(written, ast.List | ast.Tuple | ast.Set):
        return None
    is_plain = all(isinstance(each, ast.Constant) for each in written.elts)
    return tuple(guard.operand) if is_plain and not isinstance(guard.operand, str) else None


def _ranges_exclude(left: Guard, right: Guard) -> bool:
    first, second = _range(left), _range(right)
    if first is None or second is None:
        return False
    low, low_open = max((first[0], first[1]), (second[0], second[1]))
    high, high_closed = min((first[2], not first[3]), (second[2], not second[3]))
    return low > high or (low == high and (low_open or not high_closed))


def _range(guard: Guard) -> tuple[float, bool, float, bool] | None:
    """The interval (low, low is open, high, high is open) of a numeric comparison."""
    value = guard.operand
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    infinity = float("inf")
    if guard.relation == "==" and guard.holds:
        return (value, False, value, False)
    if guard.relation == "<":
        return (-infinity, True, value, True) if guard.holds else (value, False, infinity, True)
    if guard.relation == ">":
        return (value, True, infinity, True) if guard.holds else (-infinity, True, value, False)
    return None


def consistent(guards: Collection[Guard], others: Collection[Guard]) -> bool:
    """Whether two sets of conditions can hold together, as far as can be told. Both are small, mostly one or two."""
    listed: set[str] = set()  # what is asked whether it is in a list: other conditions may rule out all that is in it
    for guard in guards:
        subject = guard.subject
        for other in others:
            if other.subject == subject:
                if contradict(guard, other):
                    return False
                if guard.relation == "in" or other.relation == "in":
                    listed.add(subject)
    if _rules_out_whole(guards, others) or _rules_out_whole(others, guards):
        return False
    if not listed:
        return True
    return not any(_lists_exclude([each for each in (*guards, *others) if each.subject == name]) for name in listed)


def _rules_out_whole(guards: Collection[Guard], others: Collection[Guard]) -> bool:
    """Whether one of some conditions is that ``a and b`` fails, and both hold by the others; or the same of ``or``."""
    wholes = [guard for guard in guards if isinstance(guard.node, ast.BoolOp)]
    return any(
        all(any(_says(other, part) for other in others) for part in guards_of(whole.node, not whole.holds))
        for whole in wholes
        if whole.node is not None
    )


def _says(guard: Guard, part: Guard) -> bool:
    """Whether a condition is a part of a test, whatever the function whose variables it reads."""
    is_same = guard.subject == part.subject or guard.subject.endswith(f":{part.subject}")
    return is_same and (guard.relation, guard.holds, guard.operand) == (part.relation, part.holds, part.operand)


def same_conditions(guards: Guards, others: Guards) -> bool:
    """Whether two things happen under the very same conditions."""
    return not beyond(guards, others) and not beyond(others, guards)


def beyond(guards: Guards, others: Guards) -> Guards:
    """The conditions of one thing that are not conditions of another."""
    known = {guard.key() for guard in others}
    return tuple(guard for guard in guards if guard.key() not in known)
