"""A `view` or `reshape` that exchanges axes, which only a transposition can do.

`view` leaves the numbers where they are in memory and counts them differently. With `(batch, time, features)` viewed
as `(time, batch, features)`, with `(batch, channels, height, width)` viewed as `(batch, height * width, channels)`, or
with attention heads taken off as `view(batch, heads, time, size)`, all sizes are right, and every row is a mixture of
samples, time steps or channels. No error says so.

The state that an LSTM or a GRU ends in has its layers and directions before the batch, also with `batch_first`: with
two directions, each row of `h.view(batch, -1)` is two samples in one of them.

Measured on torch 2.13 (three seeds each): a GRU that tells the sign of a sum, on batches viewed as `(time, batch,
features)`: test accuracy .49 to .51 instead of .94 to .96. An attention layer that copies a sequence backward, its four
heads viewed as `(batch, heads, time, size)`: .05 instead of 1.00 after 1,500 steps. Of a bidirectional LSTM with four
samples, `h.view(4, -1)` has samples 0 and 1, read forward, in its first row.

## Bad
    batch, time, features = x.shape
    x = x.view(time, batch, features)

## Good
    batch, time, features = x.shape
    x = x.transpose(0, 1)

## Not reported
Views that split axes, or join neighboring ones, in their order. Sizes of which it is not known that they are different
axes. Views that a condition on the number of axes, or on a certain size, decides about. Where one of two axes that
change places may have a single step, or has one by the default of an option, in which case nothing is mixed, the
finding is a question.

## Fix (unsafe)
Views in order, then transposes, where two neighboring axes change places. Unsafe because it changes what the network
computes, as it should.

## On real code
68 public repositories: 4 findings in one of them, where one of the axes has a single step, and 2 in another, which
are true. All 6 are questions now. In 127 others 1 finding was true and 2 false: a view that only adds an axis, and
one that a test of the number of axes keeps from happening. Both are silent now. In the batches after them, 2 more were
false and none was true.

By default only views of such states are reported (in 388 public repositories 3 findings, all in near-copies of one
model, and all true), and those that take the last axis apart and put a part of it before the steps, as the heads of
attention (in 277 others 4 findings in one repository, all true). Of the 5 findings of another kind that were read and
settled in all batches, 1 was true; they are there where the rule is selected by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeVar

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Finding,
    Items,
    LibraryCall,
    Mixture,
    Rule,
    Symbol,
    Value,
    replace_range,
)

T = TypeVar("T")

_VIEWS = ("torch.Tensor.view", "torch.Tensor.reshape", "torch.reshape")


def is_for_another_shape(event: LibraryCall, ctx: Context) -> bool:
    """a condition on the number of axes, or on a certain size, decides whether the view is taken: the tensor may have
    other axes there"""
    rank = ctx.shape(event.arguments.positional[0]).rank
    return any(ctx.asks_of_other_axes(guard, rank) for guard in event.guards)


class ViewAsTranspose(Rule):
    code = "DL821"
    name = "view-as-transpose"
    category = "correctness"
    severity = "error"
    triggers = (("view", "reshape"), ("size", "shape", "Linear"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/tensor_view.html",)
    excuses = (is_for_another_shape,)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments.positional
        if event.name not in _VIEWS or not given or not event.arguments.exact:
            return
        mixture = ctx.mixed_by_view(given[0], given[1:])
        if mixture is None or ctx.excused(self, event):
            return
        sizes = _written_sizes(event)
        axis = f"axis {mixture.before}" + (f" (`{ast.unparse(sizes[mixture.after])}`)" if sizes else "")
        is_elsewhere = mixture.after != mixture.before
        becomes = f"becomes axis {mixture.after}" if is_elsewhere else "gets other neighbors"
        function = event.name.rpartition(".")[2]
        yield ctx.finding(
            self,
            event,
            f"`{function}` mixes axes: {axis} {becomes}, and no number moves",
            assuming=_assumed(given[0], mixture, ctx),
            effect="every row is a mixture of what belongs to different samples, steps or channels; the sizes fit",
            help=f"use `transpose` or `permute` to exchange axes, and `{function}` only to split or join them in order",
            fix=("Move the axes", _transposed(event, sizes, mixture, ctx)),
            pedantic=not mixture.is_cut and not ctx.shape(given[0]).means(0, "layer"),
        )


def _assumed(tensor: Value, mixture: Mixture, ctx: Context) -> Iterator[Assumption]:
    is_held = isinstance(tensor, Symbol) and tensor.name == "attribute"  # perhaps a parameter, without a batch
    if mixture.may_be_empty or is_held:
        yield Assumption("effect", "neither of the two axes has a single step")
    if mixture.is_if_longer:
        yield Assumption("effect", "the tensor has an axis of steps before the last, or it is the same without")
    for size in mixture.settings:
        if size.may_be_one or (size.known_as and ctx.default_of_option(size.known_as) == 1):
            yield Assumption("effect", f"`{size.known_as}` is not 1, as it is by default")


def _written_sizes(event: LibraryCall) -> list[ast.expr]:
    """The sizes as they are written in the call or in a tuple that it is given, one for each new axis; none where they
    are computed elsewhere."""
    call, (_, *given) = event.site.node, event.arguments.positional
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return []
    is_function = isinstance(call.func.value, ast.Name) and call.func.value.id == "torch"
    sizes: list[ast.expr] = call.args[1:] if is_function else call.args
    if len(given) == 1 and isinstance(given[0], Items):
        made = given[0].site.node if given[0].site is not None else None
        sizes, given = made.elts if isinstance(made, ast.Tuple | ast.List) else [], list(given[0].items)
    return list(sizes) if len(sizes) == len(given) else []


def _transposed(event: LibraryCall, sizes: list[ast.expr], mixture: Mixture, ctx: Context) -> Edits:
    """``x.view(b, h, t, d)`` becomes ``x.view(b, t, h, d).transpose(1, 2)``, if that mixes nothing."""
    node, (first, second) = event.site.node, sorted((mixture.before, mixture.after))
    tensor, *given = event.arguments.positional
    if not isinstance(node, ast.Call) or not len(sizes) == len(node.args) == len(given) or second != first + 1:
        return Edits()
    if ctx.mixed_by_view(tensor, _exchanged(given, first)) is not None:
        return Edits()
    assert isinstance(node.func, ast.Attribute)
    in_order = ", ".join(_exchanged([ast.unparse(size) for size in sizes], first))
    view = "" if ctx.shape(tensor).rank == len(sizes) else f".{node.func.attr}({in_order})"
    return replace_range(event.site, f"{ast.unparse(node.func.value)}{view}.transpose({first}, {second})")


def _exchanged(items: list[T], first: int) -> list[T]:
    """A list in which one item and the next have changed places."""
    return [*items[:first], items[first + 1], items[first], *items[first + 2 :]]
