"""The loss or metric of the last batch, taken for that of all.

Where the loop assigns `loss = criterion(...)` and nothing adds it up, what is left after the loop is the loss of the
last batch. That batch is often the smallest one, always the same samples, and it decides which checkpoint is kept or
when the learning rate falls.

Measured on torch 2.13 (10 classes, 1,000 validation samples in batches of 64, so that 40 are left for the last one;
three seeds, 30 epochs): the last batch says .950, .900 and .700 where the accuracy is .866, .880 and .840. From the
tenth epoch on it moves by one sample at most, so the epoch it picks is the seventh, fifth and fifth. So it is where a
metric is computed after an evaluation, of the outputs and the answers that its last batch has left.

## Bad
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            val_loss = criterion(model(x), y)
    print("validation loss", val_loss.item())

## Good
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for x, y in val_loader:
            total += criterion(model(x), y).item() * len(x)
            count += len(x)
    print("validation loss", total / count)

## Not reported
Running values that are computed from sums in the loop (`accuracy = correct / total`). What is computed by a call of
something that may keep earlier batches, as a meter does (`meter(x, y).avg`), is a question only: losses, models,
functions of libraries, and functions of the project that write to no object do not. Loops that are left early or go
over a single batch; what is called the last
or a batch's; the training loss that is only printed, which is what it says: that of the last step. A training loss is
reported where it decides something, or is averaged as if it were of all batches. What is only an entry of a checkpoint
is noted down, and decides nothing.

## On real code
280 public repositories: 1 finding, which is true: the sum is there, and after the loop the loss of the last batch is
divided by the number of batches. In 160 others 4 findings, all true. In 1,300 more, as they were read, 19 of 48 were
true and 29 false, 26 of these in one project and its copy: means that meters of the project tell. Since what keeps
nothing has to be known, the 19 alone are left.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import Assumption, Backward, BatchLoop, Context, Finding, Program, Remainder, Rule, Site

_ABOUT = ("device", "dtype", "shape", "requires_grad", "grad_fn")  # what says nothing of how large a number is
_ONE = ("last", "batch", "final", "current", "cur", "sample", "step", "iter")

# ------------------------------------------------------------------------------------------------- excuses


def is_said_so(place: Site, one: BatchLoop, left: Remainder, ctx: Context) -> bool:
    """its name says that it is of one batch, and nobody averages it"""
    return not _is_divided(place, ctx) and any(word in re.split(r"[\W_]+", left.name.lower()) for word in _ONE)


def is_single_batch(place: Site, one: BatchLoop, left: Remainder, ctx: Context) -> bool:
    """the loader has a single batch"""
    return ctx.has_one_batch(one)


class LastBatchMetric(Rule):
    code = "DL871"
    name = "last-batch-metric"
    category = "correctness"
    severity = "warning"
    triggers = (("eval", "no_grad", "inference_mode", "backward", "DataLoader"),)
    excuses = (is_said_so, is_single_batch)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for one in ctx.batch_loops:
            if ctx.framework(one.event):
                continue
            scored = [each for each in _scored_after(one, ctx) if not ctx.excused(self, each[0], one, each[1])]
            for call, left in scored:
                yield self._report_scored(one, left, call, ctx)
            for left in (*ctx.left_by(one), *ctx.entries_left_by(one)):
                place = _misused_at(one, left, ctx)
                if place is None or any(ctx.is_within(place, call) for call, _ in scored):
                    continue
                if _is_score(one, left, ctx) and not ctx.excused(self, place, one, left):
                    yield self._report(one, left, place, ctx)

    def _report(self, one: BatchLoop, left: Remainder, place: Site, ctx: Context) -> Finding:
        by_name = Assumption("name", f"`{left.name}` is a loss or a metric, as its name says")
        loss = ctx.loss_in(one, left.value)
        return ctx.finding(
            self,
            place,
            f"`{left.name}` is that of the last batch only",
            on=[one.event, ctx.phase(one.event), one.loop],
            assuming=[
                *(() if loss is not None else [by_name]),
                *_assumed_use(left, one, ctx),
                *ctx.assumed_of_batch(one, left.value, left.name),
            ],
            effect="it depends on a few samples, always the same ones, and says little about the rest",
            help="add it up in the loop, and divide by the number of samples",
            trace=[(one.site(left.value), "each batch replaces that of the one before"), (place, "used for all")],
        )

    def _report_scored(self, one: BatchLoop, left: Remainder, call: Site, ctx: Context) -> Finding:
        assert isinstance(call.node, ast.Call)
        return ctx.finding(
            self,
            call,
            f"`{ast.unparse(call.node.func)}` is told of the last batch only",
            on=[one.event, ctx.phase(one.event), one.loop],
            effect="it depends on a few samples, always the same ones, and says little about the rest",
            help="collect what the model says, and the answers, in lists, and compare these after the loop",
            trace=[(one.site(left.value), "each batch replaces that of the one before"), (call, "compared for all")],
        )


def _scored_after(one: BatchLoop, ctx: Context) -> Iterator[tuple[Site, Remainder]]:
    """The calls of metrics after an evaluation that compare two things which it leaves behind of its last batch."""
    if not ctx.phase(one.event).is_evaluation and not _evaluates_too(one, ctx):
        return
    told: dict[ast.Call, list[Remainder]] = {}
    for left in ctx.left_by(one):
        for place in (one.site(read) for read in left.reads):
            call = next((each for each in ctx.ancestors(place, ast.Call) if _is_metric(each, ctx)), None)
            if call is not None:
                told.setdefault(call, []).append(left)
    for call, lefts in told.items():
        if len({left.name for left in lefts}) > 1:
            yield one.site(call), lefts[0]


def _evaluates_too(one: BatchLoop, ctx: Context) -> bool:
    """Whether a loop goes backward only where it is told to train: `if mode == "train": loss.backward()`."""
    backward = [each for each in ctx.all_of(Backward) if one.loop in ctx.loops_around(each)]
    return bool(backward) and all(
        any(_asks_of_phase(branch, ctx) for branch in ctx.ancestors(each.site, ast.If) if branch in ast.walk(one.node))
        for each in backward
    )


def _asks_of_phase(branch: ast.If, ctx: Context) -> bool:
    texts = (each.value for each in ast.walk(branch.test) if isinstance(each, ast.Constant))
    words = [ast.unparse(branch.test), *(each for each in texts if isinstance(each, str))]
    return any(ctx.speaks_of(topic, *words) for topic in ("training", "phase"))


def _is_metric(call: ast.Call, ctx: Context) -> bool:
    """Whether a call computes a metric of two things, by its name; what is said or drawn is none."""
    name = ast.unparse(call.func).rpartition(".")[2]
    return (
        len(call.args) + len(call.keywords) > 1 and ctx.speaks_of("score", name) and not ctx.speaks_of("logging", name)
    )


def _assumed_use(left: Remainder, one: BatchLoop, ctx: Context) -> Iterator[Assumption]:
    """That somebody takes what is left where the function only returns it, and all its callers drop that."""
    around = next(iter(ctx.ancestors(one.loop.site, ast.FunctionDef)), None)
    places = [one.site(read) for read in left.reads]
    if around is None or not all(_is_returned(place, left, ctx) for place in places):
        return
    calls = ctx.callers(Site(one.loop.site.module, around))
    statements = [next(iter(ctx.ancestors(call, ast.stmt)), None) for call in calls]
    if calls and all(
        isinstance(each, ast.Expr) and each.value is call.node for each, call in zip(statements, calls, strict=True)
    ):
        yield Assumption("effect", f"somebody takes what `{around.name}` returns, which all its callers drop")


def _is_returned(place: Site, left: Remainder, ctx: Context) -> bool:
    """Whether a variable is read only to be returned, or divided on the way to that: ``loss /= len(loader)``."""
    statement = next(iter(ctx.ancestors(place, ast.stmt)), None)
    is_divided = isinstance(statement, ast.AugAssign) and ast.unparse(statement.target) == left.name
    return is_divided or isinstance(statement, ast.Return)


def _is_score(one: BatchLoop, left: Remainder, ctx: Context) -> bool:
    """Whether a variable holds a loss that is known, or is called like a loss or metric and holds a number."""
    is_given = isinstance(left.value, ast.Name) and isinstance(left.value.ctx, ast.Store)  # by the loader
    return ctx.loss_in(one, left.value) is not None or (ctx.speaks_of("score", left.name) and not is_given)


def _misused_at(one: BatchLoop, left: Remainder, ctx: Context) -> Site | None:
    """Where what is left is taken for the whole: anywhere in an evaluation; in training where it matters."""
    places = [place for read in left.reads if not _is_noted_down(place := one.site(read), ctx)]
    if ctx.phase(one.event).is_evaluation:
        return places[0] if places else None
    if ctx.trains(one.loop):
        return next((place for place in places if _matters(place, ctx)), None)
    return None


def _is_noted_down(place: Site, ctx: Context) -> bool:
    """Whether a value is only an entry of a checkpoint, or is asked for its keys, its kind, or if it is a number."""
    inner: ast.AST = place.node
    is_entry = False
    for node in _around(place, ctx):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr in _ABOUT):
            return True
        if isinstance(node, ast.Compare):
            return isinstance(node.ops[0], ast.In | ast.NotIn) and place.node in node.comparators
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "save":
            return is_entry and inner in node.args
        is_entry = isinstance(node, ast.Dict) and inner in node.values
        inner = node
    return False


def _matters(place: Site, ctx: Context) -> bool:
    """Whether a value is compared, given to a scheduler or to early stopping, or averaged."""
    for node in _around(place, ctx):
        is_step = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"
        if is_step or isinstance(node, ast.Compare):
            return True
    return _is_divided(place, ctx)


def _is_divided(place: Site, ctx: Context) -> bool:
    """Whether a value is divided by a number of things, or a mean is taken of it, as if it were of all batches."""
    for node in _around(place, ctx):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "mean":
            return place.node in node.args
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            divisor = node.right if isinstance(node, ast.BinOp) else node.value
            return isinstance(divisor, ast.Call) and ast.unparse(divisor.func) == "len"
    return False


def _around(place: Site, ctx: Context) -> Iterator[ast.AST]:
    """The expressions around a place, innermost first, and the statement that they are of."""
    for node in ctx.ancestors(place, ast.expr, ast.stmt):
        yield node
        if isinstance(node, ast.stmt):
            return
