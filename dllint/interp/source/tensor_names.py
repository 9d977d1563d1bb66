"""What holds a tensor, as names tell: those of functions that make one, and variables by the code that uses them."""

from __future__ import annotations

import ast
import re

from dllint.interp.source.nodes import nodes_of

MAKES_TENSOR = re.compile(
    r"torch\.(tensor|as_tensor|from_numpy|zeros|ones|empty|full|rand|randn|randint|randperm|normal|bernoulli"
    r"|arange|linspace|eye|cat|stack|\w+Tensor)(_like)?"
)
"""The functions of torch that return a new tensor."""

_ONLY_OF_TENSORS = frozenset(
    ("shape", "size", "dim", "ndim", "numel", "item", "view", "reshape", "permute", "transpose", "squeeze", "unsqueeze",
     "flatten", "contiguous", "argmax", "max", "min", "mean", "sum", "long", "clamp", "expand", "repeat", "backward",
     "clone", "detach", "masked_fill", "numpy", "dtype", "tolist", "eq", "abs", "softmax", "sigmoid",
     "sqrt", "rsqrt", "exp", "square", "pow", "tanh", "log_softmax")
)  # fmt: skip
_ALSO_OF_MODULES = frozenset(("to", "cuda", "cpu", "float", "half", "double", "requires_grad", "device"))
_TAKING = ("model", "net", "network", "criterion", "loss_fn", "loss_func", "loss_function", "generator", "generate")
_WITH_TENSORS = frozenset(("eq", "ne", "gt", "lt", "ge", "le", "mul", "div", "matmul", "bmm", "type_as", "view_as"))


def is_used_as_tensor(name: str, scope: ast.AST) -> bool:
    """Whether the code of a function or module computes with a variable, and does nothing that no tensor can do.

    What a model or criterion gets counts as a tensor if it is one part of a batch: a whole batch may be a graph, or
    what a tokenizer returns, which move themselves.
    """
    return _is_used_as_tensor(name, scope, aliases=True)


def _is_used_as_tensor(name: str, scope: ast.AST, *, aliases: bool) -> bool:
    if name not in nodes_of(scope).names:
        return False
    is_tensor = False
    is_part = _is_part_of_something(name, scope)
    for node in nodes_of(scope).of(ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.Assign, ast.BinOp):
        match node:
            case ast.Call(func=ast.Name(id=called)) if called == name:
                return False
            case ast.keyword(arg=None, value=ast.Name(id=spread)) if spread == name:
                return False
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute) if owner == name:
                if attribute not in _ONLY_OF_TENSORS | _ALSO_OF_MODULES:
                    return False
                is_tensor = is_tensor or attribute in _ONLY_OF_TENSORS
            case ast.Subscript(value=ast.Name(id=owner), slice=index) if owner == name:
                if isinstance(index, ast.Constant) and isinstance(index.value, str):
                    return False
                is_tensor = is_tensor or isinstance(index, ast.Slice | ast.Tuple)
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=owner)) if owner == name and aliases:
                is_tensor = is_tensor or _is_used_as_tensor(alias, scope, aliases=False)
            case _:
                is_tensor = is_tensor or (is_part and _is_given(name, node)) or _is_operand(name, node)
    return is_tensor


def _is_part_of_something(name: str, scope: ast.AST) -> bool:
    """Whether a variable is bound as one of several: ``for images, labels in loader``, ``images = batch["image"]``."""
    for node in nodes_of(scope).of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=bound)], value=ast.Subscript(ast.Name(), ast.Constant(str()))):
                if bound == name:
                    return True
    stored = (node for node in nodes_of(scope).of(ast.Tuple) if isinstance(node.ctx, ast.Store))
    return any(name == getattr(element, "id", "") for node in stored for element in node.elts)


def _is_given(name: str, node: ast.AST) -> bool:
    """Whether a model or a criterion gets the variable."""
    is_call = isinstance(node, ast.Call) and _last_name(node.func).lower().endswith(_TAKING)
    return is_call and any(name == getattr(given, "id", "") for given in getattr(node, "args", ()))


def _is_operand(name: str, node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WITH_TENSORS:
        return any(name == getattr(given, "id", "") for given in node.args)
    return isinstance(node, ast.BinOp) and name in (getattr(node.left, "id", ""), getattr(node.right, "id", ""))


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
