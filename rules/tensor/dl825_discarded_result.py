"""A result that nobody takes: an operation that changes nothing in place, as a statement.

`labels.to(device)` returns another tensor and leaves `labels` where it is; so do `F.dropout(h)`, `x.unsqueeze(0)` and
`table.sample(frac=1)`. A method without brackets, `optimizer.zero_grad`, is not called at all, and `torch.no_grad()`
is in effect in a `with` alone.

Measured on torch 2.13: after `torch.dropout(h, 0.5, True)` as a statement, 0 of 1,000 numbers of `h` are zero; of its
result, about 500. After `labels.to(torch.float64)` the type of `labels` is still float32; after `model.eval` the model
is in training mode, after `optimizer.step` its weight is 0.0 as before; after `torch.no_grad()` the output of a model
has its graph, and after `torch.autocast("cpu")` it is float32.

## Bad
    for x, labels in loader:
        labels.to(device)
        optimizer.zero_grad
        criterion(model(x), labels).backward()
        optimizer.step()

## Good
    for x, labels in loader:
        labels = labels.to(device)
        optimizer.zero_grad()
        criterion(model(x), labels).backward()
        optimizer.step()

What would change no number, such as `x.detach()`, `x.contiguous()` or `x.unsqueeze(0)`, is a note, and so is a move
such as `x.to(device)`: where it matters, the next operation fails and says so.

## Not reported
Operations in place (`relu_`, `inplace=True`), `x.exp()` and its like of what is not used as tensors are,
`model.to(device)` and batches of tokenizers or graphs, which move themselves; what would make no difference: what a
function made and does not read afterwards, or only moves again, what was made where it is moved to, and indices that
are detached, which have no gradients; `torch.no_grad()` where another one, that is entered, covers what it stands in or
something that comes after it; statements in a `try`, or in a `with` that may watch them; those of a notebook that may
show a value, and code that measures speed. An index that is not set or reset, and rows that are not sorted, are a
question where nothing is seen to go by the order of the rows; so is `optimizer.zero_grad` where another call of it in
the loop clears the same gradients.

## Fix (unsafe)
Assigns the result to the variable, or calls the method. Unsafe because it changes what is computed, as it should.

## On real code
105 public repositories: 1 finding, true: images that stay where they are. In 127 others 1 finding, doubtful: what is
detached had no graph. In 44 others 5, 2 of them true; the others made no difference, and are silent now. None of 363
others calls a context manager as a statement. Dropped roots and exponentials: none in 259 of 800, those that have the
words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Assumption, Context, Edits, Finding, Program, Rule, Site, nodes_of, replace_range

_FUNCTIONS = frozenset(
    ("dropout", "relu", "leaky_relu", "gelu", "elu", "softmax", "log_softmax", "normalize", "sigmoid", "tanh", "pad",
     "interpolate", "clamp", "squeeze", "unsqueeze", "transpose", "permute", "flatten", "reshape")
)  # fmt: skip
_OF_TENSORS = frozenset(("contiguous", "unsqueeze", "squeeze", "permute", "detach", "masked_fill", "clone", "clamp"))
_OF_NUMBERS = frozenset(
    ("sqrt", "rsqrt", "exp", "square", "abs", "sigmoid", "tanh", "softmax", "log_softmax", "pow", "mul", "div")
)
"""Methods of tensors that other things may have as well, and change themselves by."""
_OF_TABLES = frozenset(
    ("sample", "reset_index", "fillna", "dropna", "sort_values", "drop_duplicates", "astype", "set_index", "sort_index",
     "reindex", "ffill", "bfill", "explode", "melt", "pivot_table", "drop", "rename", "replace")
)  # fmt: skip
_TOLD = {  # the arguments that only tables have, of methods that other things have as well
    "sample": ("frac",),
    "drop": ("columns", "index", "axis", "labels"),
    "rename": ("columns", "index"),
    "replace": ("to_replace", "value", "regex"),
}
_CHANGING_MODULES = frozenset(("to", "cuda", "float", "half", "double"))  # those in place, tensors not
_MOVED = frozenset(("labels", "label", "targets", "target", "images", "imgs", "img", "masks", "mask", "x", "y"))
_MOVING = ("to", "cuda", "cpu", "tolist", "item", "shape", "size", "dim", "ndim")  # wherever a tensor is
_DETACHING = ("detach", "item", "shape", "size", "dim", "ndim", "argmax", "data")
_INDICES = frozenset(("argmax", "argmin", "argsort", "nonzero", "multinomial", "randint", "long", "int", "bool", "eq",
                      "ne", "gt", "lt", "ge", "le", "detach"))  # fmt: skip
_WITH_INDICES = frozenset(("max", "min", "topk", "sort", "kthvalue", "median", "mode"))  # values, indices
_TIDY = frozenset(("detach", "contiguous", "clone", "astype", "squeeze", "unsqueeze", "permute", "transpose", "flatten",
                   "reshape"))  # fmt: skip
"""The numbers are the same without them."""
_OF_ROWS = frozenset(("reset_index", "set_index", "sort_index", "sort_values", "reindex"))
_BY_ORDER = frozenset(
    ("iloc", "iat", "head", "tail", "first", "last", "nth", "shift", "diff", "rolling", "ewm", "expanding", "cumsum",
     "cumprod", "cummax", "cummin", "pct_change", "ffill", "bfill", "interpolate", "drop_duplicates", "values",
     "to_numpy", "itertuples", "iterrows")
)  # fmt: skip
_ENTERED = frozenset(
    ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode",
     "torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")
)  # fmt: skip
"""Calling them makes a context manager; what it switches is switched when a ``with`` enters it."""
_GRADIENT_SWITCHES = frozenset(("no_grad", "inference_mode", "set_grad_enabled"))
_CALLED = frozenset(("zero_grad", "step", "backward", "eval", "train", "contiguous", "empty_cache"))

_OF_VALUES = _FUNCTIONS | _OF_TENSORS | _OF_NUMBERS | _OF_TABLES
_NAMES = _OF_VALUES | _CHANGING_MODULES | _CALLED | {"no_grad", "inference_mode", "autocast"}

# ------------------------------------------------------------------------------------------------- excuses


def works_in_place(site: Site, name: str, ctx: Context) -> bool:
    """it is told to work in place, or to write its result somewhere"""
    call = site.node
    given = {each.arg for each in call.keywords} if isinstance(call, ast.Call) else set()
    return bool(given & {"inplace", "out"})


def is_timed(site: Site, name: str, ctx: Context) -> bool:
    """names say that speed is measured there, or what a shape is"""
    return ctx.speaks_of("benchmark", ctx.scope(site)) or ctx.speaks_of(
        "benchmark", site.module.path.rpartition("/")[2]
    )


def is_element(site: Site, name: str, ctx: Context) -> bool:
    """what is detached is one of several that a loop goes through, such as parameters: nobody reads it afterwards"""
    variable = _operand(site, name)
    if _method(site) != "detach":
        return False
    loops = (node for node in ast.walk(site.module.tree) if isinstance(node, ast.For | ast.AsyncFor))
    return any(variable == getattr(loop.target, "id", "") and site.node in ast.walk(loop) for loop in loops)


def is_not_missed(site: Site, name: str, ctx: Context) -> bool:
    """the variable holds what was made here, and nobody reads it afterwards, or only to do the same again"""
    variable, method = _operand(site, name), _method(site)
    if not variable or not isinstance(ctx.bound_to(variable, site), ast.Call | ast.BinOp):
        return False  # it may be somebody else's, who waits for it to be changed
    again = _MOVING if method in _MOVING else _DETACHING if method == "detach" else ()
    reads = (Site(site.module, read) for read in ctx.reads_after(variable, site))
    return all(_is_taken_by(again, read, ctx) for read in reads)


def has_no_gradients(site: Site, name: str, ctx: Context) -> bool:
    """what is detached are indices, or another result that has no gradients"""
    variable = _operand(site, name)
    if _method(site) != "detach" or not variable:
        return False
    inside = list(ast.walk(_scope_of(site, ctx)))
    made = [each for node in inside if isinstance(node, ast.Assign) for each in _bound_to(variable, node)]
    bound = [each for each in inside if isinstance(each, ast.Name | ast.arg) and _is_bound(variable, each)]
    return len(made) == len(bound) and bool(made) and all(_is_without_graph(value, place) for value, place in made)


def is_there_already(site: Site, name: str, ctx: Context) -> bool:
    """what is moved was made where it is moved to: `torch.ones(2, device=device)`"""
    call, variable = site.node, _operand(site, name)
    made = ctx.bound_to(variable, site) if variable and _method(site) in _MOVING else None
    if not isinstance(call, ast.Call) or not isinstance(made, ast.Call):
        return False
    place = next((each.value for each in made.keywords if each.arg == "device"), None)
    return place is not None and [ast.unparse(place)] == [ast.unparse(each) for each in call.args]


def is_entered_beside(site: Site, name: str, ctx: Context) -> bool:
    """gradients or precision are switched around it as well, or in what comes after it"""
    if name not in _ENTERED:
        return False
    blocks = [*ctx.ancestors(site, ast.AST), *(inner for each in _rest_of_block(site, ctx) for inner in ast.walk(each))]
    switches = [_called_in(entered) for block in blocks for entered in _entered_by(block)]
    calls = {_called_in(call) for call in nodes_of(_scope_of(site, ctx)).of(ast.Call)}
    alike = {"autocast"} if name.endswith("autocast") else _GRADIENT_SWITCHES
    return not alike.isdisjoint(switches) or (alike is _GRADIENT_SWITCHES and "set_grad_enabled" in calls)


class DiscardedResult(Rule):
    code = "DL825"
    name = "discarded-result"
    category = "correctness"
    severity = "warning"
    triggers = (("torch", "pandas"), tuple(sorted(_NAMES)))
    of_files = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/autograd.html#in-place-operations-with-autograd",)
    excuses = (
        works_in_place,
        is_timed,
        is_element,
        has_no_gradients,
        is_there_already,
        is_entered_beside,
        is_not_missed,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        if ctx.is_unit_test:
            return
        for site, name in ctx.discarded():
            if _is_uncalled(site.node, ctx):
                if not ctx.excused(self, site, name):
                    yield self._report(site, f"`{ctx.source_of(site)}` is not called", _with_brackets(site, ctx), ctx)
            elif name in _ENTERED:
                if _switches(site.node) and not ctx.excused(self, site, name):
                    yield self._report_unentered(site, ctx)
            elif _is_pure(site, name, ctx) and not ctx.excused(self, site, name):
                assert isinstance(site.node, ast.Call)
                what = ctx.source_of(Site(site.module, site.node.func))
                yield self._report(site, f"nobody takes the result of `{what}`", _assigned(site, name, ctx), ctx)

    def _report(self, site: Site, message: str, edits: Edits, ctx: Context) -> Finding:
        is_call = isinstance(site.node, ast.Call)
        function = site.node.func if isinstance(site.node, ast.Call) else site.node
        name = getattr(function, "attr", getattr(function, "id", ""))
        changes_no_number = name in _TIDY or (is_call and name in _CHANGING_MODULES)
        return ctx.finding(
            self,
            site,
            message,
            assuming=_assumed_missed(site, ctx),
            effect="everything stays as it was" if is_call else "nothing happens: the method is named and not called",
            help="assign the result" if is_call else "write the brackets",
            trace=[(site, "stands as a statement by itself")],
            fix=("Assign the result" if is_call else "Call the method", edits),
            severity="info" if changes_no_number else None,
        )

    def _report_unentered(self, site: Site, ctx: Context) -> Finding:
        what = ctx.source_of(site)
        return ctx.finding(
            self,
            site,
            f"`{what}` is called and not entered",
            effect="everything stays as it was: it switches in a `with` alone",
            help=f"write `with {what}:` around what it is meant for",
            trace=[(site, "stands as a statement by itself")],
        )


def _rest_of_block(site: Site, ctx: Context) -> list[ast.stmt]:
    """The statements that come after a statement in its block."""
    statement, around, *_ = (*ctx.ancestors(site, ast.AST), site.module.tree)
    bodies: list[list[ast.stmt]] = [getattr(around, name, []) for name in ("body", "orelse", "finalbody")]
    return next((body[body.index(statement) + 1 :] for body in bodies if statement in body), [])


def _entered_by(node: ast.AST) -> list[ast.expr]:
    """What is in effect in a block: what its ``with`` enters, or what a function is decorated with."""
    if isinstance(node, ast.With | ast.AsyncWith):
        return [item.context_expr for item in node.items]
    return list(getattr(node, "decorator_list", ()))


def _called_in(node: ast.expr) -> str:
    """``no_grad`` of ``torch.no_grad()``, and of ``torch.no_grad``."""
    function = node.func if isinstance(node, ast.Call) else node
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _switches(node: ast.AST) -> bool:
    """Whether a call makes what would switch something: ``autocast(enabled=False)`` leaves all as it is."""
    given = [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []
    is_off = any(isinstance(each, ast.Constant) and each.value is False for each in given)
    return isinstance(node, ast.Call) and not is_off


def _assumed_missed(site: Site, ctx: Context) -> Iterator[Assumption]:
    """That what is not done would make a difference: something goes by the rows, or gradients are left over."""
    method, table = _method(site), _operand(site, "")
    if method in _OF_ROWS and ctx.imports("pandas"):
        reads = (next(ctx.ancestors(Site(site.module, read), ast.AST), None) for read in ctx.reads_after(table, site))
        is_ordered = any(isinstance(each, ast.Attribute) and each.attr in _BY_ORDER for each in reads)
        if not is_ordered or not method.startswith("sort"):
            yield Assumption("effect", f"something goes by the order of the rows of `{table}`, or by their labels")
    elif isinstance(site.node, ast.Attribute) and site.node.attr == "zero_grad" and _is_cleared_beside(site, ctx):
        told = f"gradients are left over that no other call of `{ctx.source_of(site)}` in the loop clears"
        yield Assumption("effect", told)


def _is_cleared_beside(site: Site, ctx: Context) -> bool:
    """Whether the same gradients are cleared by a call in the same loop, under no condition that is not the same."""
    scope = _scope_of(site, ctx)
    around = [node for node in ctx.ancestors(site, ast.For, ast.While) if node in ast.walk(scope)]
    tests = list(ctx.ancestors(site, ast.If))
    for call in nodes_of(scope).of(ast.Call):
        if ast.dump(call.func) != ast.dump(site.node):
            continue
        place = Site(site.module, call)
        is_inside = all(loop in ctx.ancestors(place, ast.For, ast.While) for loop in around)
        if is_inside and all(test in tests for test in ctx.ancestors(place, ast.If)):
            return True
    return False


def _is_uncalled(node: ast.AST, ctx: Context) -> bool:
    """Whether a method of an optimizer, a model or a tensor is named and not called."""
    if not isinstance(node, ast.Attribute) or node.attr not in _CALLED or not ctx.imports("torch"):
        return False
    owner = ast.unparse(node.value).rpartition(".")[2].lower()
    if node.attr == "step":
        return ctx.speaks_of("optimizer", owner) or owner.startswith("sched")
    return node.attr not in ("eval", "train") or "model" in owner or owner.endswith("net")


def _is_pure(site: Site, name: str, ctx: Context) -> bool:
    """Whether a call gives a result and does nothing else."""
    node = site.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
        return False
    library, _, last = name.rpartition(".")
    if library in ("torch", "torch.nn.functional"):
        return last in _FUNCTIONS
    if name or not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Name):
        return False
    method, owner = node.func.attr, node.func.value.id
    if owner == "self" and _has_its_own(method, site, ctx):
        return False
    if method in _OF_TABLES:
        given = {each.arg for each in node.keywords}
        return ctx.imports("pandas") and (method not in _TOLD or not given.isdisjoint(_TOLD[method]))
    if method in _OF_NUMBERS:
        return ctx.imports("torch") and ctx.is_used_as_tensor(owner, site)
    if method not in _CHANGING_MODULES:
        return method in _OF_TENSORS and ctx.imports("torch")
    return owner in _MOVED or (ctx.imports("torch") and ctx.is_used_as_tensor(owner, site))


def _has_its_own(method: str, site: Site, ctx: Context) -> bool:
    """Whether the class around has a method of this name itself, which may do anything."""
    owner = next(ctx.ancestors(site, ast.ClassDef), None)
    return owner is not None and any(getattr(each, "name", "") == method for each in owner.body)


def _method(site: Site) -> str:
    call = site.node
    return call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""


def _operand(site: Site, name: str) -> str:
    """The variable whose value an operation takes: ``x`` of ``x.detach()`` and of ``F.relu(x)``."""
    call = site.node
    if not isinstance(call, ast.Call) or name in _ENTERED:
        return ""
    owner = call.func.value if isinstance(call.func, ast.Attribute) and not name else None
    first = owner if owner is not None else call.args[0] if call.args else None
    return first.id if isinstance(first, ast.Name) else ""


def _scope_of(site: Site, ctx: Context) -> ast.AST:
    definitions = ast.FunctionDef | ast.AsyncFunctionDef
    return next(ctx.ancestors(site, definitions), site.module.tree)  # type: ignore[arg-type]


def _is_taken_by(methods: tuple[str, ...], read: Site, ctx: Context) -> bool:
    """Whether a variable is read for one of some methods or attributes alone: ``x.cpu().numpy()``."""
    around = next(iter(ctx.ancestors(read, ast.AST)), None)
    return isinstance(around, ast.Attribute) and around.attr in methods


def _is_bound(variable: str, node: ast.Name | ast.arg) -> bool:
    if isinstance(node, ast.arg):
        return node.arg == variable
    return node.id == variable and isinstance(node.ctx, ast.Store)


def _bound_to(variable: str, statement: ast.Assign) -> Iterator[tuple[ast.expr, int | None]]:
    """What an assignment binds a variable to, and which of several results it is."""
    for target in statement.targets:
        if isinstance(target, ast.Name) and target.id == variable:
            yield statement.value, None
        elif isinstance(target, ast.Tuple):
            names = (getattr(each, "id", "") for each in target.elts)
            yield from ((statement.value, place) for place, name in enumerate(names) if name == variable)


def _is_without_graph(value: ast.expr, place: int | None) -> bool:
    """Whether a result has no gradients: ``x.argmax(1)``, ``x.max(1)[1]``, ``torch.topk(x, 3).indices``, ``a > b``."""
    if isinstance(value, ast.Compare):
        return True
    if isinstance(value, ast.Attribute):
        return value.attr == "indices"
    if isinstance(value, ast.Subscript):
        index = value.slice.value if isinstance(value.slice, ast.Constant) else None
        return index == 1 and _method_name(value.value) in _WITH_INDICES
    return _method_name(value) in _INDICES or (place == 1 and _method_name(value) in _WITH_INDICES)


def _method_name(value: ast.expr) -> str:
    return str(getattr(value.func, "attr", "")) if isinstance(value, ast.Call) else ""


def _with_brackets(site: Site, ctx: Context) -> Edits:
    owner = site.node.value if isinstance(site.node, ast.Attribute) and site.node.attr in _OF_TENSORS else None
    target = f"{owner.id} = " if isinstance(owner, ast.Name) else ""
    return replace_range(site, f"{target}{ctx.source_of(site)}()") if target or owner is None else Edits()


def _assigned(site: Site, name: str, ctx: Context) -> Edits:
    """``x.f()`` as ``x = x.f()``, ``F.relu(x)`` as ``x = F.relu(x)``."""
    variable = _operand(site, name)
    return replace_range(site, f"{variable} = {ctx.source_of(site)}") if variable else Edits()
