"""A `torch.device` compared with a text, which never equals it.

`device == "cuda"` is false for every `torch.device`, also for `torch.device("cuda")`, and `device != "cpu"` is true.
What stands under such a condition never happens, or always: mixed precision, several devices, pinned memory.

Measured on torch 2.13: `torch.device("cuda") == "cuda"`, `torch.device("cpu") == "cpu"` and `torch.device("cuda") in
("cuda",)` are all false; `torch.device("cuda").type == "cuda"` is true.

## Bad
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda":
        model = nn.DataParallel(model)

## Good
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        model = nn.DataParallel(model)

## Not reported
Names that are also bound to something else, parameters that are not declared as `torch.device`, attributes of objects,
and `device.type`, `str(device)`; comparisons on which only `pin_memory`, seeds of GPUs or their caches depend, what is
printed, or moves that may always be made (`x.cpu()` where the device is not `"cpu"`). A note, and no warning: where
nothing is known to change, as what the branch moves is moved in any case, or a function of the project is told.

## Fix (unsafe)
Compares `device.type`, where the text is the name of a kind of device. Unsafe because what stood under the condition
happens then.

## On real code
235 public repositories: no finding. In 1,300 others, as they were read, 7 of 9 were true; a model that is moved in any
case was doubtful, and is a note since; the other doubtful one is left, a model to look at that needs no other devices.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from dllint.api import Context, Edits, Finding, Program, Rule, Site, nodes_of, replace_range

_KINDS = ("cpu", "cuda", "mps", "xpu")
_MAKERS = ("torch.device", "torch.accelerator.current_accelerator")
_IDLE = frozenset(("pin_memory", "non_blocking", "manual_seed", "manual_seed_all", "empty_cache", "synchronize"))
_MOVES = frozenset(("to", "cuda"))
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


# ------------------------------------------------------------------------------------------------- excuses


def is_of_no_consequence(place: Site, ctx: Context) -> bool:
    """only what does nothing on the other device depends on it: `pin_memory`, seeds of GPUs, caches, what is printed"""
    around = _decided(place, ctx)
    if isinstance(around, ast.Call):
        return any(each.value is place.node and each.arg in _IDLE for each in around.keywords)
    if around is None or around.orelse:
        return False
    return all(_is_idle(each, place, ctx) or _is_harmless_move(each, place) for each in around.body)


def _decided(place: Site, ctx: Context) -> ast.Call | ast.If | None:
    """The call that gets what a comparison gives, or the branch that it decides about."""
    inner: ast.AST = place.node
    for node in ctx.ancestors(place, ast.AST):
        if isinstance(node, ast.Call):
            return node
        if isinstance(node, ast.stmt | ast.IfExp | ast.Lambda):
            return node if isinstance(node, ast.If) and inner is node.test else None
        inner = node
    return None


def _is_idle(statement: ast.stmt, place: Site, ctx: Context) -> bool:
    """Whether a statement does nothing where there is no GPU, or only tells something about one that is there."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(value, ast.Call):
        return isinstance(statement, ast.Pass)
    called = [getattr(each.func, "attr", getattr(each.func, "id", "")) for each in nodes_of(value).of(ast.Call)]
    if called[0] in _IDLE:
        return True
    may_ask = not _is_always_true(place) or len(called) == 1  # of a GPU, which fails where there is none
    return may_ask and ctx.speaks_of("logging", called[0]) and _MOVES.isdisjoint(called)


def _is_harmless_move(statement: ast.stmt, place: Site) -> bool:
    """Whether it is always done and may always be: `x = x.cpu()`, or `x.to(device)` of the very device."""
    call = getattr(statement, "value", None)
    if not _is_always_true(place) or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    assert isinstance(place.node, ast.Compare)
    is_there = call.func.attr == "to" and [ast.unparse(each) for each in call.args] == [ast.unparse(place.node.left)]
    return is_there or call.func.attr == "cpu"


def _is_always_true(place: Site) -> bool:
    return isinstance(place.node, ast.Compare) and isinstance(place.node.ops[0], ast.NotEq | ast.NotIn)


# ------------------------------------------------------------------------------------------ effects on results


def _changes_something(place: Site, ctx: Context) -> bool:
    """Whether more depends on a comparison than what is done in any case, is told, or is up to code of the project."""
    around = _decided(place, ctx)
    if isinstance(around, ast.Call):
        name = getattr(around.func, "id", "")
        return not name or not any(True for _ in ctx.functions(name, name))
    if around is None:
        return True
    statements = [*around.body, *around.orelse]
    return not all(_is_idle(each, place, ctx) or _is_done_anyway(each, around, place, ctx) for each in statements)


def _is_done_anyway(statement: ast.stmt, branch: ast.If, place: Site, ctx: Context) -> bool:
    """Whether a statement of a branch moves to the device what other code around moves as well: `model.cuda()`."""
    moved = _moved_by(statement)
    scope = next(ctx.ancestors(place, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module))
    assert isinstance(scope, _Scope)
    inside = {id(node) for node in ast.walk(branch)}
    others = (each for each in _nodes_of(scope) if isinstance(each, ast.stmt) and id(each) not in inside)
    return moved != "" and any(_moved_by(each) == moved for each in others)


def _moved_by(statement: ast.stmt) -> str:
    """What a statement moves to a device: `x` in `x.to(device)`, `x = x.cuda()` and `x = Net().to(device)`."""
    call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _MOVES:
        return ""
    return ast.unparse(statement.targets[0] if isinstance(statement, ast.Assign) else call.func.value)


class DeviceComparedWithString(Rule):
    code = "DL831"
    name = "device-compared-with-string"
    category = "correctness"
    severity = "warning"
    since = "0.1.0"
    triggers = (("device",), _KINDS)
    of_files = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device",)
    excuses = (is_of_no_consequence,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        compared = list(_compared(program))
        if not compared:
            return
        nodes = nodes_of(program.module.tree)
        names = {node.left.id for node, _ in compared if isinstance(node.left, ast.Name)}
        makers = {id(site.node) for site, _ in ctx.uses_of(_MAKERS)} | _calls_of_choosers(
            names, nodes.of(ast.Assign), ctx
        )
        made = (node for node in nodes.of(ast.Assign) if _makes_device(node.value, makers))
        devices = {getattr(target, "id", "") for node in made for target in node.targets}
        devices |= {node.arg for node in nodes.of(ast.arg) if _is_annotated(node, makers)}
        for node, text in compared:
            name = node.left.id if isinstance(node.left, ast.Name) else ""
            place = Site(program.module, node)
            if name not in devices or not _is_device(name, place, makers, ctx) or ctx.excused(self, place):
                continue
            yield self._report(place, node, text, ctx)

    def _report(self, at: Site, node: ast.Compare, text: str, ctx: Context) -> Finding:
        name = ast.unparse(node.left)
        is_equal = isinstance(node.ops[0], ast.Eq | ast.In)
        edits = replace_range(Site(at.module, node.left), f"{name}.type") if text in _KINDS else Edits()
        return ctx.finding(
            self,
            at,
            f"`{ctx.source_of(at)}` is always {'false' if is_equal else 'true'}: this is a `torch.device`, and no text",
            effect="what stands under the condition never happens" if is_equal else "the condition decides nothing",
            help=f"compare `{name}.type`",
            fix=("Compare the kind of the device", edits),
            severity=None if _changes_something(at, ctx) else "info",
        )


def _compared(program: Program) -> Iterator[tuple[ast.Compare, str]]:
    """The comparisons of a name with a text in a file, each with the text."""
    for node in nodes_of(program.module.tree).of(ast.Compare):
        if len(node.ops) == 1 and isinstance(node.left, ast.Name):
            text = _text(node)
            if text is not None:
                yield node, text


def _calls_of_choosers(names: set[str], assignments: Sequence[ast.Assign], ctx: Context) -> set[int]:
    """What is called for some names that is a function of the project which returns a `torch.device(...)` and nothing
    else."""
    calls = [
        node.value.func
        for node in assignments
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        if any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    ]
    called = {call.id for call in calls}
    choosers: dict[str, bool] = {}
    for function in (each for name in sorted(called) for each in ctx.functions(name, "device")):
        returned = [node.value for node in _nodes_of(function) if isinstance(node, ast.Return)]
        is_chooser = bool(returned) and all(_is_made_by_name(value) for value in returned)
        choosers[function.name] = is_chooser and choosers.get(function.name, True)
    return {id(call) for call in calls if choosers.get(call.id)}


def _is_made_by_name(value: ast.expr | None) -> bool:
    func = value.func if isinstance(value, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr == "device" and isinstance(func.value, ast.Name)


def _text(node: ast.Compare) -> str | None:
    """The text that something is compared with; an empty one for several (`in ("cuda", "cuda:0")`)."""
    other = node.comparators[0]
    if isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return other.value if isinstance(other, ast.Constant) and isinstance(other.value, str) else None
    items = other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else []
    are_texts = items and all(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in items)
    if not isinstance(node.ops[0], ast.In | ast.NotIn) or not are_texts:
        return None
    return _KINDS[0] if all(item.value in _KINDS for item in items if isinstance(item, ast.Constant)) else ""


def _is_device(name: str, at: Site, makers: set[int], ctx: Context) -> bool:
    """Whether a name is only ever bound to a `torch.device`, in the innermost function that binds it, or the module."""
    for scope in ctx.ancestors(at, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module):
        assert isinstance(scope, _Scope)
        nodes = _nodes_of(scope)
        bound = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and not _is_value_read(node)]
        if not isinstance(scope, ast.Module) and name in _parameters(scope):
            return not bound and _is_annotated(_parameters(scope)[name], makers)
        if bound:
            made = [node for node in nodes if isinstance(node, ast.Assign) and _makes_device(node.value, makers)]
            targets = {id(node.targets[0]) for node in made if len(node.targets) == 1}
            return all(id(node) in targets for node in bound)
    return False


@lru_cache(maxsize=16)
def _nodes_of(scope: _Scope) -> list[ast.AST]:
    """The nodes of a function or module, without those of functions and classes in it."""
    pending: list[ast.AST] = list(scope.body)
    found: list[ast.AST] = []
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))
    return found


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.arg]:
    given = function.args
    several = [each for each in (given.vararg, given.kwarg) if each is not None]
    return {each.arg: each for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several)}


def _is_annotated(parameter: ast.arg, makers: set[int]) -> bool:
    """Whether a parameter is declared as a `torch.device`."""
    return parameter.annotation is not None and id(parameter.annotation) in makers


def _is_value_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _makes_device(value: ast.expr, makers: set[int]) -> bool:
    """Whether an expression is a `torch.device(...)`, or one of two."""
    if isinstance(value, ast.IfExp):
        return _makes_device(value.body, makers) and _makes_device(value.orelse, makers)
    return isinstance(value, ast.Call) and id(value.func) in makers
