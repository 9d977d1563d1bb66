"""Bugs of rules about modules that came with those about axes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mutating import Code, Edit, mutates

_WITH_WEIGHTS = ("Linear(", "Conv", "BatchNorm", "LayerNorm(", "GroupNorm(", "Embedding(")


@mutates("DL223")
def unused_submodule(code: Code) -> Iterator[Edit]:
    """``x = self.norm(x)`` in ``forward`` becomes ``x = x``."""
    for node in code.nodes:
        match node:
            case ast.Assign(
                targets=[ast.Name()], value=ast.Call(ast.Attribute(ast.Name("self"), layer), [ast.Name(given)], [])
            ):
                owner = code.outer(node, ast.ClassDef)
                is_own = isinstance(owner, ast.ClassDef) and code.source(owner).count(f"self.{layer}") == 2
                made = code.source(owner) if isinstance(owner, ast.ClassDef) else ""
                if is_own and any(f"self.{layer} = nn.{kind}" in made for kind in _WITH_WEIGHTS):
                    yield code.replace(node.value, given)


@mutates("DL218")
def attribute_typo(code: Code) -> Iterator[Edit]:
    """``layer.weight.data`` is written as ``layer.weights``."""
    for node in code.nodes:
        match node:
            case ast.Assign(targets=[ast.Attribute(ast.Attribute(attr="weight") as weight, "data")]):
                yield code.replace(node.targets[0], f"{code.source(weight)}s")
