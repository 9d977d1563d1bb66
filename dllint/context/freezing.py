"""Which parameters a program freezes, and where it lets them be trained again."""

from __future__ import annotations

import ast
from functools import cached_property

from dllint.context.optimizers import Optimizers
from dllint.events import AttributeAssigned, ModelForward, OptimizerCreated, ParametersAdded
from dllint.interp.ask.parameters import all_parameters
from dllint.values import Instance, Items, Symbol, Table, Value


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

    def freezes_of(self, switch: AttributeAssigned) -> list[AttributeAssigned]:
        """Where parameters of what a switch is set on are frozen, or of what it is a part of."""
        switched = self.modules_switched(switch)
        frozen = ((freeze, module) for freeze in self.freezes for module in self.modules_switched(freeze))
        return [freeze for freeze, module in frozen if self._is_switched(module, switch, switched)]

    def trains_switched(self, switch: AttributeAssigned) -> bool | None:
        """Whether the program trains what a switch is set on, as one of its optimizers has it.

        ``False`` where nothing tells that it does: all optimizers were given something else, or only some parameters of
        it, or all that is computed with it is computed without gradients. ``None`` where there is no optimizer, or one
        of which it is not known what it was given.
        """
        switched = self.modules_switched(switch)
        calls = [each for each in self.all_of(ModelForward) if any(self.is_part(one, each.model) for one in switched)]
        if calls and all(each.grad == "off" for each in calls):
            return False
        optimizers = [each.optimizer for each in self.all_of(OptimizerCreated)] + list(self.stepped_optimizers())
        if any(self._has_switched(optimizer, switch, switched) for optimizer in optimizers):
            return True
        if not all(self.parameters_of(each)[1] for each in optimizers):
            return None
        return False if optimizers else None

    def may_train_switched(self, optimizer: Value, switch: AttributeAssigned) -> bool:
        """Whether an optimizer may have what a switch is set on: it has, or it is not known what it was given."""
        is_known = self.parameters_of(optimizer)[1]
        return not is_known or self._has_switched(optimizer, switch, self.modules_switched(switch))

    def _has_switched(self, optimizer: Value, switch: AttributeAssigned, switched: list[Value]) -> bool:
        """Whether an optimizer has what a switch is set on, and not just a selection of what that is a part of."""
        modules = [each for each in self.parameters_of(optimizer)[0] if self._is_switched(each, switch, switched)]
        if not modules or any(self.is_part(module, one) for module in modules for one in switched):
            return bool(modules)
        return not all(
            _is_selection(each.parameters)
            for each in self.all_of(OptimizerCreated, ParametersAdded)
            if isinstance(each, OptimizerCreated | ParametersAdded) and self.is_same(each.optimizer, optimizer)
        )

    def _is_switched(self, module: Value, switch: AttributeAssigned, switched: list[Value]) -> bool:
        """Whether a switch is set on a module, a part of it, or on what it or its layers are a part of."""
        if any(self.is_part(one, module) or self.is_part(module, one) for one in switched):
            return True
        if any(self.is_same(source, module) for source in self.sources(switch.target)):
            return True
        parts = (module, *module.attributes.values()) if isinstance(module, Instance) else (module,)
        given = [each for part in parts if isinstance(part, Instance) for each in part.arguments.all()]
        made_of = (source for each in (module, *given) for source in self.sources(each))
        return any(self.is_same(source, one) for source in made_of for one in switched)


def _is_selection(given: Value | None) -> bool:
    """Whether parameters are chosen out of those of a module by something else than their own switch, in one group."""
    if isinstance(given, Items) and len(given.items) == 1 and isinstance(given.items[0], Table):
        return _is_selection(given.items[0].contents.get("params", given))
    made = given.site.node if given is not None and given.site is not None else None
    is_comprehension = isinstance(made, ast.ListComp | ast.GeneratorExp) and any(each.ifs for each in made.generators)
    is_filter = isinstance(given, Symbol) and given.name == "filter"
    return (is_comprehension or is_filter) and all_parameters(given) is None
