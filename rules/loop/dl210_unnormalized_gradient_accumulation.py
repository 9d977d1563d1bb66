"""Gradients that are summed over several batches without being divided by their number.

The accumulated gradient is exactly N times that of the large batch it stands for.

Measured on torch 2.13 with N = 8: the first update is 8.00 times too large with SGD; with momentum the loss after 100
steps is 1.349 instead of .130. Adam, AdamW, RMSprop and Adagrad do not care about the factor (their updates differ by
2.6e-6), but clipping, L2 decay, `eps` and the logged loss change.

## Bad
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        if (i + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()

## Good
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / steps
        loss.backward()
        if (i + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()

## Not reported
Losses that are divided or scaled by anything that is not a constant, summed losses (`reduction="sum"`), and gradients
that are changed by hand; what a framework divides itself; accumulation over 1, where that is known or the default;
losses of parts of one batch, which each are computed from all parts. Another network's turn every few steps (GAN
critics) and sums over several losses of one batch are no accumulation. What is cleared where a test says that a loss or
a gradient is not finite, and the turn goes no further, is cleared in few turns, and reported all the same. Under a
framework that divides by itself the division is what is reported: with `Accelerator(gradient_accumulation_steps=4)` and
`loss / 4` gradients are four times too small (.106 instead of .425).

## Fix (unsafe)
Divides what is sent backward: `(loss / steps).backward()`, so that the logged loss stays as it is. Unsafe because
updates become smaller, as they should, and the learning rate may have been chosen for the larger ones. A division that
Accelerate repeats is taken out.

## On real code
742 public repositories: 18 findings in 12 of them, all true: loops with Adam or AdamW (`info`), two detectors, and
divisions that Accelerate repeats.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Backward,
    Const,
    Context,
    Edits,
    Finding,
    Instance,
    OptimizerStep,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    remove,
    replace_range,
    statement_around,
)

_DIVISIONS = frozenset(("/", "//", "torch.div", ".div", ".div_", ".mul", ".mul_"))
_ADDITIVE = frozenset(("+", "-", "*", "negative", ".mean", ".sum", ".squeeze", "item", "attribute", "scaled"))
_AT_MOST_ONE = ((">", 1, False), (">=", 2, False), ("==", 1, True), ("<=", 1, True), ("<", 2, True))
_MAX_TERMS = 60


# ------------------------------------------------------------------------------------------------- excuses


def is_changed_by_hand(backward: Backward, step: OptimizerStep, ctx: Context) -> bool:
    """gradients are changed by hand"""
    return any(event.attribute == "grad" for event in ctx.all_of(AttributeAssigned))


def is_divided_by_framework(backward: Backward, step: OptimizerStep, ctx: Context) -> bool:
    """the framework or engine around the backward pass divides by the number of batches"""
    if ctx.is_managed(backward) or backward.via == "deepspeed" or "accumulate" in backward.contexts:
        return True
    call = backward.site.node
    names = ast.walk(call.func) if isinstance(call, ast.Call) else ()
    if any("deepspeed" in getattr(node, "attr", getattr(node, "id", "")) for node in names):
        return True
    return backward.via == "accelerate" and bool(_accumulation_of_accelerators(ctx))


def is_scaled(backward: Backward, step: OptimizerStep, ctx: Context) -> bool:
    """the loss is divided, scaled by something that is not constant, summed, or given a weight"""
    same_place = (other for other in ctx.all_of(Backward) if other.site.node is backward.site.node)
    return any(
        _is_given_gradient(other) or any(_scales(term, ctx) for term in _terms(other, ctx)) for other in same_place
    )


def counts_to_one(backward: Backward, step: OptimizerStep, ctx: Context) -> bool:
    """gradients are accumulated over one batch, at least by default"""
    boundary = ctx.period_between(backward, step)
    if any(guard.by_default for guard in boundary):
        return True
    remainder = next((found for guard in boundary if (found := ctx.remainder_in(guard))), None)
    if remainder is None:
        return False
    count = ast.unparse(remainder.right)
    tests = [
        (guard.subject.rpartition(":")[2], guard.relation, guard.operand, guard.holds) for guard in backward.guards
    ]
    return any((count, *bound) in tests for bound in _AT_MOST_ONE)


def is_cut_at_its_turn(backward: Backward, step: OptimizerStep, ctx: Context) -> bool:
    """each loss is computed from all parts, as contrastive ones are, so that their gradients are to be summed

    Something is then cut at the loop's variable: ``parts[:j] + [new] + parts[j + 1:]``.
    """
    loop = ctx.loops_around(backward)[0]
    node = loop.site.node
    if ctx.loop_unit(loop) != "micro-batches" or not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
        return False
    slices = (part for part in ast.walk(node) if isinstance(part, ast.Slice))
    return any(isinstance(part, ast.Name) and part.id == node.target.id for each in slices for part in ast.walk(each))


class UnnormalizedGradientAccumulation(Rule):
    code = "DL210"
    name = "unnormalized-gradient-accumulation"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("backward", "manual_backward", "zero_grad"), ("step",), ("backward", "manual_backward"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation",)
    excuses = (is_changed_by_hand, is_divided_by_framework, is_scaled, counts_to_one, is_cut_at_its_turn)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for backward in ctx.all_of(Backward):
            if backward.loss is None:
                continue
            division = _second_division(backward, ctx)
            if division is not None:
                yield self._report_second(backward, division, ctx)
            for step in ctx.steps_after_several(backward):
                if not ctx.excused(self, backward, step):
                    yield self._report(backward, step, ctx)

    def _report(self, backward: Backward, step: OptimizerStep, ctx: Context) -> Finding:
        names = [name for value in ctx.objects(step.optimizer) for name in ctx.library_bases(value)]
        is_adaptive = not names or ctx.speaks_of("adaptive-optimizer", *names)
        loop = ctx.loops_around(backward)[0]
        assumptions = []
        if not all(isinstance(value, Instance) for value in ctx.objects(step.optimizer)):
            assumptions.append(Assumption("effect", "the optimizer does not divide by the size of the gradients"))
        if ctx.loop_unit(loop) == "micro-batches":
            assumptions.append(Assumption("name", "the loop goes over parts of one batch, as its name says"))
        return ctx.finding(
            self,
            backward,
            "gradients of several batches are summed without dividing the loss by their number",
            on=[step],
            assuming=assumptions,
            effect="clipping, decay and the logged loss change with the number of batches; Adam-like updates do not"
            if is_adaptive
            else "each update is as many times too large as batches are accumulated",
            help="divide the loss by the number of accumulated batches before `backward`",
            trace=[(backward.site, "added to the gradients each time"), (step.site, "used only every few times")],
            severity="info" if is_adaptive else None,
            fix=("Divide the loss", _divide(backward, step, ctx)),
        )

    def _report_second(self, backward: Backward, division: Symbol, ctx: Context) -> Finding:
        site = division.site or backward.site
        return ctx.finding(
            self,
            site,
            "the loss is divided by the number of accumulated batches, and Accelerate divides it again",
            assuming=[Assumption("opaque", "Accelerate accumulates here")],
            effect="each update is as many times too small as batches are accumulated; Adam-like ones are not",
            help="leave the division to `accelerator.backward`",
            trace=[(site, "divided here"), (backward.site, "and again here")],
            fix=("Divide once", _undivided(site, ctx)),
            severity="warning",
        )


# ------------------------------------------------------------------------------------------- what is divided


def _accumulation_of_accelerators(ctx: Context) -> list[Value]:
    """The numbers of batches that accelerators of the program accumulate, and divide by."""
    made = (event.result for event in ctx.library_calls("accelerate.Accelerator"))
    given = [each.arguments.get(None, "gradient_accumulation_steps") for each in made if isinstance(each, Instance)]
    return [number for number in given if number is not None]


def _second_division(backward: Backward, ctx: Context) -> Symbol | None:
    """The division of a loss by the number of batches that the accelerator divides by itself."""
    numbers = _accumulation_of_accelerators(ctx) if backward.via == "accelerate" else []
    for origin in ctx.origins(backward.loss) if numbers and backward.loss is not None else ():
        division = origin.value
        if isinstance(division, Symbol) and division.name == "/" and len(division.inputs) == 2:
            by = division.inputs[1]
            if any(number is by or (ctx.constant(by) or 1) == ctx.constant(number) != 1 for number in numbers):
                return division
            if ctx.speaks_of("accumulation", ctx.name_of(by)):
                return division
    return None


def _is_given_gradient(backward: Backward) -> bool:
    """Whether ``backward`` is given a gradient."""
    call = backward.site.node
    given = isinstance(call, ast.Call) and (call.args or any(each.arg == "gradient" for each in call.keywords))
    return bool(given) and not backward.via


def _terms(backward: Backward, ctx: Context) -> Iterator[Symbol]:
    """The operations that a loss is a sum, mean or part of."""
    pending: list[Value] = [backward.loss] if backward.loss is not None else []
    for value in islice(pending, _MAX_TERMS):  # which grows meanwhile
        for origin in ctx.origins(value):
            term = origin.value
            if isinstance(term, Symbol):
                yield term
                if term.name in _ADDITIVE:
                    pending.extend(term.inputs if term.name in ("+", "-", "*") else term.inputs[:1])


def _scales(term: Symbol, ctx: Context) -> bool:
    """Whether an operation divides, multiplies by something that is not constant, or sums and does not average."""
    if term.name == "*":
        return not any(isinstance(side, Const) for side in term.inputs)
    is_sum = term.name in ("torch.sum", ".sum") or ctx.constant(ctx.argument(term, None, "reduction")) == "sum"
    return is_sum or term.name in _DIVISIONS


# -------------------------------------------------------------------------------------------------- the fixes


def _undivided(division: Site, ctx: Context) -> Edits:
    """Leave what is divided; ``loss = loss / n`` and ``loss /= n`` go altogether."""
    statement = statement_around(division)
    node = division.node
    if not isinstance(node, ast.BinOp):
        return remove(division) if isinstance(statement, ast.AugAssign) else Edits()
    left = ctx.source_of(Site(division.module, node.left))
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == left and statement.value is node:
        return remove(division)
    return replace_range(division, left)


def _divide(backward: Backward, step: OptimizerStep, ctx: Context) -> Edits:
    """Divide what is sent backward by the number that the condition of the step counts to, or the loop."""
    count = _batches_added_up(backward, step, ctx)
    call = backward.site.node
    if not count or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return Edits()
    receiver = call.func.value
    inner = receiver if isinstance(receiver, ast.Call) and receiver.args and backward.scaler is not None else call
    loss = inner.args[0] if inner.args and (inner is not call or backward.via) else receiver
    place = Site(backward.site.module, loss)
    text = ctx.source_of(place)
    if not isinstance(loss, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        text = f"({text})"
    return replace_range(place, f"({text} / {count})" if loss is receiver else f"{text} / {count}")


def _batches_added_up(backward: Backward, step: OptimizerStep, ctx: Context) -> str:
    """The number of batches that are added up, as it is written in the function of the backward pass."""
    if backward.frame is not step.frame:
        return ""
    periods = [guard for guard in step.guards if guard.topic == "period"]
    remainders = [remainder for guard in periods if (remainder := ctx.remainder_in(guard)) is not None]
    number = remainders[-1].right if remainders else None
    if not periods:
        number = _repetitions(ctx.loops_around(backward)[0].site.node)
    return ast.unparse(number) if isinstance(number, ast.Name | ast.Attribute | ast.Constant) else ""


def _repetitions(loop: ast.AST) -> ast.expr | None:
    """The ``n`` of ``for i in range(n)``."""
    over = loop.iter if isinstance(loop, ast.For) else None
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range" and over.args:
        return over.args[-1]
    return None
