"""An index that starts again at the end of a dataset: `self.files[index % len(self.files)]`.

A dataset that takes any index never says that one is too large. Python's `for sample in dataset` goes on until
`IndexError` is raised, so it never ends; a sampler that was made for another dataset draws some samples twice, and a
`__len__` that counts something else goes unnoticed.

Measured on torch 2.13: of a dataset with 3 samples, a `for` loop was stopped after 1,000; `dataset[7]` gives the
second sample.

## Bad
    from torch.utils.data import Dataset

    class Pictures(Dataset):
        def __init__(self, files):
            self.files = files

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            return Image.open(self.files[index % len(self.files)])

## Good
    from torch.utils.data import Dataset

    class Pictures(Dataset):
        def __init__(self, files):
            self.files = files

        def __len__(self):
            return len(self.files)

        def __getitem__(self, index):
            return Image.open(self.files[index])

## Not reported
A `__len__` that is more than a count (`len(self.files) * self.repeats`, `max(...)`, a number of steps), and a second
list that starts again where the first one goes on: pairs of two lists are made so.

## On real code
276 public repositories: 5 notes in 4 of them, all true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Finding,
    Program,
    Rule,
    Site,
    attribute_of_self,
    counted_attribute,
    declared_length,
    nodes_of,
)


class IndexWraparound(Rule):
    code = "DL409"
    name = "index-wraparound"
    category = "suspicious"
    severity = "info"
    default = False
    preview = True
    triggers = (("__getitem__",), ("__len__",))
    of_files = True
    references = ("https://docs.pytorch.org/docs/stable/data.html#map-style-datasets",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for owner in nodes_of(program.module.tree).of(ast.ClassDef):
            length = declared_length(owner) if isinstance(owner, ast.ClassDef) else None
            name = counted_attribute(length) if length is not None else ""
            if not name or length is None or not isinstance(owner, ast.ClassDef):
                continue
            for remainder, divisor in _remainders(owner):
                if (
                    divisor == name
                    or _has_one_for_each_of(divisor, name, owner)
                    or _has_one_for_each_of(name, divisor, owner)
                ):
                    yield self._report_needless(Site(program.module, remainder), name, ctx)
                    break
                if not _is_read(name, owner):
                    yield self._report_other(Site(program.module, remainder), name, divisor, length, ctx)
                    break

    def _report_needless(self, place: Site, name: str, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            f"the index starts again after the last of `self.{name}`, and none is ever too large",
            effect="a `for` loop over the dataset never ends, and wrong indices give other samples",
            help="read at the index itself, so that one that is too large raises `IndexError`",
            trace=[(place, "takes any index")],
        )

    def _report_other(self, place: Site, name: str, divisor: str, length: ast.expr, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            f"the index starts again after the last of `self.{divisor}`, and `__len__` counts `self.{name}`",
            effect="samples are drawn twice in an epoch, or some are never drawn",
            help=f"count what is read: return `len(self.{divisor})`",
            severity="warning",
            trace=[(Site(place.module, length), "is the number of samples"), (place, "and this is another one")],
        )


def _remainders(owner: ast.ClassDef) -> Iterator[tuple[ast.BinOp, str]]:
    """The remainders of the index by the length of a list in `__getitem__`, each with the name of the list."""
    for method in owner.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__getitem__" and len(method.args.args) > 1:
            index = method.args.args[1].arg
            for node in nodes_of(method).of(ast.BinOp):
                if isinstance(node.op, ast.Mod) and _is_name(node.left, index):
                    is_own = isinstance(node.right, ast.Call) and any(
                        _is_name(given, "self") for given in node.right.args
                    )
                    length = declared_length(owner) if is_own else node.right
                    divisor = counted_attribute(length) if length is not None else ""
                    if divisor:
                        yield node, divisor


def _has_one_for_each_of(name: str, other: str, owner: ast.ClassDef) -> bool:
    """Whether a list has one element for each of another one: ``self.names = [stem(each) for each in self.files]``."""
    made = (each for each in nodes_of(owner).of(ast.Assign) if any(attribute_of_self(t) == name for t in each.targets))
    for value in (each.value for each in made):
        loop = value.generators[0] if isinstance(value, ast.ListComp) and len(value.generators) == 1 else None
        if loop is not None and not loop.ifs and attribute_of_self(loop.iter) == other:
            return True
    return False


def _is_read(name: str, owner: ast.ClassDef) -> bool:
    """Whether `__getitem__` reads from a list."""
    methods = (each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "__getitem__")
    held = (node.value for method in methods for node in ast.walk(method) if isinstance(node, ast.Subscript))
    return any(attribute_of_self(part) == name for value in held for part in ast.walk(value))


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
