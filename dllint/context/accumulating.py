"""Gradients of several batches that are added up before a step uses them."""

from __future__ import annotations

import ast

from dllint.context.decisions import Decisions
from dllint.context.loops import Loops
from dllint.context.optimizers import Optimizers
from dllint.events import Backward, Event, OpaqueCall, OptimizerStep, ZeroGrad
from dllint.sites import Guard, Guards
from dllint.values import Const, Setting, Symbol

_DIVISIONS = ("/", ".div", "torch.div")


class Accumulating(Optimizers, Loops, Decisions):
    """Which steps use what several runs of a backward pass have added up."""

    def steps_after_several(self, backward: Backward) -> list[OptimizerStep]:
        """The steps that use what several runs of a backward pass have added up."""
        loops = self.loops_around(backward)
        if not loops:
            return []
        inside = self.beside(backward, loops[0])
        steps = [event for event in inside if isinstance(event, OptimizerStep)]
        if steps:
            return self._every_kth(backward, steps, inside)
        may_clear = (event for event in inside if isinstance(event, ZeroGrad) or self._gets_optimizer(event))
        if any(may_clear) or self.loop_unit(loops[0]) != "micro-batches":
            return []
        return [event for event in self.beside(backward, loops[1]) if isinstance(event, OptimizerStep)]

    def period_between(self, backward: Backward, event: Event) -> Guards:
        """The conditions by which something happens only every few times that a backward pass does."""
        return tuple(guard for guard in self.conditions_beyond(event, backward) if guard.topic == "period")

    def remainder_in(self, guard: Guard) -> ast.BinOp | None:
        """The ``i % k`` in a condition."""
        inner = ast.walk(guard.node) if guard.node is not None else ()
        return next((node for node in inner if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)), None)

    def cleared_every_turn(self, step: OptimizerStep) -> list[ZeroGrad]:
        """What leaves a step, which is to use the gradients of several batches, those of the last one alone.

        Gradients are then cleared in each turn of the loop. That the step is for several batches is told by what the
        loss is divided by, or by the name of their number: there are loops that leave out steps on purpose.
        """
        loops = self.loops_around(step)
        inside = [each for each in self.beside(step, loops[0]) if loops[0] in self.loops_around(each)] if loops else []
        passes = [event for event in inside if isinstance(event, Backward)]
        steps = [each for each in inside if isinstance(each, OptimizerStep) and each is not step]
        others = [each for each in steps if self.is_same(each.optimizer, step.optimizer)]
        is_for_several = all(self._adds_up(each, step) for each in passes) and all(
            self.same_conditions(each, step) for each in others
        )
        if not passes or not is_for_several:
            return []
        return [
            event
            for event in inside
            if isinstance(event, ZeroGrad)
            and self.must_concern(event.target, step.optimizer)
            and self.loops_around(event)[0] is loops[0]
            and not any(self.conditions_beyond(event, each) for each in passes)
        ]

    def _adds_up(self, backward: Backward, step: OptimizerStep) -> bool:
        """Whether a step, by its condition, waits for several backward passes, and each is for a part of it."""
        period = self.period_between(backward, step)
        remainder = next((found for guard in period if (found := self.remainder_in(guard)) is not None), None)
        if remainder is None or any(guard.by_default for guard in period):
            return False
        if self.loops_around(backward)[0] is not self.loops_around(step)[0]:
            return False
        count = ast.unparse(remainder.right).rpartition(".")[2]
        origins = self.origins(backward.loss) if backward.loss is not None else []
        parts = [each.value for each in origins if isinstance(each.value, Symbol) and each.value.name in _DIVISIONS]
        divisors = [part.inputs[1] for part in parts if len(part.inputs) > 1]
        names = {each.name if isinstance(each, Setting) else self.name_of(each) for each in divisors}
        numbers = {repr(each.value) for each in divisors if isinstance(each, Const)}
        return count in names | numbers or self.speaks_of("accumulation", count)

    def _every_kth(self, backward: Backward, steps: list[OptimizerStep], inside: list[Event]) -> list[OptimizerStep]:
        """``if (i + 1) % k == 0: optimizer.step()`` after a backward pass that happens every time."""
        found = []
        for step in steps:
            period = self.period_between(backward, step)
            if not period:
                return []
            clearings = [e for e in inside if isinstance(e, ZeroGrad) and self.may_concern(e.target, step.optimizer)]
            same_turn = any(isinstance(event, Backward) and _shares(event, period) for event in inside)
            always = any(not self.period_between(backward, event) for event in (*steps, *clearings))
            if any(_shares(e, period) and self.position(e) < self.position(backward) for e in clearings):
                return []  # cleared right before the backward pass that is used: nothing adds up
            if clearings and not same_turn and not always:
                found.append(step)
        return found

    def _gets_optimizer(self, event: Event) -> bool:
        """Whether an unresolved call gets something that can clear gradients."""
        given = event.values if isinstance(event, OpaqueCall) else ()
        return any(self.guessed_role(value) in ("optimizer", "scaler") for value in given)


def _shares(event: Event, period: Guards) -> bool:
    wanted = {guard.key() for guard in period}
    return any(guard.key() in wanted for guard in event.guards)
