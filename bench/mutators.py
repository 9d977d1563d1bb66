"""One bug for each rule of axes, scripts and metrics, to be written into code in which it does not stand.

A mutator looks at the tree of a file and yields every place at which it can write its bug, as an edit of the text. It
looks at no more than the syntax: whether the bug does harm there is asked of whoever reads the case.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MUTATORS: dict[str, Callable[[Code], Iterator[Edit]]] = {}


@dataclass(frozen=True)
class Edit:
    """What replaces the text from ``start`` to ``end`` (offsets), and the line on which the bug then stands."""

    start: int
    end: int
    text: str
    line: int


class Code:
    """The text of a file with its tree, each node of which knows its parent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {id(child): node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines(keepends=True)

    def offset(self, line: int, column: int) -> int:
        """The place in the text of a place that ``ast`` gives, whose columns count bytes."""
        before = self._lines[line - 1].encode()[:column].decode() if line <= len(self._lines) else ""
        return self._starts[line - 1] + len(before)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(*self.span(node), text, node.lineno)

    def outer(self, node: ast.AST, kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> ast.AST | None:
        """The innermost node of a kind around a node."""
        parent = self.parents.get(id(node))
        while parent is not None and not isinstance(parent, kind):
            parent = self.parents.get(id(parent))
        return parent

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of functions and methods with one of these names, whatever they belong to."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and name_of(node.func) in names:
                yield node


def name_of(node: ast.AST) -> str:
    """The last part of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def keyword_of(call: ast.Call, name: str) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg == name), None)


def without_keyword(code: Code, call: ast.Call, name: str) -> Edit:
    """The call without one of its keyword arguments."""
    kept = [code.source(each) for each in call.args]
    kept += [
        f"{each.arg}={code.source(each.value)}" if each.arg else f"**{code.source(each.value)}"
        for each in call.keywords
        if each.arg != name
    ]
    return code.replace(call, f"{code.source(call.func)}({', '.join(kept)})")


def mutates(code: str) -> Callable[[Callable[[Code], Iterator[Edit]]], Callable[[Code], Iterator[Edit]]]:
    """Enter a mutator for a rule."""

    def enter(mutator: Callable[[Code], Iterator[Edit]]) -> Callable[[Code], Iterator[Edit]]:
        MUTATORS[code] = mutator
        return mutator

    return enter


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
    """The softmax over the last axis becomes one over the first."""
    for call in code.calls("softmax", "Softmax", "log_softmax"):
        dim = keyword_of(call, "dim")
        if dim is not None and ast.unparse(dim.value) in ("-1", "1"):
            yield code.replace(dim.value, "0")


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
                if is_module and index not in uses and name_of(made):
                    yield code.replace(node, f"[{code.source(node.elt)}] * {code.source(count)}")


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


@mutates("DL828")
def uninitialized_parameter(code: Code) -> Iterator[Edit]:
    """``nn.Parameter(torch.zeros(n))`` becomes ``nn.Parameter(torch.empty(n))``."""
    for call in code.calls("Parameter"):
        match call.args:
            case [ast.Call(func=ast.Attribute(ast.Name("torch"), "zeros" | "ones" | "randn")) as made, *_]:
                yield code.replace(made.func, "torch.empty")


@mutates("DL829")
def batch_first_mismatch(code: Code) -> Iterator[Edit]:
    """A layer that was made with ``batch_first=True`` is made without."""
    for call in code.calls("LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoderLayer"):
        if keyword_of(call, "batch_first") is not None:
            yield without_keyword(code, call, "batch_first")


@mutates("DL830")
def squeeze_drops_batch(code: Code) -> Iterator[Edit]:
    """``squeeze`` of one axis becomes one of all."""
    for call in code.calls("squeeze"):
        is_method = isinstance(call.func, ast.Attribute) and name_of(call.func.value) != "torch"
        if is_method and [ast.unparse(each) for each in call.args] in (["1"], ["-1"]):
            yield code.replace(call, f"{code.source(call.func)}()")


@mutates("DL831")
def device_compared_with_string(code: Code) -> Iterator[Edit]:
    """``device.type == "cuda"`` becomes ``device == "cuda"``."""
    for node in code.nodes:
        match node:
            case ast.Compare(left=ast.Attribute(value, "type"), comparators=[ast.Constant("cuda" | "cpu" | "mps")]):
                yield code.replace(node.left, code.source(value))


@mutates("DL841")
def argparse_type_bool(code: Code) -> Iterator[Edit]:
    """``action="store_true"`` becomes ``type=bool, default=False``."""
    for call in code.calls("add_argument"):
        action = keyword_of(call, "action")
        if action is not None and getattr(action.value, "value", None) == "store_true":
            given = [code.source(each) for each in call.args]
            given += [
                f"{each.arg}={code.source(each.value)}"
                for each in call.keywords
                if each.arg not in ("action", "default")
            ]
            yield code.replace(call, f"{code.source(call.func)}({', '.join([*given, 'type=bool', 'default=False'])})")


@mutates("DL843")
def call_does_not_bind(code: Code) -> Iterator[Edit]:
    """A call of a function of the same file loses its last positional argument, which has no default."""
    functions = {node.name: node for node in code.tree.body if isinstance(node, ast.FunctionDef)}
    for call in code.calls(*functions):
        function = functions[name_of(call.func)]
        plain = isinstance(call.func, ast.Name) and not call.keywords and not function.args.defaults
        if plain and len(call.args) == len(function.args.args) >= 2 and not function.args.vararg:
            given = [code.source(each) for each in call.args[:-1]]
            yield code.replace(call, f"{call.func.id}({', '.join(given)})")  # type: ignore[attr-defined]


@mutates("DL844")
def seed_not_applied(code: Code) -> Iterator[Edit]:
    """The seed that an option sets seeds nothing."""
    for node in code.nodes:
        match node:
            case ast.Expr(ast.Call(ast.Attribute(attr="manual_seed"), [ast.Attribute(attr=name)])) if "seed" in name:
                yield code.replace(node, "pass")


@mutates("DL845")
def debug_stop_left_in(code: Code) -> Iterator[Edit]:
    """A training loop ends after its first batch."""
    for call in code.calls("step"):
        loop = code.outer(call, (ast.For, ast.While))
        statement = code.parents.get(id(call))
        if not (isinstance(loop, ast.For) and statement in loop.body):
            continue
        if "loader" in code.source(loop.iter):
            last = loop.body[-1]
            yield Edit(*[code.span(last)[1]] * 2, f"\n{' ' * last.col_offset}break", last.lineno + 1)


@mutates("DL846")
def unread_option(code: Code) -> Iterator[Edit]:
    """The one place that reads a number among the options has the number itself."""
    defaults = {}
    for call in code.calls("add_argument"):
        default = keyword_of(call, "default")
        name = getattr(call.args[-1], "value", "") if call.args else ""
        if default and isinstance(default.value, ast.Constant) and isinstance(default.value.value, int | float):
            defaults[str(name).lstrip("-").replace("-", "_")] = (code.source(default.value), call.lineno)
    for name, (value, line) in defaults.items():
        reads = [node for node in code.nodes if isinstance(node, ast.Attribute) and node.attr == name]
        if len(reads) == 1 and code.text.count(name) <= 3:
            yield Edit(*code.span(reads[0]), value, line)


@mutates("DL847")
def trained_model_never_saved(code: Code) -> Iterator[Edit]:
    """The one call that saves does nothing."""
    saves = [call for call in code.calls("save") if code.source(call.func) == "torch.save"]
    if len(saves) == 1 and isinstance(code.parents[id(saves[0])], ast.Expr):
        yield code.replace(saves[0], "pass")


@mutates("DL871")
def last_batch_metric(code: Code) -> Iterator[Edit]:
    """``total += loss.item()`` becomes ``total = loss.item()``."""
    for node in code.nodes:
        match node:
            case ast.AugAssign(target=ast.Name(name), op=ast.Add(), value=value) if ".item()" in code.source(value):
                loop = code.outer(node, (ast.For, ast.While))
                if isinstance(loop, ast.For) and "loader" in code.source(loop.iter):
                    yield code.replace(node, f"{name} = {code.source(value)}")


@mutates("DL872")
def accumulator_not_reset(code: Code) -> Iterator[Edit]:
    """The line that sets a sum to zero at the start of an epoch moves before the epochs."""
    for node in code.nodes:
        loop = code.parents.get(id(node))
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(0)) if isinstance(loop, ast.For):
                body = "".join(code.source(each) for each in loop.body)
                if (
                    node in loop.body
                    and f"{name} +=" in body
                    and len(loop.body) > 1
                    and "epoch" in code.source(loop.target)
                ):
                    start, (_, end) = code.span(loop)[0], code.span(node)
                    moved = f"{code.source(node)}\n{' ' * loop.col_offset}"
                    kept = code.text[start : code.span(node)[0]] + "pass"
                    yield Edit(start, end, moved + kept, loop.lineno)


@mutates("DL873")
def wrong_average(code: Code) -> Iterator[Edit]:
    """A sum over samples is divided by the number of batches."""
    for node in code.nodes:
        match node:
            case ast.BinOp(op=ast.Div(), right=ast.Call(ast.Name("len"), [ast.Attribute(loader, "dataset")])):
                yield code.replace(node.right, f"len({code.source(loader)})")
            case ast.AugAssign(op=ast.Div(), value=ast.Call(ast.Name("len"), [ast.Attribute(loader, "dataset")])):
                yield code.replace(node.value, f"len({code.source(loader)})")


@mutates("DL874")
def scored_on_wrong_split(code: Code) -> Iterator[Edit]:
    """What is scored as test or validation is the training data."""
    for node in code.nodes:
        if isinstance(node, ast.For):
            loaders = [
                each for each in ast.walk(node.iter) if isinstance(each, ast.Name) and each.id.endswith("loader")
            ]
            for loader in loaders:
                other = next((prefix for prefix in ("test", "val", "valid") if loader.id == f"{prefix}_loader"), "")
                if other and "train_loader" in code.text:
                    yield code.replace(loader, "train_loader")


@mutates("DL875")
def best_by_training_metric(code: Code) -> Iterator[Edit]:
    """The best checkpoint is chosen by the loss of training."""
    for node in code.nodes:
        match node:
            case ast.Compare(left=ast.Name("val_loss"), comparators=[ast.Name(best)]) if "best" in best:
                if "train_loss" in code.text:
                    yield code.replace(node.left, "train_loss")


@mutates("DL219")
def bidirectional_last_step(code: Code) -> Iterator[Edit]:
    """A recurrent layer of which the last step is used reads in both directions."""
    if "[:, -1" in code.text:
        for call in code.calls("LSTM", "GRU", "RNN"):
            if keyword_of(call, "bidirectional") is None and isinstance(call.func, ast.Attribute):
                yield Edit(*[code.span(call)[1] - 1] * 2, ", bidirectional=True", call.lineno)


@mutates("DL223")
def unused_submodule(code: Code) -> Iterator[Edit]:
    """``x = self.norm(x)`` in ``forward`` becomes ``x = x``."""
    for node in code.nodes:
        match node:
            case ast.Assign(value=ast.Call(ast.Attribute(ast.Name("self"), layer), [ast.Name(given)], [])):
                if code.text.count(f"self.{layer}(") == 1 and f"self.{layer} = nn." in code.text:
                    yield code.replace(node.value, given)


@mutates("DL218")
def attribute_typo(code: Code) -> Iterator[Edit]:
    """``layer.weight.data`` is written as ``layer.weights``."""
    for node in code.nodes:
        match node:
            case ast.Assign(targets=[ast.Attribute(ast.Attribute(attr="weight") as weight, "data")]):
                yield code.replace(node.targets[0], f"{code.source(weight)}s")
            case ast.Assign(targets=[ast.Attribute(attr="requires_grad") as target]):
                yield code.replace(target, f"{code.source(target.value)}.require_grad")
