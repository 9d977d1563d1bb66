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
and `device.type`, `str(device)`; comparisons on which only `pin_memory`, seeds of GPUs or their caches depend.

## Fix (unsafe)
Compares `device.type`, where the text is the name of a kind of device. Unsafe because what stood under the condition
happens then.

## On real code
235 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from dllint.api import Context, Edits, Finding, Program, Rule, Site, nodes_of, replace_range

_KINDS = ("cpu", "cuda", "mps", "xpu")
_MAKERS = ("torch.device", "torch.accelerator.current_accelerator")
_IDLE = frozenset(
    ("pin_memory", "non_blocking", "manual_seed", "manual_seed_all", "empty_cache", "synchronize", "print")
)
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


def is_of_no_consequence(place: Site, ctx: Context) -> bool:
    """only what does nothing on the other device depends on it: `pin_memory`, seeds of GPUs, caches"""
    for node in ctx.ancestors(place, ast.Call, ast.If):
        if isinstance(node, ast.Call):
            return any(each.value is place.node and each.arg in _IDLE for each in node.keywords)
        assert isinstance(node, ast.If)
        calls = [each.value for each in node.body if isinstance(each, ast.Expr)]
        return len(calls) == len(node.body) and not node.orelse and all(map(_is_idle, calls))
    return False


def _is_idle(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "attr", getattr(value.func, "id", "")) in _IDLE


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
