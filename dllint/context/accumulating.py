"""Gradients of several batches that are added up before a step uses them."""

from __future__ import annotations

import ast

from dllint.choices import same
from dllint.context.decisions import Decisions
from dllint.context.loops import Loops
from dllint.context.optimizers import Optimizers
from dllint.events import Backward, Event, OpaqueCall, OptimizerStep, ZeroGrad
from dllint.interp.run.guards import contradict
from dllint.sites import Guard, Guards
from dllint.structure import Loop
from dllint.values import Const, Setting, Symbol, Value

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
        clearings = (e for e in inside if isinstance(e, ZeroGrad) and not self._leaves_out(e, backward))
        if any(clearings) or any(map(self._gets_optimizer, inside)) or self.loop_unit(loops[0]) != "micro-batches":
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

        Gradients are then cleared in each turn of the loop, or of one over parts of a batch before the step. That the
        step is for several batches is told by what the loss is divided by, or by the name of their number: there are
        loops that leave out steps on purpose.
        """
        return self._cleared_every_part(step) or self._cleared_every_batch(step)

    def _cleared_every_part(self, step: OptimizerStep) -> list[ZeroGrad]:
        """``for part in range(k)`` around the clearing and the only backward pass; the step comes after that loop."""
        outer = next(iter(self.loops_around(step)), None)
        inside = self.beside(step, outer) if outer is not None else []
        passes = [event for event in inside if isinstance(event, Backward)]
        inner = {id(loops[0]): loops[0] for loops in map(self.loops_around, passes)}
        part = next(iter(inner.values()), None)
        if part is None or part is outer or len(inner) > 1 or not self._is_of_parts(part, passes):
            return []
        events = [event for event in inside if self.loops_around(event)[0] is part]
        return [
            event
            for event in self._clearings_of(step, events, passes)
            if self.position(event) < self.position(step) and self.loops_around(passes[0])[1] is outer
        ]

    def _is_of_parts(self, loop: Loop, passes: list[Backward]) -> bool:
        """Whether a loop is called one that adds up, or divides the loss that goes backward by the number of its turns.

        Its steps are outside of it.
        """
        count = self.loop_count(loop)
        if self.loop_unit(loop) == "micro-batches":
            return True
        if count is None or self.loop_unit(loop) != "unknown" or self.goes_round_once(loop):
            return False
        return all(any(same(divisor, count) for divisor in self._divisors(each)) for each in passes)

    def _cleared_every_batch(self, step: OptimizerStep) -> list[ZeroGrad]:
        """``if (i + 1) % k == 0: optimizer.step()`` in the loop that clears and goes backward in each turn."""
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
        events = [event for event in inside if self.loops_around(event)[0] is loops[0]]
        return self._clearings_of(step, events, passes)

    def _clearings_of(self, step: OptimizerStep, events: list[Event], passes: list[Backward]) -> list[ZeroGrad]:
        """Those of some events that clear what a step uses, whenever one of some backward passes happens."""
        return [
            event
            for event in events
            if isinstance(event, ZeroGrad)
            and self.must_concern(event.target, step.optimizer)
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
        divisors = self._divisors(backward)
        names = {each.name if isinstance(each, Setting) else self.name_of(each) for each in divisors}
        numbers = {repr(each.value) for each in divisors if isinstance(each, Const)}
        return count in names | numbers or self.speaks_of("accumulation", count)

    def _divisors(self, backward: Backward) -> list[Value]:
        """What the loss that goes backward was divided by."""
        origins = self.origins(backward.loss) if backward.loss is not None else []
        parts = [each.value for each in origins if isinstance(each.value, Symbol) and each.value.name in _DIVISIONS]
        return [part.inputs[1] for part in parts if len(part.inputs) > 1]

    def _every_kth(self, backward: Backward, steps: list[OptimizerStep], inside: list[Event]) -> list[OptimizerStep]:
        """``if (i + 1) % k == 0: optimizer.step()`` after a backward pass that happens every time."""
        found = []
        for step in steps:
            period = self.period_between(backward, step)
            if not period:
                return []
            clearings = [e for e in inside if isinstance(e, ZeroGrad) and self.may_concern(e.target, step.optimizer)]
            clearings = [e for e in clearings if not self._leaves_out(e, backward, step)]
            same_turn = any(isinstance(event, Backward) and _shares(event, period) for event in inside)
            always = any(not self.period_between(backward, event) for event in (*steps, *clearings))
            if any(_shares(e, period) and self.position(e) < self.position(backward) for e in clearings):
                return []  # cleared right before the backward pass that is used: nothing adds up
            if clearings and not same_turn and not always:
                found.append(step)
        return found

    def _leaves_out(self, clearing: ZeroGrad, *used: Event) -> bool:
        """Whether gradients are cleared where a test says that numbers are lost: the turn goes no further.

        What is used in other turns does then not happen in this one, and they are cleared in few.
        """
        tests = [
            guard
            for guard in self.conditions_beyond(clearing, used[0])
            if guard.node is not None and self.speaks_of("not-finite", *_names_in(guard.node))
        ]
        return any(contradict(test, guard) for test in tests for event in used for guard in event.guards)

    def _gets_optimizer(self, event: Event) -> bool:
        """Whether an unresolved call gets something that can clear gradients."""
        given = event.values if isinstance(event, OpaqueCall) else ()
        return any(self.guessed_role(value) in ("optimizer", "scaler") for value in given)


def _names_in(test: ast.expr) -> list[str]:
    return [getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(test)]


def _shares(event: Event, period: Guards) -> bool:
    wanted = {guard.key() for guard in period}
    return any(guard.key() in wanted for guard in event.guards)
