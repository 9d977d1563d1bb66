"""Which parameters a program freezes, and where it lets them be trained again."""

from __future__ import annotations

import ast
from functools import cached_property

from dllint.context.optimizers import Optimizers
from dllint.events import AttributeAssigned
from dllint.values import Value


class Freezing(Optimizers):
    """What has its gradients switched off and on by ``requires_grad``."""

    @cached_property
    def gradient_switches(self) -> tuple[AttributeAssigned, ...]:
        """Where parameters are frozen or unfrozen, in order.

        ``module.requires_grad_(False)`` does that to all of a module's; ``module.requires_grad = False`` does nothing.
        """
        return tuple(
            event
            for event in self.all_of(AttributeAssigned)
            if event.attribute == "requires_grad"
            and (isinstance(event.site.node, ast.Call) or self.guessed_role(event.target) != "module")
        )

    @cached_property
    def freezes(self) -> tuple[AttributeAssigned, ...]:
        """Where parameters are frozen, in order."""
        return tuple(event for event in self.gradient_switches if self.constant(event.value) is False)

    def modules_switched(self, switch: AttributeAssigned) -> list[Value]:
        """The modules whose parameters are frozen or unfrozen (or some of them are)."""
        owners, _ = self.modules_in(switch.target)  # of ``parameter.requires_grad = False`` in a loop over parameters
        return owners or self.objects(switch.target)
