"""A sum that is begun before the first epoch, and averaged in each.

`running_loss = 0.0` stands in front of the loop over epochs, and `running_loss / len(loader)` in it, or
`if running_loss < best_loss: best_loss = running_loss`. Each epoch adds to what the epochs before have left. A sum
grows although the loss falls, and with it the metric that picks a checkpoint. A list gives the mean since the first
epoch, which lags behind.

Measured on torch 2.13 (three seeds, 20 epochs): a validation loss of .40, .33 and .45 in the end is reported as 12.5,
10.8 and 13.8, and it is lowest in the first epoch, so that the untrained model is the best one. The mean of a list says
.63, .54 and .69.

## Bad
    running_loss = 0.0
    for epoch in range(epochs):
        for x, y in train_loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        print(epoch, running_loss / len(train_loader))

## Good
    for epoch in range(epochs):
        running_loss = 0.0
        for x, y in train_loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        print(epoch, running_loss / len(train_loader))

A meter, or a metric of torchmetrics, does the adding itself: one that is made before the loop over epochs, updated in
each batch and read in each epoch is of all epochs so far, unless something calls its `reset`. One that is the default
of a parameter (`def train_epoch(model, loader, losses=AverageMeter())`) is made once, where the function is defined,
and is of all calls so far.

## Not reported
Sums that are set anywhere in the loop over epochs, also under a condition; those divided by a count that goes on as
well, or by a number of epochs; those begun in each epoch, before a loop over its parts; lists that are cut, or averaged
in each batch; sums that are neither averaged nor compared with the best one so far (steps, samples, seconds), and
averages after the last epoch. Meters that something else gets hold of, that may forget by themselves, or that are read
in each batch alone (but for those by default); meters by default of which some call hands over another.

## Fix (unsafe)
Begins the sum at the top of the loop, or resets the meter before the batches. Unsafe because it changes what is
reported, and what is decided by it.

## On real code
280 public repositories: no finding, after 2 in one of them that were false: the list is cut to the last hundred, as the
clause above says. In 594 others 2: 1 true, and 1 false, a running mean with a count that begins with 1, silent now.
Meters: no finding in 523.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Backward,
    BatchLoop,
    Context,
    Edits,
    Finding,
    Loop,
    Mean,
    Meter,
    Program,
    Rule,
    Site,
    Sum,
    insert_before,
)

_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

# ------------------------------------------------------------------------------------------------- excuses


def is_divided_by_all(place: Site, one: BatchLoop, mean: Mean, ctx: Context) -> bool:
    """it is divided by what goes on as well: a count that is not reset either, or a number of epochs"""
    assert one.outer is not None
    header = one.outer.site.node
    counted = (
        {node.id for node in ast.walk(header.target) if isinstance(node, ast.Name)}
        if isinstance(header, ast.For)
        else set()
    )
    names = {node.id for node in ast.walk(mean.divisor) if isinstance(node, ast.Name)} if mean.divisor else set()
    others = names - {mean.name}
    goes_on = any(ctx.begun_before(name, one.outer) is not None or _only_grows(name, header) for name in others)
    return goes_on or bool(names & counted)


def is_begun_in_each_epoch(place: Site, one: BatchLoop, mean: Mean, ctx: Context) -> bool:
    """the loop in which it is not begun goes over parts of an epoch: segments, phases, domains"""
    return one.outer is not None and ctx.is_part_of_an_epoch(one.outer)


class AccumulatorNotReset(Rule):
    code = "DL872"
    name = "accumulator-not-reset"
    category = "correctness"
    severity = "warning"
    triggers = (("backward", "eval", "no_grad"),)
    fix_safety = "unsafe"
    excuses = (is_divided_by_all, is_begun_in_each_epoch)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: set[str] = set()
        for one in ctx.batch_loops:
            if not ctx.framework(one.event):
                yield from self._judge_defaults(one, reported, ctx)
            if one.outer is None or ctx.framework(one.event):
                continue
            yield from self._judge_meters(one, one.outer, reported, ctx)
            if ctx.loop_unit(one.outer) != "epochs" and not ctx.counts_batches(one.loop):
                continue
            for added in ctx.summed_in(one):
                begun = ctx.begun_before(added.name, one.outer) if _is_measured(added, one, ctx) else None
                mean = _use_of(added, begun, one, ctx) if begun is not None else None
                if begun is None or mean is None or added.name in reported:
                    continue
                if not ctx.excused(self, one.site(mean.place), one, mean):
                    reported.add(added.name)
                    yield self._report(one, added, mean, begun, ctx)

    def _judge_meters(self, one: BatchLoop, outer: Loop, reported: set[str], ctx: Context) -> Iterator[Finding]:
        """The meters that go on from one epoch, or one evaluation in a training, to the next."""
        if not _is_of_rounds(outer, one, ctx):
            return
        for meter in ctx.meters_in(outer):
            added = next((each for each in meter.added if ctx.is_within(one.site(each), one.site(one.node))), None)
            end = one.node.end_lineno or one.node.lineno
            read = next((each for each in meter.results if each.lineno > end), None)
            if added is None or read is None or meter.name in reported or not _measures(meter, added, ctx):
                continue
            if not ctx.excused(self, one.site(read), one, Mean(meter.name, read, None)):
                reported.add(meter.name)
                yield self._report_meter(one, outer, meter, added, read, ctx)

    def _judge_defaults(self, one: BatchLoop, reported: set[str], ctx: Context) -> Iterator[Finding]:
        """The meters that all calls of a function share, which is called in each epoch."""
        around = [each for each in ctx.loops_around(one.event) if each.frame is not one.loop.frame]
        outer = next((each for each in around if _is_of_rounds(each, one, ctx)), None)
        for meter in ctx.meters_by_default(one) if outer is not None else ():
            added = next((each for each in meter.added if ctx.is_within(one.site(each), one.site(one.node))), None)
            if outer is None or added is None or meter.name in reported or not _measures(meter, added, ctx):
                continue
            reported.add(meter.name)
            yield self._report_meter(one, outer, meter, added, meter.results[0], ctx)

    def _report_meter(
        self, one: BatchLoop, outer: Loop, meter: Meter, added: ast.Call, read: ast.AST, ctx: Context
    ) -> Finding:
        statement = one.site(one.node)
        is_default = isinstance(meter.made, ast.Call)
        begun = "a default, which is made once" if is_default else "made only once, before the first"
        return ctx.finding(
            self,
            one.site(read),
            f"`{meter.name}` is read in each round, and {begun}",
            on=[one.event, outer],
            effect="it tells of all batches since then: the mean of all epochs, which lags behind",
            help=f"call `{meter.name}.reset()` before the loop over batches",
            trace=[
                (one.site(meter.made), "made here, once, for all calls" if is_default else "made here, once"),
                (one.site(added), "added to in each batch"),
                (one.site(read), "read as if it were of one round"),
            ],
            fix=("Reset it in each round", insert_before(statement, f"{meter.name}.reset()")),
        )

    def _report(self, one: BatchLoop, added: Sum, mean: Mean, begun: Site, ctx: Context) -> Finding:
        assert one.outer is not None
        used = "compared with the best" if isinstance(mean.place, ast.Compare) else "averaged"
        return ctx.finding(
            self,
            one.site(mean.place),
            f"`{added.name}` is {used} in each epoch, and begun only once, before the first",
            on=[one.event, one.outer],
            effect="it is the mean since the first epoch, and lags behind"
            if ctx.begins_list(begun, added.name)
            else "each epoch adds to those before: what is reported grows although the loss falls",
            help=f"begin `{added.name}` in the loop over epochs",
            trace=[
                (begun, "begun here, once"),
                (one.site(added.statement), "added to in each batch of each epoch"),
                (one.site(mean.place), f"{used} as if it were of one epoch"),
            ],
            fix=("Begin it in each epoch", _begun_within(one.outer, added, begun)),
        )


def _use_of(added: Sum, begun: Site, one: BatchLoop, ctx: Context) -> Mean | None:
    """Where what was added up is used as if it were of one epoch: averaged, or compared with the best one so far."""
    assert one.outer is not None
    means = (each for each in ctx.means_in(one.outer.site, added.name) if _is_reported(each, begun, one, ctx))
    compared = () if ctx.begins_list(begun, added.name) else _compared_with_best(added, one)
    return next(means, None) or next(iter(compared), None)


def _compared_with_best(added: Sum, one: BatchLoop) -> Iterator[Mean]:
    """Where a sum is compared, after the batches, with a variable that it is put in if it is better."""
    assert one.outer is not None
    end = one.node.end_lineno or one.node.lineno
    for branch in ast.walk(one.outer.site.node):
        test = branch.test if isinstance(branch, ast.If) and branch.lineno > end else None
        if not isinstance(branch, ast.If) or not isinstance(test, ast.Compare) or not isinstance(test.ops[0], _ORDER):
            continue
        sides = [ast.unparse(each) for each in (test.left, *test.comparators)]
        kept = (each for each in branch.body if isinstance(each, ast.Assign) and ast.unparse(each.value) == added.name)
        if len(sides) == 2 and added.name in sides:
            other = sides[1 - sides.index(added.name)]
            if any(other in [ast.unparse(target) for target in each.targets] for each in kept):
                yield Mean(added.name, test, None)


def _is_of_rounds(outer: Loop, one: BatchLoop, ctx: Context) -> bool:
    """Whether each iteration of a loop is an epoch, or has an evaluation of what is trained in it."""
    unit = ctx.loop_unit(outer)
    is_evaluated = ctx.phase(one.event).is_evaluation and _trains_in(outer, ctx)
    return unit == "epochs" or (unit != "runs" and is_evaluated)


def _trains_in(loop: Loop, ctx: Context) -> bool:
    """Whether a model is trained in a loop."""
    return any(loop in ctx.loops_around(event) for event in ctx.all_of(Backward))


def _measures(meter: Meter, added: ast.Call, ctx: Context) -> bool:
    """Whether a meter is of a loss or a metric, as far as its name, its class and what it is given tell."""
    given = [node.id for each in added.args for node in ast.walk(each) if isinstance(node, ast.Name)]
    return any(ctx.speaks_of("score", name) for name in (meter.name, meter.cls, *given))


def _only_grows(name: str, loop: ast.AST) -> bool:
    """Whether a variable is added to in a loop, and gets no other value in it."""
    nodes = [node for node in ast.walk(loop) if isinstance(node, ast.Name) and node.id == name]
    stored = {id(node) for node in nodes if isinstance(node.ctx, ast.Store)}
    grown = {id(node.target) for node in ast.walk(loop) if isinstance(node, ast.AugAssign)}
    return bool(stored) and stored <= grown


def _is_measured(added: Sum, one: BatchLoop, ctx: Context) -> bool:
    """Whether a loss or a metric is added, to a variable, as far as its names tell."""
    names = [node.id for node in ast.walk(added.added) if isinstance(node, ast.Name)]
    is_named = any(ctx.speaks_of("score", name) for name in (added.name, *names))
    return added.name.isidentifier() and (is_named or _counts_hits(added.added, one))


def _counts_hits(added: ast.expr, one: BatchLoop) -> bool:
    """Whether how many predictions equal the answers is added, there or in a variable of the loop: `(p == y).sum()`."""
    names = {node.id for node in ast.walk(added) if isinstance(node, ast.Name)}
    bound = (each for each in ast.walk(one.node) if isinstance(each, ast.Assign) and len(each.targets) == 1)
    made = [each.value for each in bound if isinstance(each.targets[0], ast.Name) and each.targets[0].id in names]
    sums = (node for root in (added, *made) for node in ast.walk(root) if _adds_up(node))
    return any(isinstance(node, ast.Compare) and _is_of_two(node) for each in sums for node in ast.walk(each))


def _adds_up(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "sum"


def _is_of_two(compared: ast.Compare) -> bool:
    """Whether two things are asked to be equal, none of them a constant."""
    sides = (compared.left, *compared.comparators)
    return isinstance(compared.ops[0], ast.Eq) and not any(isinstance(each, ast.Constant) for each in sides)


def _is_reported(mean: Mean, begun: Site, one: BatchLoop, ctx: Context) -> bool:
    """Whether somebody reads an average. That of a list in each batch is one of all batches so far, as it should be."""
    place = one.site(mean.place)
    if ctx.begins_list(begun, mean.name) and ctx.is_within(place, one.site(one.node)):
        return False
    return isinstance(mean.place, ast.AugAssign) or ctx.is_read_at(place)


def _begun_within(outer: Loop, added: Sum, begun: Site) -> Edits:
    """The statement that begins a sum, at the top of a loop; none where it binds more than that."""
    node, loop = begun.node, outer.site.node
    is_own = isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [added.name]
    if not is_own or not isinstance(loop, ast.For | ast.While):
        return Edits()
    return insert_before(Site(outer.site.module, loop.body[0]), ast.unparse(node))
