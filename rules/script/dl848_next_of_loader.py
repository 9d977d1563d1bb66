"""`iterator.next()` on what a loader gives: a method of Python 2, which torch has kept for long and has no more.

`iter(loader).next()` is how the tutorials of the first years take a batch. The script stops where it gets there: where
it shows its first pictures, or where the second loader of a training step is asked for its batch.

Measured by running it: torch 1.12.1 gives the batch, torch 1.13.1 and 2.13.0 raise `AttributeError:
'_SingleProcessDataLoaderIter' object has no attribute 'next'`.

## Bad
    loader = DataLoader(dataset, batch_size=4, shuffle=True)
    images, labels = iter(loader).next()

## Good
    loader = DataLoader(dataset, batch_size=4, shuffle=True)
    images, labels = next(iter(loader))

## Not reported
Iterators of other objects than torch's loaders; loaders of a class with an `__iter__` of its own; what is caught: in a
`try` for `AttributeError`, or for all; projects that stay below torch 1.13, as they say or as their code does.

## Fix (safe)
Writes `next(iterator)`: the code does not run as it is.

## On real code
552 public repositories: 7 findings in 3 of them, all true. One more is a question, as its project lacks a file that the
script imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Class,
    Context,
    Edits,
    Finding,
    Instance,
    LibraryCall,
    Rule,
    Site,
    Symbol,
    replace_range,
)

_LOADER = "torch.utils.data.DataLoader"


# ------------------------------------------------------------------------------------------------- excuses


def runs_with_earlier(event: LibraryCall, loader: Instance, ctx: Context) -> bool:
    """the project stays below torch 1.13"""
    return not ctx.may_run_with("torch", "1.13")


def has_its_own_iterator(event: LibraryCall, loader: Instance, ctx: Context) -> bool:
    """the class of the loader makes iterators of its own"""
    return isinstance(loader.cls, Class) and any("__iter__" in each.members for each in loader.cls.lineage)


def is_caught(event: LibraryCall, loader: Instance, ctx: Context) -> bool:
    """that there is no such method is caught"""
    return ctx.is_caught(event.site, "AttributeError")


class NextOfLoader(Rule):
    code = "DL848"
    name = "next-of-loader"
    category = "correctness"
    severity = "error"
    triggers = (("next",), ("DataLoader",))
    fix_safety = "safe"
    references = (
        "https://github.com/pytorch/pytorch/issues/87955",
        "https://docs.python.org/3/library/functions.html#next",
    )
    excuses = (runs_with_earlier, has_its_own_iterator, is_caught)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        call = event.site.node
        if event.name != "next" or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return
        iterator = event.arguments.get(0, None)
        loader = iterator.inputs[0] if isinstance(iterator, Symbol) and iterator.inputs else None
        if not isinstance(loader, Instance) or loader.library_name != _LOADER or ctx.excused(self, event, loader):
            return
        yield ctx.finding(
            self,
            event,
            "the iterator of a loader has no `next` since torch 1.13",
            on=[iterator],
            assuming=[*ctx.assumed_version("torch", "1.13"), *ctx.assumed_start(event.site)],
            effect="raises `AttributeError`",
            help="call `next(iterator)`",
            trace=[
                *([(loader.site, "the loader is made here")] if loader.site is not None else []),
                (event.site, "and its iterator is asked for a batch"),
            ],
            fix=("Call `next`", _as_function(event.site, call.func, ctx)),
        )


def _as_function(site: Site, method: ast.Attribute, ctx: Context) -> Edits:
    """``iterator.next()`` as ``next(iterator)``."""
    return replace_range(site, f"next({ctx.source_of(Site(site.module, method.value))})")
