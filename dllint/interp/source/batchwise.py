"""What a loop over batches makes of one batch, and what it carries from each to the next, as it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.dataclass import dataclass
from dllint.interp.source.later_reads import walk_without_own
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk

_SHRINKING = ("clear", "pop", "popleft", "remove")
_AS_NUMBER = frozenset(("item", "detach", "cpu", "clone", "tolist", "numpy"))
_MAX_HOPS = 6  # from an expression to what it stands for
_GROWING = frozenset(("append", "extend", "add", "update"))
SETTING = frozenset(
    ("train", "eval", "zero_grad", "requires_grad_", "to", "cuda", "cpu")
)  # what a batch is not told to


@dataclass(frozen=True, slots=True)
class Sum:
    """A statement that adds something to what was there: ``total += loss``. ``name`` is the sum as it is written."""

    name: str
    statement: ast.stmt
    added: ast.expr


@dataclass(frozen=True, slots=True)
class Remainder:
    """A variable that each iteration binds to something of its batch alone, and that is read after the loop."""

    name: str
    value: ast.expr
    reads: tuple[ast.Name, ...]


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


def remainders(loop: ast.For, around: ast.AST) -> Iterator[Remainder]:
    """What the last iteration of a loop leaves in variables, of its own batch alone. ``around`` is the function."""
    if any(isinstance(node, ast.Break | ast.Return) for node in walk(loop)):
        return  # it need not go over all batches
    bindings: dict[str, list[ast.expr]] = {}
    for each in walk(loop.target):
        if isinstance(each, ast.Name):
            bindings[each.id] = [each]
    for name, value in _bindings(loop.body):
        bindings.setdefault(name, []).append(value)
    read = {name: reads for name in bindings if (reads := tuple(_reads_after(loop, name, around)))}
    carried = _carried(loop, set(bindings)) if read else set()
    for name, reads in read.items():
        value = bindings[name][-1]
        if _is_of_batch(value, loop, bindings, carried):
            yield Remainder(name, value, reads)


def is_of_one_batch(value: ast.expr, loop: ast.For) -> bool:
    """Whether an expression in a loop is made of what the loop goes over, and of nothing that it carries on."""
    bindings: dict[str, list[ast.expr]] = {}
    begun = _begun_anew(loop)
    added = ((each.name, each.added) for each in sums_in(loop) if each.name in begun)
    for name, bound in (*_bindings(loop.body), *added):
        bindings.setdefault(name, []).append(bound)
    return _is_of_batch(value, loop, bindings, _carried(loop, set(bindings)))


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The variables that a block binds in any case, and to what; of several the last."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _bindings(statement.body)
        elif isinstance(statement, ast.If) and statement.orelse:
            yield from _bound_in_both_arms(statement)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                yield from ((name.id, statement.value) for name in names if isinstance(name, ast.Name))


def _bound_in_both_arms(branch: ast.If) -> Iterator[tuple[str, ast.expr]]:
    """The variables that both arms of a branch bind, and to what: either of two things."""
    one, other = (dict(_bindings(arm)) for arm in (branch.body, branch.orelse))
    for name in one.keys() & other.keys():
        yield name, ast.copy_location(ast.IfExp(branch.test, one[name], other[name]), one[name])


def _carried(loop: ast.For, bound_in_it: set[str]) -> set[str]:
    """The names of what one iteration leaves for the next: sums, lists that grow, objects that are told something."""
    begun, replaced = _begun_anew(loop), _replaced_attributes(loop)
    found = {each.name for each in sums_in(loop)} - begun
    of_batch = _names_in(loop.target)
    bound = of_batch | bound_in_it
    for node in walk(loop):
        if id(node) in replaced:
            continue
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {ast.unparse(node), ast.unparse(node.value)} - {"self"} - of_batch  # `batch[key] = ...`
        elif isinstance(node, ast.AugAssign):
            found |= {ast.unparse(node.target)} - begun
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING:
            found.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            given = [each for each in (node.value.func, *node.value.args) if getattr(each, "attr", "") not in SETTING]
            found |= {ast.unparse(each.value) for each in given if isinstance(each, ast.Attribute)} - bound - {"self"}
            found |= {each.id for each in node.value.args if isinstance(each, ast.Name)} - bound
    return found | _read_before_bound(list(walk(loop)))


def _replaced_attributes(loop: ast.For) -> set[int]:
    """The attributes of variables that each iteration binds in any case, before it reads anything of the object."""
    first: dict[str, int] = {}
    for node in walk(loop):
        if isinstance(node, ast.Name):
            first[node.id] = min(node.lineno, first.get(node.id, node.lineno))
    targets = (target for each in loop.body if isinstance(each, ast.Assign) for target in each.targets[:1])
    return {
        id(target)
        for target in targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id != "self"
        if first[target.value.id] == target.lineno
    }


def _begun_anew(loop: ast.For) -> set[str]:
    """The variables that each iteration begins with a number, before it adds to them: ``loss = 0.0``."""
    begun = {
        name: value.lineno
        for name, value in reversed(list(_bindings(loop.body)))
        if isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    }
    first: dict[str, int] = {}
    for node in walk(loop):
        if isinstance(node, ast.Name) and node.id in begun:
            first[node.id] = min(node.lineno, first.get(node.id, node.lineno))
    return {name for name, line in begun.items() if first.get(name) == line}


def _read_before_bound(nodes: Sequence[ast.AST]) -> set[str]:
    """The variables that an iteration reads before it binds them: they come from the one before.

    An assignment reads what it assigns first: ``hits, seen = count(batch, hits, seen)``. What the other arm of a branch
    has bound is not bound in this one: ``if step == 0: mean = x`` … ``else: mean = (mean * step + x) / (step + 1)``.
    """
    first: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            first[node.id] = min(node.lineno, first.get(node.id, node.lineno))
    binding: dict[int, set[str]] = {}  # by what an assignment reads: what it is the first to bind
    for node in nodes:
        if isinstance(node, ast.Assign):
            bound = {name for target in node.targets for name in _names_in(target) if first.get(name) == node.lineno}
            binding.update((id(read), bound) for read in walk(node.value))
    in_arms = {
        name
        for node in nodes
        if isinstance(node, ast.If) and node.orelse
        for name in _read_before_bound([inner for each in node.orelse for inner in walk(each)])
        if first[name] >= node.lineno
    }
    return in_arms | {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in first
        if node.lineno < first[node.id] or node.id in binding.get(id(node), ())
    }


def _is_of_batch(value: ast.expr, loop: ast.For, bindings: dict[str, list[ast.expr]], carried: set[str]) -> bool:
    """Whether an expression is made of what the loop goes over, in both arms, and of nothing that it carries on."""
    return _origin(value, _names_in(loop.target), bindings, carried, set()) == "batch"


def _origin(
    value: ast.expr, batch: set[str], bindings: dict[str, list[ast.expr]], carried: set[str], seen: set[str]
) -> str:
    """``carried`` if an iteration hands any part of an expression on, ``batch`` if some is of the batch, else ""."""
    if isinstance(value, ast.IfExp):
        arms = {_origin(arm, batch, bindings, carried, seen.copy()) for arm in (value.body, value.orelse)}
        return "carried" if "carried" in arms else arms.pop() if len(arms) == 1 else ""
    found = set()
    for node in walk(value):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and ast.unparse(node) in carried:
            return "carried"
        if isinstance(node, ast.Name) and node.id in batch:
            found.add("batch")
        elif isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            found |= {_origin(each, batch, bindings, carried, seen) for each in bindings.get(node.id, ())}
    return "carried" if "carried" in found else "batch" if "batch" in found else ""


def _reads_after(loop: ast.For, name: str, around: ast.AST) -> Iterator[ast.Name]:
    """Where a variable is read after a loop, as the loop left it."""
    end = loop.end_lineno or loop.lineno
    nodes = nodes_of(around)
    later = [node for node in nodes.names.get(name, ()) if node.lineno > end]
    if not later:
        return
    own = {id(node) for node in walk_without_own(name, around)}
    later = [node for node in later if id(node) in own]
    changes = (each for each in nodes.of(ast.Assign, ast.AugAssign) if each.lineno > end)
    changed = {id(node): each for each in changes for node in walk(each)}
    stores = [node for node in later if not isinstance(node.ctx, ast.Load)]
    within = (each for each in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef) if each is not around)
    inside = {id(node) for each in within for node in walk(each)}
    for node in later:
        if id(node) in inside:
            continue
        statement = changed.get(id(node))
        if not isinstance(node.ctx, ast.Load) and not isinstance(statement, ast.AugAssign):
            continue
        before = (each for each in stores if each is not node and each.lineno <= node.lineno)
        if not any(statement is None or changed.get(id(each)) is not statement for each in before):
            yield node


def _names_in(node: ast.AST) -> set[str]:
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
        value = dict(_bindings(loop.body)).get(expression.id)
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
    names = _names_in(loop.iter)
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
    names = _names_in(node) - {"len"}
    is_of_batch = bool(names) and names <= _names_in(loop.target) | set(dict(_bindings(loop.body)))
    return is_of_batch and (text.startswith("len(") or text.endswith((".size(0)", ".shape[0]", ".size()[0]")))
