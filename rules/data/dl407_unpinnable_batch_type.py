"""A batch of a class of the project that `pin_memory=True` cannot pin, or makes `None` of.

The loader pins tensors, dicts, lists and tuples, and calls `pin_memory()` on what has such a method. Any other object
stays as it is: copies to the GPU wait for each other, and nothing says so. What the method returns takes the place of
the batch; without a `return` that is `None`.

Measured on torch 2.13: `pin_memory` gives an object without the method back as it is, and for a method that returns
nothing it gives `None`.

## Bad
    class Batch:
        def __init__(self, samples):
            self.x = torch.stack(samples)

        def pin_memory(self):
            self.x = self.x.pin_memory()

    loader = DataLoader(train_set, batch_size=8, collate_fn=Batch, pin_memory=True)

## Good
    class Batch:
        def __init__(self, samples):
            self.x = torch.stack(samples)

        def pin_memory(self):
            self.x = self.x.pin_memory()
            return self

    loader = DataLoader(train_set, batch_size=8, collate_fn=Batch, pin_memory=True)

## Not reported
Classes that extend a dict, a list, a tuple or a tensor, or a class that is not known; loaders that do not pin; methods
of classes of which no file speaks that makes batches (`collate`).

## On real code
276 public repositories: no finding. In 59 unread ones 1, false: the class is made by a model alone, and is silent now.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Class, Context, Finding, Instance, LoaderCreated, Program, Rule, Site, alternatives, nodes_of


class UnpinnableBatchType(Rule):
    code = "DL407"
    name = "unpinnable-batch-type"
    category = "performance"
    severity = "info"
    default = False
    preview = True
    triggers = (("pin_memory",),)
    references = ("https://docs.pytorch.org/docs/stable/data.html#memory-pinning",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for owner in nodes_of(program.module.tree).of(ast.ClassDef) if program.kind == "module" else ():
            for method in owner.body:
                if isinstance(method, ast.FunctionDef) and method.name == "pin_memory" and _returns_nothing(method):
                    if not ctx.project_mentions(rf"\b{owner.name}\b", "collat"):
                        continue
                    place = Site(program.module, method)
                    yield ctx.finding(
                        self,
                        place,
                        "`pin_memory` returns nothing, and the loader takes that for the batch",
                        effect="each batch is `None`, as soon as there is a GPU and the loader pins",
                        help="return the pinned object: `return self`",
                        severity="error",
                        trace=[(place, "ends without a `return`")],
                    )

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        pins, collate = event.options.get("pin_memory"), event.options.get("collate_fn")
        if pins is None or collate is None or ctx.constant(pins) is not True:
            return
        made = ctx.data.collated(event)
        options = [option for _, option in alternatives(made)] if made is not None else []
        if options and all(isinstance(each, Instance) and _cannot_be_pinned(each, ctx) for each in options):
            name = ctx.class_name(options[0])
            yield ctx.finding(
                self,
                event,
                f"batches are objects of `{name}`, which `pin_memory=True` leaves as they are",
                on=[pins, collate],
                assuming=ctx.assumed_batches(event.loader),
                effect="copies to the GPU are not made beside the computation",
                help=f"give `{name}` a method `pin_memory` that pins its tensors and returns the object",
                trace=[(event.site, "is to pin batches"), *([(collate.site, "makes them")] if collate.site else [])],
            )


def _cannot_be_pinned(batch: Instance, ctx: Context) -> bool:
    """Whether an object of the project is nothing that a loader can look into, and has no such method."""
    if not isinstance(batch.cls, Class) or ctx.member(batch, "pin_memory") is not None:
        return False
    return all(not each.node.bases for each in batch.cls.lineage)


def _returns_nothing(method: ast.FunctionDef) -> bool:
    """Whether a method does something and ends without a `return`."""
    does = [each for each in method.body if not isinstance(each, ast.Pass) and not _is_of_texts(each)]
    leaves = any(isinstance(node, ast.Return | ast.Raise | ast.Yield) for node in ast.walk(method))
    return bool(does) and not leaves and not method.decorator_list


def _is_of_texts(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
