"""What a loop over batches makes of one batch, and what it carries from each to the next, as it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.dataclass import dataclass
from dllint.interp.source.trees import walk

_SHRINKING = ("clear", "pop", "popleft", "remove")
_AS_NUMBER = frozenset(("item", "detach", "cpu", "clone", "tolist", "numpy"))
_MAX_HOPS = 6  # from an expression to what it stands for


@dataclass(frozen=True, slots=True)
class Sum:
    """A statement that adds something to what was there: ``total += loss``. ``name`` is the sum as it is written."""

    name: str
    statement: ast.stmt
    added: ast.expr


def sums_in(loop: ast.AST) -> Iterator[Sum]:
    """What is added up in a loop, also in loops within it."""
    for node in walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield Sum(ast.unparse(node.target), node, node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
            name = ast.unparse(node.targets[0])
            left, right = node.value.left, node.value.right
            if name in (ast.unparse(left), ast.unparse(right)):
                yield Sum(name, node, right if ast.unparse(left) == name else left)


def bindings_in(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The variables that a block binds in any case, and to what; of several the last."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from bindings_in(statement.body)
        elif isinstance(statement, ast.If) and statement.orelse:
            yield from _bound_in_both_arms(statement)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                yield from ((name.id, statement.value) for name in names if isinstance(name, ast.Name))


def _bound_in_both_arms(branch: ast.If) -> Iterator[tuple[str, ast.expr]]:
    """The variables that both arms of a branch bind, and to what: either of two things."""
    one, other = (dict(bindings_in(arm)) for arm in (branch.body, branch.orelse))
    for name in one.keys() & other.keys():
        yield name, ast.copy_location(ast.IfExp(branch.test, one[name], other[name]), one[name])


def names_in(node: ast.AST) -> set[str]:
    """The variables that stand in a piece of code."""
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


@dataclass(frozen=True, slots=True)
class Mean:
    """A place where what was added up, under a name, is divided. ``divisor`` is missing where it is that of a mean."""

    name: str
    place: ast.AST
    divisor: ast.expr | None


def averages_in(around: ast.AST, name: str) -> Iterator[Mean]:
    """Where a sum or list is averaged: ``total / n``, ``total /= n``, ``np.mean(values)``, ``sum(values) / n``."""
    for node in walk(around):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_sum_of(node.left, name):
            yield Mean(name, node, node.right)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) and ast.unparse(node.target) == name:
            yield Mean(name, node, node.value)
        elif _is_mean_of(node, name):
            yield Mean(name, node, None)


def _is_mean_of(node: ast.AST, name: str) -> bool:
    is_mean = isinstance(node, ast.Call) and _last_name(node.func) == "mean"
    return is_mean and isinstance(node, ast.Call) and [ast.unparse(each) for each in node.args] == [name]


def _is_sum_of(node: ast.expr, name: str) -> bool:
    """Whether an expression is a sum of some name: as it is, as a number, in percent, or ``sum(values)``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        parts = (node.left, node.right)
        return any(isinstance(part, ast.Constant) for part in parts) and any(_is_sum_of(part, name) for part in parts)
    if isinstance(node, ast.Call):
        given = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
        return _last_name(node.func) in ("item", "float", "sum") and any(_is_sum_of(each, name) for each in given)
    return ast.unparse(node) == name


def _last_name(function: ast.expr) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))


def lists_in(loop: ast.AST) -> Iterator[Sum]:
    """What is appended to in a loop."""
    for node in walk(loop):
        call = node.value if isinstance(node, ast.Expr) else None
        function = call.func if isinstance(call, ast.Call) and len(call.args) == 1 else None
        if isinstance(function, ast.Attribute) and function.attr == "append":
            assert isinstance(node, ast.Expr) and isinstance(call, ast.Call)
            yield Sum(ast.unparse(function.value), node, call.args[0])


def is_bound_in(around: ast.AST, name: str) -> bool:
    """Whether a variable gets a value somewhere that is no sum of what it had, and no average of it."""
    changed = {id(each.statement) for each in sums_in(around)}
    for node in walk(around):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign) and id(node) not in changed:
            targets = node.targets
        elif isinstance(node, ast.For | ast.comprehension | ast.AnnAssign | ast.NamedExpr):
            targets = [node.target]
        elif isinstance(node, ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHRINKING:
            targets = [node.func.value]
        if any(ast.unparse(each) == name for target in targets for each in walk(target) if isinstance(each, ast.expr)):
            return True
    return False


def begun_before(name: str, loop: ast.stmt, around: ast.AST) -> ast.stmt | None:
    """Where a variable gets a 0 or an empty list before a loop, in the function around it, if that is what it keeps."""
    before = [
        (node, value)
        for node in walk(around)
        if isinstance(node, ast.Assign) and node.lineno < loop.lineno
        for target, value in _pairs(node)
        if ast.unparse(target) == name
    ]
    if not before:
        return None
    node, value = max(before, key=lambda each: each[0].lineno)
    is_empty = isinstance(value, ast.List) and not value.elts
    return node if is_empty or (isinstance(value, ast.Constant) and value.value == 0) else None


def begins_list(statement: ast.AST, name: str) -> bool:
    """Whether a statement binds a variable to a list that is written out."""
    pairs = _pairs(statement) if isinstance(statement, ast.Assign) else ()
    return any(ast.unparse(target) == name and isinstance(value, ast.List) for target, value in pairs)


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment binds to what; of several names at once each with its own value."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def means_after(loop: ast.For, name: str, around: ast.AST) -> Iterator[Mean]:
    """Where a sum of some name is averaged after a loop, in the function around it, as the loop left it."""
    end = loop.end_lineno or loop.lineno
    begun = [
        node.lineno
        for node in walk(around)
        if isinstance(node, ast.Assign) and node.lineno > end
        for target, _ in _pairs(node)
        if ast.unparse(target) == name
    ]
    for mean in averages_in(around, name):
        line = getattr(mean.place, "lineno", 0)
        if line > end and not any(each < line for each in begun):
            yield mean


def plain(expression: ast.expr, loop: ast.For) -> ast.expr:
    """What an expression is as a number: behind ``.item()``, ``float`` and the like, and behind its variable.

    Where both arms of a branch bind the variable, and nothing else does, it is either of two expressions.
    """
    for _ in range(_MAX_HOPS):
        expression = as_number(expression)
        if not isinstance(expression, ast.Name):
            break
        beside = _bound_beside(expression, loop)
        if beside is not None:
            expression = beside
            continue
        given = [each for each in walk(loop) if isinstance(each, ast.Name) and each.id == expression.id]
        stores = [each for each in given if isinstance(each.ctx, ast.Store)]
        value = dict(bindings_in(loop.body)).get(expression.id)
        if value is None or len(stores) != _bindings_behind(value, loop) or isinstance(value, ast.Name):
            break
        expression = value
    return expression


def _bound_beside(read: ast.Name, loop: ast.For) -> ast.expr | None:
    """What an arm of a branch in a loop binds a variable to, above a place in this very arm that reads it."""
    inside = (node for node in walk(loop) if isinstance(node, ast.If))
    arms = [arm for node in inside for arm in (node.body, node.orelse) if any(_contains(each, read) for each in arm)]
    for statement in reversed(arms[-1] if arms else []):
        if statement.lineno < read.lineno and read.id in _stored_in(statement):
            is_plain = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            return statement.value if is_plain and isinstance(statement, ast.Assign) else None
    return None


def _contains(node: ast.AST, wanted: ast.AST) -> bool:
    return any(each is wanted for each in walk(node))


def _stored_in(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}


def _bindings_behind(value: ast.expr, loop: ast.For) -> int:
    """How many assignments stand behind what a variable is bound to: one in each arm of a branch that binds it."""
    if not isinstance(value, ast.IfExp) or any(node is value for node in walk(loop)):  # written in one expression
        return 1
    return _bindings_behind(value.body, loop) + _bindings_behind(value.orelse, loop)


def as_number(expression: ast.expr) -> ast.expr:
    """An expression without what makes a number of it: ``.item()``, ``.cpu()``, ``float``."""
    while True:
        if isinstance(expression, ast.Attribute) and expression.attr == "data":
            expression = expression.value
        elif not isinstance(expression, ast.Call):
            return expression
        elif not expression.args and isinstance(expression.func, ast.Attribute) and expression.func.attr in _AS_NUMBER:
            expression = expression.func.value
        elif _last_name(expression.func) == "float" and len(expression.args) == 1:
            expression = expression.args[0]
        else:
            return expression


def last_bound(name: str, around: ast.AST, before: int) -> ast.expr | None:
    """What a variable was last bound to in a block, before a line."""
    bound = [
        (node.lineno, value)
        for node in walk(around)
        if isinstance(node, ast.Assign) and node.lineno < before
        for target, value in _pairs(node)
        if name in [ast.unparse(each) for each in getattr(target, "elts", [target])]
    ]
    return max(bound, key=lambda each: each[0])[1] if bound else None


_WRAPPING = frozenset(("tqdm", "enumerate", "zip", "iter", "track"))  # what goes over the same things


def counts_samples(divisor: ast.expr, loop: ast.For, around: ast.AST) -> bool:
    """Whether a number is that of the samples which a loop goes over, in batches, as it is written."""
    if isinstance(divisor, ast.Call) and _last_name(divisor.func) == "len" and len(divisor.args) == 1:
        counted = divisor.args[0]
        is_set = "dataset" in _last_name(counted).lower()
        return is_set and ast.unparse(counted) not in _gone_over(loop, around)
    name = ast.unparse(divisor)
    if not isinstance(divisor, ast.Name):
        return False
    added = [each.added for each in sums_in(loop) if each.name == name]
    if added:
        return all(_is_size(each, loop) or _is_size(plain(each, loop), loop) for each in added)
    values = [
        value
        for node in walk(around)
        if isinstance(node, ast.Assign)
        for target, value in _pairs(node)
        if ast.unparse(target) == name
    ]
    return len(values) == 1 and isinstance(values[0], ast.Call) and counts_samples(values[0], loop, around)


def _gone_over(loop: ast.For, around: ast.AST) -> set[str]:
    """What a loop goes over, as it is written, there or where it is bound: `bar = tqdm(loader)`, and `for x in bar`."""
    names = names_in(loop.iter)
    bound = [
        value
        for node in walk(around)
        if isinstance(node, ast.Assign)
        for target, value in _pairs(node)
        if isinstance(target, ast.Name) and target.id in names and isinstance(value, ast.Call)
        if _last_name(value.func) in _WRAPPING
    ]
    return {ast.unparse(node) for root in (loop.iter, *bound) for node in walk(root) if isinstance(node, ast.expr)}


def _is_size(node: ast.expr, loop: ast.For) -> bool:
    """Whether an expression is the size of a batch: ``len(x)``, ``x.size(0)`` or ``x.shape[0]``."""
    text = ast.unparse(node)
    names = names_in(node) - {"len"}
    is_of_batch = bool(names) and names <= names_in(loop.target) | set(dict(bindings_in(loop.body)))
    return is_of_batch and (text.startswith("len(") or text.endswith((".size(0)", ".shape[0]", ".size()[0]")))
