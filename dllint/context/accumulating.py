"""Gradients of several batches that are added up before a step uses them."""

from __future__ import annotations

from dllint.context.decisions import Decisions
from dllint.context.loops import Loops
from dllint.context.optimizers import Optimizers
from dllint.events import Backward, Event, OpaqueCall, OptimizerStep, ZeroGrad
from dllint.sites import Guards


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
