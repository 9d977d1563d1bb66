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
Losses that are divided or scaled by anything that is not a constant, summed losses (`reduction="sum"`), gradients that
are rescaled by hand, another network's turn every few steps (GAN critics), sums over several losses of one batch, and
accumulation over 1, where that is known. Under a framework that divides by itself the division is what is reported:
with `Accelerator(gradient_accumulation_steps=4)` and `loss / 4` gradients are four times too small (.106 instead of
.425).

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
import re
from collections.abc import Iterator, Sequence

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Backward,
    Const,
    Context,
    Edit,
    Event,
    Finding,
    Guard,
    Guards,
    Instance,
    Loop,
    OpaqueCall,
    OptimizerStep,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    ZeroGrad,
    offer,
    remove,
    replace_range,
    statement_around,
)

_ACCUMULATION = re.compile(r"accum|micro|grad_acc", re.IGNORECASE)
_ADDITIVE = frozenset(("+", "-", "*", "negative", ".mean", ".sum", ".squeeze", "item", "attribute", "scaled"))
_AT_MOST_ONE = ((">", 1, False), (">=", 2, False), ("==", 1, True), ("<=", 1, True), ("<", 2, True))
_SCALE_INVARIANT = frozenset(
    ("Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adamax", "Adadelta", "Muon", "Lion")
)


class UnnormalisedGradientAccumulation(Rule):
    code = "DL210"
    name = "unnormalised-gradient-accumulation"
    category = "correctness"
    severity = "error"
    triggers = (("backward", "manual_backward", "zero_grad"), ("step",), ("backward", "manual_backward"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        if any(event.attribute == "grad" for event in ctx.all_of(AttributeAssigned)):
            return
        backwards = [event for event in ctx.all_of(Backward) if event.loss is not None]
        scaled = {event.site.node for event in backwards if _is_scaled(event, ctx)}
        for backward in backwards:
            division = _second_division(backward, ctx)
            if division is not None:
                yield self._report_second(backward, division, ctx)
            if backward.site.node in scaled or self._is_divided_elsewhere(backward, ctx):
                continue
            step = self._boundary(backward, ctx)
            if step is not None:
                yield self._report(backward, step, ctx)

    def _is_divided_elsewhere(self, backward: Backward, ctx: Context) -> bool:
        """Whether the framework or helper around a backward pass divides by the number of batches."""
        if ctx.is_managed(backward) or backward.via == "deepspeed" or "accumulate" in backward.contexts:
            return True
        call = backward.site.node
        if isinstance(call, ast.Call) and "deepspeed" in ast.unparse(call.func):
            return True  # its engine divides
        return backward.via == "accelerate" and bool(_accumulation_of_accelerators(ctx))

    def _boundary(self, backward: Backward, ctx: Context) -> OptimizerStep | None:
        """The step that uses what several runs of this backward pass have added up."""
        loops = ctx.loops_around(backward)
        if not loops:
            return None
        inner = loops[0]
        inside = ctx.beside(backward, inner)
        steps = [event for event in inside if isinstance(event, OptimizerStep)]
        if steps:
            return self._every_kth(backward, steps, inside, ctx)
        if any(isinstance(event, ZeroGrad | OpaqueCall) for event in inside if not _is_harmless(event, ctx)):
            return None
        if not _is_accumulation_loop(inner, ctx) or len(loops) < 2 or _is_cut_at_its_turn(inner):
            return None
        return next((event for event in ctx.beside(backward, loops[1]) if isinstance(event, OptimizerStep)), None)

    def _every_kth(
        self, backward: Backward, steps: list[OptimizerStep], inside: list[Event], ctx: Context
    ) -> OptimizerStep | None:
        """``if (i + 1) % k == 0: optimizer.step()`` behind a backward pass that happens every time."""
        mine = {guard.key() for guard in backward.guards}
        for step in steps:
            boundary = [guard for guard in step.guards if guard.periodic and guard.key() not in mine]
            if not boundary or _is_every_time(boundary[0].subject) or _is_of_one(backward.guards, boundary[0].subject):
                return None
            clearings = [
                event
                for event in inside
                if isinstance(event, ZeroGrad) and ctx.may_concern(event.target, step.optimizer)
            ]
            same_turn = any(isinstance(event, Backward) and _shares(event.guards, boundary) for event in inside)
            always = any(not _is_periodic(event.guards, mine) for event in (*steps, *clearings))
            order = {id(event): index for index, event in enumerate(inside)}
            if any(_shares(e.guards, boundary) and order[id(e)] < order[id(backward)] for e in clearings):
                return None  # cleared right before the backward pass that is used: nothing adds up
            if clearings and not same_turn and not always:
                return step
        return None

    def _report(self, backward: Backward, step: OptimizerStep, ctx: Context) -> Finding:
        harmless = self._is_scale_invariant(step.optimizer, ctx)
        return ctx.finding(
            self,
            backward,
            "gradients of several batches are summed without dividing the loss by their number",
            effect="clipping, decay and the logged loss change with the number of batches; Adam-like updates do not"
            if harmless
            else "each update is as many times too large as batches are accumulated",
            help="divide the loss by the number of accumulated batches before `backward`",
            trace=[(backward.site, "added to the gradients each time"), (step.site, "used only every few times")],
            severity="info" if harmless else None,
            fixes=offer("Divide the loss", _divide(backward, step, ctx), "unsafe", of=backward.site, at=backward.site),
            assuming=[]
            if self._has_known_class(step.optimizer, ctx)
            else [Assumption("effect", "the optimizer does not divide by the size of the gradients")],
        )

    def _report_second(self, backward: Backward, division: Symbol, ctx: Context) -> Finding:
        site = division.site or backward.site
        return ctx.finding(
            self,
            site,
            "the loss is divided by the number of accumulated batches, and Accelerate divides it again",
            effect="each update is as many times too small as batches are accumulated; Adam-like ones are not",
            help="leave the division to `accelerator.backward`",
            trace=[(site, "divided here"), (backward.site, "and again here")],
            fixes=offer("Divide once", _undivided(site, ctx), "unsafe", of=site, at=site),
            severity="warning",
            assuming=[Assumption("opaque", "the framework divides the loss, too")],
        )

    def _is_scale_invariant(self, optimizer: Value, ctx: Context) -> bool:
        """Whether the optimizer's updates do not depend on the scale of gradients (an unknown one counts as such)."""
        names = {name.rpartition(".")[2] for value in ctx.objects(optimizer) for name in ctx.library_bases(value)}
        return not names or bool(names & _SCALE_INVARIANT)

    def _has_known_class(self, optimizer: Value, ctx: Context) -> bool:
        return all(isinstance(value, Instance) for value in ctx.objects(optimizer))


def _accumulation_of_accelerators(ctx: Context) -> list[Value]:
    """The numbers of batches that accelerators of the program accumulate, and divide by."""
    made = (event.result for event in ctx.library_calls("accelerate.Accelerator"))
    given = [each.arguments.get(None, "gradient_accumulation_steps") for each in made if isinstance(each, Instance)]
    return [number for number in given if number is not None]


def _second_division(backward: Backward, ctx: Context) -> Symbol | None:
    """The division of a loss by the number of batches that the accelerator divides by itself."""
    if backward.via != "accelerate" or backward.loss is None:
        return None
    numbers = _accumulation_of_accelerators(ctx)
    for origin in ctx.origins(backward.loss):
        division = origin.value
        if isinstance(division, Symbol) and division.name == "/" and len(division.inputs) == 2:
            by = division.inputs[1]
            if any(number is by or (ctx.constant(by) or 1) == ctx.constant(number) != 1 for number in numbers):
                return division
            if numbers and _ACCUMULATION.search(ctx.name_of(by)):
                return division
    return None


def _undivided(division: Site, ctx: Context) -> tuple[Edit, ...]:
    """Leave what is divided; ``loss = loss / n`` and ``loss /= n`` go altogether."""
    statement = statement_around(division)
    node = division.node
    if not isinstance(node, ast.BinOp):
        return remove(division) if isinstance(statement, ast.AugAssign) else ()
    left = ctx.source_of(Site(division.module, node.left))
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == left and statement.value is node:
        return remove(division)
    return replace_range(division, left)


def _shares(guards: Guards, boundary: Sequence[Guard]) -> bool:
    wanted = {guard.key() for guard in boundary}
    return any(guard.key() in wanted for guard in guards)


def _is_periodic(guards: Guards, mine: set[tuple[str, str, str, bool]]) -> bool:
    """Whether something happens only every few times that the backward pass does."""
    return any(guard.periodic and guard.key() not in mine for guard in guards)


def _remainder(subject: str) -> ast.BinOp | None:
    """The ``i % k`` in the subject of a condition."""
    try:
        tree = ast.parse(subject.rpartition(":")[2], mode="eval")
    except SyntaxError:
        return None
    return next((n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)), None)


def _is_every_time(subject: str) -> bool:
    """``i % 1`` is no accumulation."""
    remainder = _remainder(subject)
    return remainder is not None and isinstance(remainder.right, ast.Constant) and remainder.right.value == 1


def _is_of_one(guards: Guards, subject: str) -> bool:
    """Whether conditions say of the ``k`` in ``i % k`` that it is not more than 1."""
    remainder = _remainder(subject)
    count = ast.unparse(remainder.right) if remainder is not None else ""
    return any(
        guard.subject.rpartition(":")[2] == count and (guard.relation, guard.operand, guard.holds) in _AT_MOST_ONE
        for guard in guards
    )


def _divide(backward: Backward, step: OptimizerStep, ctx: Context) -> tuple[Edit, ...]:
    """Divide what is sent backward by the number that the condition of the step counts to, or the loop."""
    count = _count(backward, step, ctx)
    call = backward.site.node
    if not count or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ()
    receiver = call.func.value
    inner = receiver if isinstance(receiver, ast.Call) and receiver.args and backward.scaler is not None else call
    loss = inner.args[0] if inner.args and (inner is not call or backward.via) else receiver
    place = Site(backward.site.module, loss)
    text = ctx.source_of(place)
    if not isinstance(loss, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        text = f"({text})"
    return replace_range(place, f"({text} / {count})" if loss is receiver else f"{text} / {count}")


def _count(backward: Backward, step: OptimizerStep, ctx: Context) -> str:
    """The number of batches that are added up, as it is written in the function of the backward pass."""
    if backward.frame is not step.frame:
        return ""
    number: ast.expr | None = None
    for guard in step.guards:
        remainder = _remainder(guard.subject) if guard.periodic else None
        number = remainder.right if remainder is not None else number
    if number is None and not any(guard.periodic for guard in step.guards):
        number = _repetitions(ctx.loops_around(backward)[0].site.node)
    return ast.unparse(number) if isinstance(number, ast.Name | ast.Attribute | ast.Constant) else ""


def _repetitions(loop: ast.AST) -> ast.expr | None:
    """The ``n`` of ``for i in range(n)``."""
    over = loop.iter if isinstance(loop, ast.For) else None
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range" and over.args:
        return over.args[-1]
    return None


def _is_harmless(event: object, ctx: Context) -> bool:
    return isinstance(event, OpaqueCall) and not any(
        ctx.guessed_role(v) in ("optimizer", "scaler") for v in event.values
    )


def _is_accumulation_loop(loop: Loop, ctx: Context) -> bool:
    """``for micro_step in range(accumulation_steps)``, where the number is not a literal 1."""
    count = loop.iterable
    if not isinstance(count, Symbol) or count.name != "range" or not count.inputs:
        return False
    last = count.inputs[-1]
    if isinstance(last, Const) and last.value == 1:
        return False
    node = loop.site.node
    text = ast.unparse(node.iter) + " " + ast.unparse(node.target) if isinstance(node, ast.For) else ""
    return bool(_ACCUMULATION.search(text))


def _is_cut_at_its_turn(loop: Loop) -> bool:
    """Whether something is cut at the loop's variable (``parts[:j] + [new] + parts[j + 1:]``).

    Each loss is then computed from all parts, as contrastive ones are, and their gradients are to be summed.
    """
    node = loop.site.node
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
        return False
    name = node.target.id
    slices = [part for part in ast.walk(node) if isinstance(part, ast.Slice)]
    return any(isinstance(part, ast.Name) and part.id == name for each in slices for part in ast.walk(each))


def _is_scaled(backward: Backward, ctx: Context) -> bool:
    """Whether a loss is divided, multiplied by something not constant, summed and not averaged, or given a weight."""
    call = backward.site.node
    if (
        isinstance(call, ast.Call)
        and not backward.via
        and (call.args or any(k.arg == "gradient" for k in call.keywords))
    ):
        return True
    pending, seen = [backward.loss] if backward.loss is not None else [], 0
    while pending and seen < 60:
        value = pending.pop()
        seen += 1
        for origin in ctx.origins(value):
            symbol = origin.value
            if not isinstance(symbol, Symbol):
                continue
            if symbol.name in ("/", "//", "torch.div", ".div", ".div_", ".mul", ".mul_"):
                return True
            if symbol.name == "*" and not any(isinstance(side, Const) for side in symbol.inputs):
                return True
            if symbol.name in ("torch.sum", ".sum") or ctx.constant(ctx.argument(symbol, None, "reduction")) == "sum":
                return True
            if symbol.name in _ADDITIVE and symbol.inputs:
                pending.extend(symbol.inputs if symbol.name in ("+", "-", "*") else symbol.inputs[:1])
    return False
