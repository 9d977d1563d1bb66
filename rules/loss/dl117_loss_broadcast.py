"""A loss that compares each prediction with every target of the batch.

A model that ends in `nn.Linear(..., 1)` returns (N, 1); targets are often (N,). `mse_loss` and its relatives then
broadcast both to (N, N): each prediction is pulled towards all targets, so that the best the model can learn is their
mean. Torch warns once and goes on; `binary_cross_entropy` raises.

Measured on torch 2.13 (regression, batches of 50, three seeds): the model explains 1 to 3 % of the variance of the test
targets instead of 73 to 97 %, and its predictions vary by 3 to 6 % of what the targets do.

## Bad
    net = nn.Linear(10, 1)
    loss = F.mse_loss(net(x).view(-1, 1), y.view(-1))
    loss.backward()

## Good
    net = nn.Linear(10, 1)
    loss = F.mse_loss(net(x).view(-1), y.view(-1))
    loss.backward()

## Not reported
Tensors of which one is not known to be (N, 1), or (N, 1, 1, 1), and the other (N,), or (N, N) by an earlier broadcast:
targets as a dataset of one's own returns them, or predictions of one sample; losses that raise when shapes differ;
batches of one sample. Where of the prediction only the last axis is known, or the actions that pick it out of a row are
not, the finding is a question: it may be of one sample, unless samples are stacked (`torch.stack(batch.state)`). So it
is where only a name (`rewards`) or a sum over steps tells that the targets are numbers.

## Fix (unsafe)
Gives the target the shape of the prediction, where that has a name. Unsafe because it changes training, as it should.

## On real code
206 public repositories: no finding. Of bugs that were written into other ones it found 8 of 19 at first sight; of all
28 places in 1,032 repositories, by some of which the analysis was mended since, 21, of which 11 as questions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Finding,
    Instance,
    Items,
    LossCall,
    Rule,
    Shape,
    Site,
    Size,
    Symbol,
    Value,
    replace_range,
)

_LOSSES = frozenset(f"torch.nn.functional.{name}" for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"))

_MATRIX = 2  # axes
_STACKING = ("torch.stack", "torch.cat")
_OF_THIS_SHAPE = Assumption("alternative", "the model is one of those that return one number for each sample")
_ONE_NUMBER = Assumption("effect", "the target is one number for each sample, as its name or a sum over steps suggests")
_OF_SAMPLES = Assumption("effect", "the model is given more than one sample, and returns one number for each")


def is_of_one_sample(event: LossCall, ctx: Context) -> bool:
    """the batches have one sample each"""
    given = [value for value in (event.input, event.target) if value is not None]
    behind = (source for value in given for source in ctx.sources(value))
    loaders = [each for each in behind if isinstance(each, Instance) and each.library_name.endswith(".DataLoader")]
    sizes = [loader.arguments.get(1, "batch_size") for loader in loaders]
    return any(size is None or ctx.constant(size) == 1 for size in sizes)


class LossBroadcast(Rule):
    code = "DL117"
    name = "loss-broadcast"
    category = "correctness"
    severity = "warning"
    triggers = (
        (
            *("mse_loss", "MSELoss", "l1_loss", "L1Loss", "smooth_l1_loss", "SmoothL1Loss"),
            *("huber_loss", "HuberLoss"),
        ),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/broadcasting.html",)
    excuses = (is_of_one_sample,)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss not in _LOSSES:
            return
        inputs, of_target = ctx.shapes(event.input), ctx.shape(event.target)
        of_input = next((each for each in inputs if _are_broadcast(each, of_target)), None)
        is_told = of_input is not None
        if of_input is None and of_target.rank is None and any(_may_be_column(each) for each in inputs):
            of_target = ctx.guessed_shape(event.target)
            of_input = next((each for each in inputs if _are_broadcast(each, of_target)), None)
        if of_input is None or ctx.excused(self, event):
            return
        has_pairs = _has_all_pairs(of_target)
        is_wide = of_target.rank == 1 or has_pairs
        column, row = (of_input, of_target) if is_wide else (of_target, of_input)
        is_batch = column.rank is not None or column.is_column or row.is_batch or _is_of_several(event, ctx)
        ones = ", 1" * max(column.ones, 1)
        wide = ("(1, N)" if of_target.sizes[0].known == 1 else "(N, N)") if has_pairs else "(N,)"
        prediction = "(N,)" if is_wide and of_input.is_row else f"(N{ones})"
        shapes = (prediction, wide) if is_wide else (wide, f"(N{ones})")
        yield ctx.finding(
            self,
            event,
            f"predictions of shape {shapes[0]} and targets of shape {shapes[1]} are broadcast to (N{ones[3:]}, N)",
            on=[event.input, event.target],
            assuming=[
                *([_OF_THIS_SHAPE] if len(inputs) > 1 else ()),
                *(() if is_batch else [_OF_SAMPLES]),
                *(() if is_told else [_ONE_NUMBER]),
            ],
            effect="each prediction is compared with every target of the batch: the model learns their mean",
            help="give both the same shape, as by `target.view_as(prediction)`",
            trace=[
                *((each.site, text) for each, text in ((event.input, "the prediction"), (event.target, "the target"))
                  if isinstance(each, Symbol) and each.site is not None),
                (event.site, "the loss compares them"),
            ],
            fix=("Give the target the shape of the prediction", _same_shape(event, ctx)),
        )  # fmt: skip


def _is_of_several(event: LossCall, ctx: Context) -> bool:
    """Whether tensors of several samples went into it, as of a list that is not written out: one is not stacked."""
    behind = (source for value in (event.input, event.target) if value is not None for source in ctx.sources(value))
    stacked = (each for each in behind if isinstance(each, Symbol) and each.name in _STACKING)
    return any(each.inputs and not _is_written_out(each.inputs[0]) for each in stacked)


def _is_written_out(listed: Value) -> bool:
    return isinstance(listed, Items) and listed.exact


def _are_broadcast(of_input: Shape, of_target: Shape) -> bool:
    """Whether one is a column, or has more axes of size one, and the other is a row."""
    if _are_of_one_number(of_input, of_target) or _are_of_one_number(of_target, of_input):
        return True
    if of_input.is_row and _has_all_pairs(of_target):  # not (1, N), which goes with (N,)
        return of_target.is_batch and of_target.sizes[0].known is None
    if of_target.is_row or _has_all_pairs(of_target):
        return _may_be_column(of_input)
    return of_input.is_row and (_may_be_column(of_target) or _has_one_between(of_target))


def _are_of_one_number(column: Shape, row: Shape) -> bool:
    """Whether they are (200, 1) and (200,), or (200, 1) and (N,)."""
    if column.rank != _MATRIX or row.rank != 1 or column.sizes[0].known in (None, 1) or column.sizes[1] != Size():
        return False
    return row.sizes[0].known is None or column.sizes[0].same(row.sizes[0])


def _has_all_pairs(of_target: Shape) -> bool:
    """Whether a target has a row for each sample as well: (N, N), as after an earlier broadcast, or (1, N)."""
    return of_target.rank == _MATRIX and of_target.sizes[1].meaning == "batch" and of_target.sizes[1].known is None


def _has_one_between(of_target: Shape) -> bool:
    """Whether an axis of one step was put after that of the samples, whatever else there is: no row fits that."""
    is_open = of_target.rest is not None and not of_target.back and len(of_target.sizes) == _MATRIX
    return is_open and of_target.sizes[0].known is None and of_target.sizes[1] == Size()


def _may_be_column(shape: Shape) -> bool:
    return shape.may_be_column or shape.ones > 1


def _same_shape(event: LossCall, ctx: Context) -> Edits:
    """``target`` becomes ``target.view_as(prediction)``, where both stand in the call and the prediction has a name."""
    call = event.site.node
    if _has_all_pairs(ctx.shape(event.target)):  # which has no view of that shape
        return Edits()
    given = call.args if isinstance(call, ast.Call) and not call.keywords else []
    if len(given) < 2 or not isinstance(given[0], ast.Name | ast.Attribute):
        return Edits()
    if not isinstance(given[1], ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return Edits()
    prediction, target = (ctx.source_of(Site(event.site.module, node)) for node in given[:2])
    return replace_range(Site(event.site.module, given[1]), f"{target}.view_as({prediction})")
