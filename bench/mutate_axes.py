"""Bugs of the rules about axes: shapes, layers, parameters and devices."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from textwrap import dedent

from mutating import Code, Edit, keyword_of, mutates, name_of, without_keyword


@mutates("DL821")
def view_as_transpose(code: Code) -> Iterator[Edit]:
    """``x.view(a, b, c, d).transpose(1, 2)`` becomes ``x.view(a, c, b, d)``; ``permute`` of a name a ``reshape``."""
    for call in code.calls("transpose"):
        inner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not (isinstance(inner, ast.Call) and name_of(inner.func) == "view" and len(inner.args) == 4):
            continue
        if [getattr(each, "value", None) for each in call.args] == [1, 2]:
            sizes = [code.source(each) for each in inner.args]
            sizes[1], sizes[2] = sizes[2], sizes[1]
            yield code.replace(call, f"{code.source(inner.func)}({', '.join(sizes)})")
    for call in code.calls("permute"):
        axes = [getattr(each, "value", None) for each in call.args]
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and axes[:1] == [0]:
            name = call.func.value.id
            if sorted(map(str, axes)) == [str(number) for number in range(len(axes))]:
                yield code.replace(call, f"{name}.reshape({', '.join(f'{name}.size({axis})' for axis in axes)})")


@mutates("DL823")
def softmax_over_wrong_axis(code: Code) -> Iterator[Edit]:
    """The softmax of attention, whose weights are multiplied afterwards, is no longer over the last axis."""
    for call in code.calls("softmax"):
        dim = keyword_of(call, "dim")
        assigned = code.parents.get(id(call))
        if dim is None or ast.unparse(dim.value) != "-1" or not isinstance(assigned, ast.Assign):
            continue
        name = getattr(assigned.targets[0], "id", "")
        words = code.around(call).replace(" ", "")
        if name and any(each in words for each in (f"matmul({name}", f"bmm({name}", f"{name}@")):
            yield code.replace(dim.value, "-2")


@mutates("DL824")
def layer_size_mismatch(code: Code) -> Iterator[Edit]:
    """A linear layer in a ``Sequential`` expects one feature more than it gets."""
    for call in code.calls("Linear"):
        around = code.parents.get(id(call))
        if not (isinstance(around, ast.Call) and name_of(around.func) == "Sequential" and call is not around.args[0]):
            continue
        if call.args and isinstance(call.args[0], ast.Constant):
            yield code.replace(call.args[0], str(call.args[0].value + 1))


PURE = ("to", "detach", "clone", "clamp", "float", "long", "contiguous", "squeeze", "unsqueeze", "masked_fill", "cuda")


@mutates("DL825")
def discarded_result(code: Code) -> Iterator[Edit]:
    """``x = x.to(device)`` loses its assignment."""
    for node in code.nodes:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(ast.Name(receiver), method))
            ):
                if name == receiver and method in PURE and not any(word in name for word in ("model", "net")):
                    yield code.replace(node, code.source(node.value))


_WITHOUT_WEIGHTS = ("Dropout", "ReLU", "GELU", "Identity", "Sigmoid", "Tanh", "MaxPool2d")


@mutates("DL826")
def repeated_module(code: Code) -> Iterator[Edit]:
    """``[Block(...) for _ in range(n)]`` becomes ``[Block(...)] * n``."""
    for node in code.nodes:
        match node:
            case ast.ListComp(
                elt=ast.Call(func=made),
                generators=[ast.comprehension(ast.Name(index), ast.Call(ast.Name("range"), [count]), [])],
            ):
                uses = {each.id for each in ast.walk(node.elt) if isinstance(each, ast.Name)}
                around = code.parents.get(id(node))
                is_module = isinstance(around, ast.Call) and name_of(around.func) in ("ModuleList", "Sequential")
                if is_module and index not in uses and name_of(made) and name_of(made) not in _WITHOUT_WEIGHTS:
                    times = (
                        code.source(count) if isinstance(count, ast.Name | ast.Attribute) else f"({code.source(count)})"
                    )
                    yield code.replace(node, f"[{code.source(node.elt)}] * {times}")


@mutates("DL827")
def unregistered_tensor(code: Code) -> Iterator[Edit]:
    """``self.x = nn.Parameter(torch.randn(n))`` becomes ``torch.randn(n, requires_grad=True)``, others ``.cuda()``."""
    for call in code.calls("Parameter"):
        made = call.args[0] if call.args else None
        if not isinstance(code.parents[id(call)], ast.Assign) or call.keywords:
            continue
        if isinstance(made, ast.Call) and code.source(made.func) in ("torch.randn", "torch.rand"):
            yield code.replace(call, f"{code.source(made)[:-1]}, requires_grad=True)")
        else:
            yield code.replace(call, f"{code.source(call)}.cuda()")


_FILLS = (
    r"(?:\w_|init\w*|copy)\((?:\w+\()*[^()\n]*\bself\.{0}\b"  # trunc_normal_(self.x, init.zeros_(self.x
    r"|\bself\.{0}(?:\.data)?(?:\.\w+_\(|\[[^]]*\] *=|\.data\b)"  # self.x.data.fill_(, self.x[0] =
)


@mutates("DL828")
def uninitialized_parameter(code: Code) -> Iterator[Edit]:
    """``self.x = nn.Parameter(torch.zeros(n))``, which no code of its class fills, becomes ``torch.empty(n)``."""
    for call in code.calls("Parameter"):
        owner, held = code.outer(call, ast.ClassDef), code.outer(call, ast.Assign)
        name = name_of(held.targets[0]) if isinstance(held, ast.Assign) else ""
        if not isinstance(owner, ast.ClassDef) or re.search(_FILLS.format(name), code.source(owner)):
            continue
        match call.args:
            case [ast.Call(func=ast.Attribute(ast.Name("torch"), "zeros" | "ones" | "randn")) as made, *_]:
                yield code.replace(made.func, "torch.empty")


_LAST_STEPS = ("[:, -1", ".mean(1)", ".mean(dim=1)", "mean(1, ")


@mutates("DL829")
def batch_first_mismatch(code: Code) -> Iterator[Edit]:
    """A layer that was made with ``batch_first=True``, of which the last step or the mean is taken, is made without."""
    for call in code.calls("LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoderLayer"):
        owner = code.outer(call, ast.ClassDef)
        around = code.source(owner) if isinstance(owner, ast.ClassDef) else ""
        told = keyword_of(call, "batch_first")
        is_told = told is not None and getattr(told.value, "value", None) is True
        if is_told and "pack" not in around and any(step in around for step in _LAST_STEPS):
            yield without_keyword(code, call, "batch_first")


_CRITERIA = ("criterion", "loss_fn", "loss_func", "bce", "BCEWithLogitsLoss()", "BCELoss()", "logits", "cross_entropy")


@mutates("DL830")
def squeeze_drops_batch(code: Code) -> Iterator[Edit]:
    """``squeeze`` of one axis becomes one of all, in what a binary cross-entropy is given or a model has returned."""
    if not any(loss in code.text for loss in ("BCE", "binary_cross_entropy")) or "DataLoader" not in code.text:
        return
    for call in code.calls("squeeze"):
        is_method = isinstance(call.func, ast.Attribute) and name_of(call.func.value) != "torch"
        if not is_method or [ast.unparse(each) for each in call.args] not in (["1"], ["-1"]):
            continue
        statement = code.outer(call, ast.stmt)
        words = code.around(call).replace(" ", "").replace(".float()", "")
        bound = getattr(statement.targets[0], "id", "") if isinstance(statement, ast.Assign) else ""
        is_whole = isinstance(statement, ast.Assign) and statement.value is call
        given = bound if is_whole and bound else code.source(call).replace(" ", "")
        if any(f"{loss}({given}," in words for loss in _CRITERIA):
            yield code.replace(call, f"{code.source(call.func)}()")


@mutates("DL831")
def device_compared_with_string(code: Code) -> Iterator[Edit]:
    """``device.type == "cuda"`` becomes ``device == "cuda"``."""
    for node in code.nodes:
        match node:
            case ast.Compare(
                left=ast.Attribute(ast.Name() as value, "type"), comparators=[ast.Constant("cuda" | "cpu" | "mps")]
            ):
                name, around = value.id, code.around(node)
                is_given = any(
                    arg.arg == name for arg in ast.walk(ast.parse(dedent(around))) if isinstance(arg, ast.arg)
                )
                where = around if is_given or f"{name} =" in around else code.text
                if f"{name}: torch.device" in where or (not is_given and f"{name} = torch.device(" in where):
                    yield code.replace(node.left, name)


@mutates("DL219")
def bidirectional_last_step(code: Code) -> Iterator[Edit]:
    """A recurrent layer of which the last step is used, as its class says, reads in both directions."""
    for call in code.calls("LSTM", "GRU", "RNN"):
        owner, statement = code.outer(call, ast.ClassDef), code.parents.get(id(call))
        if not isinstance(owner, ast.ClassDef) or not isinstance(statement, ast.Assign):
            continue
        words = code.source(owner).replace(" ", "")
        name = code.source(statement.targets[0])
        outputs = [line.partition(",")[0].lstrip("(") for line in words.splitlines() if f"={name}(" in line]
        is_taken = any(f"{each}[:,-1" in words for each in outputs)
        if is_taken and keyword_of(call, "bidirectional") is None and "pack" not in words:
            yield Edit(*[code.span(call)[1] - 1] * 2, ", bidirectional=True", call.lineno)


@mutates("DL114")
def implicit_softmax_dim(code: Code) -> Iterator[Edit]:
    """A softmax is no longer told its axis."""
    for call in code.calls("softmax", "log_softmax", "Softmax", "LogSoftmax"):
        if code.source(call.func).startswith(("F.", "nn.")) and keyword_of(call, "dim") is not None:
            yield without_keyword(code, call, "dim")


_NUMBERS = ("MSELoss", "mse_loss", "L1Loss", "l1_loss", "SmoothL1Loss", "smooth_l1_loss", "huber_loss")
_COLUMN = re.compile(r"Linear\([^()]*, *1\)")


@mutates("DL117")
def loss_broadcast(code: Code) -> Iterator[Edit]:
    """What makes a row of the (N, 1) of a model is left out, in it or before a loss over numbers; or the targets stay
    rows."""
    made = [node for node in code.nodes if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    kinds: dict[str, set[str]] = {}
    for node in made:
        kinds.setdefault(name_of(node.targets[0]), set()).add(name_of(node.value.func))
    criteria = {name for name, made_by in kinds.items() if name and made_by <= set(_NUMBERS)}
    calls = [call for call in code.calls(*_NUMBERS, *criteria) if len(call.args) >= 2]
    for call in calls if calls and _has_column(code) else ():
        yield from _without(_column_in, code, call, call.args[:2])
        yield from _without(_row_in, code, call, [call.args[1]])
    words = f"{code.text}\n{code.others() if code.imports_own() or 'DataLoader' not in code.text else ''}"
    if _COLUMN.search(code.text) and any(f"{loss}(" in words for loss in _NUMBERS) and "BCE" not in words:
        yield from _columns_returned(code)


def _columns_returned(code: Code) -> Iterator[Edit]:
    """What makes a row of the (N, 1) of its last layer is left out, at the end of a forward."""
    for node in code.nodes:
        match node:
            case ast.Return(ast.Call() as made):
                forward, inner = code.outer(node, ast.FunctionDef), _column_in(made)
                is_forward = isinstance(forward, ast.FunctionDef) and forward.name == "forward"
                if is_forward and isinstance(inner, ast.Call) and code.source(inner.func).startswith("self."):
                    yield code.replace(made, code.source(inner))


def _has_column(code: Code) -> bool:
    """Whether a layer returns one number for each sample: in the file, in those that it imports, or, where these have
    no models, in any one of its repository."""
    if _COLUMN.search(code.text) is not None:
        return True
    imported = code.imported() if code.imports_own() else ""
    models = imported if "Module)" in imported else code.others() if code.imports_own() else ""
    return _COLUMN.search(models) is not None


@mutates("DL822")
def stray_axis_broadcast(code: Code) -> Iterator[Edit]:
    """What makes a row of the (N, 1) that a model returns is left out, before a loss that is written by hand."""
    for node in code.nodes if "backward()" in code.text and _COLUMN.search(code.text) else ():
        match node:
            case ast.BinOp(ast.BinOp(left, ast.Sub(), right), ast.Pow(), ast.Constant(2)):
                yield from _without(_column_in, code, node, [left, right])
            case ast.Call(ast.Attribute(ast.BinOp(left, ast.Sub(), right), "pow" | "abs" | "square")):
                yield from _without(_column_in, code, node, [left, right])


def _without(
    inner_of: Callable[[ast.expr], ast.expr | None], code: Code, at: ast.AST, sides: list[ast.expr]
) -> Iterator[Edit]:
    """The one side that is given another shape, in place or where it was bound in the function, as it was before."""
    function = code.outer(at, (ast.FunctionDef, ast.Module))
    blocks = _blocks_around(code, at)
    bound = {
        node.targets[0].id: node.value
        for node in ast.walk(function or code.tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if id(code.parents.get(id(node))) in blocks and node.lineno <= getattr(at, "lineno", 0)
    }
    made = [_reshaped(bound.get(side.id, side) if isinstance(side, ast.Name) else side) for side in sides]
    inner = [inner_of(each) for each in made]
    if len(inner) - inner.count(None) == 1:
        whole, part = next((whole, part) for whole, part in zip(made, inner, strict=True) if part is not None)
        yield code.replace(whole, code.source(part))


def _blocks_around(code: Code, node: ast.AST) -> set[int]:
    """The statements around a node, whose own statements have been run before it."""
    found = set()
    around: ast.AST | None = node
    while around is not None:
        found.add(id(around))
        around = code.parents.get(id(around))
    return found


def _reshaped(value: ast.expr) -> ast.expr:
    """What a tensor was before it was moved or converted."""
    match value:
        case ast.Call(ast.Attribute(inner, "float" | "to" | "cuda" | "detach")):
            return _reshaped(inner)
    return value


def _column_in(row: ast.expr) -> ast.expr | None:
    """``x`` of ``x.squeeze(1)``, ``x.view(-1)`` or ``x.flatten()``."""
    match row:
        case ast.Call(ast.Attribute(inner, "squeeze"), given, named) if _axis(given, named) in ("", "1", "-1"):
            return inner
        case ast.Call(ast.Attribute(inner, "view" | "reshape"), [size]) if ast.unparse(size) == "-1":
            return inner
        case ast.Call(ast.Attribute(inner, "flatten" | "ravel"), []):
            return inner
    return None


def _row_in(column: ast.expr) -> ast.expr | None:
    """``x`` of ``x.unsqueeze(1)`` or ``x.view(-1, 1)``."""
    match column:
        case ast.Call(ast.Attribute(inner, "unsqueeze"), given, named) if _axis(given, named) in ("1", "-1"):
            return inner
        case ast.Call(ast.Attribute(inner, "view" | "reshape"), sizes) if [*map(ast.unparse, sizes)] == ["-1", "1"]:
            return inner
    return None


def _axis(given: list[ast.expr], named: list[ast.keyword]) -> str:
    """The axis that a call is told, as it is written."""
    return ", ".join(ast.unparse(each) for each in [*given, *(keyword.value for keyword in named)])
