"""Which parameters an optimizer has, and what may change their gradients."""

from __future__ import annotations

import ast
from collections.abc import Set

from dllint.choices import Choice
from dllint.context.modules import Modules
from dllint.events import OpaqueCall, OptimizerCreated, OptimizerStep, ParametersAdded
from dllint.interp.ask.parameters import all_parameters, trained_parameters
from dllint.interp.run import graph
from dllint.values import Const, Instance, Items, Symbol, Value

_TENSORS = ("torch.tensor", "torch.zeros", "torch.ones", "torch.empty", "torch.Tensor")
_LOOK_UPS = (".get", ".pop", ".setdefault", "getattr")  # whose result may be the default that they are given, or not


class Optimizers(Modules):
    """The optimizers of a program and the modules that they train."""

    def steps(self) -> list[OptimizerStep]:
        """The steps of all optimizers, in order."""
        return list(self.all_of(OptimizerStep))

    def stepped_optimizers(self) -> list[Value]:
        """The optimizers that take steps in the program, each once."""
        found: list[Value] = []
        for step in self.steps():
            for optimizer in self.objects(step.optimizer):
                if not any(optimizer is known for known in found):
                    found.append(optimizer)
        return found

    def steps_for(self, model: Value) -> list[OptimizerStep]:
        """The steps of optimizers that have parameters of a model, and of nothing else."""
        found = []
        for step in self.steps():
            modules, is_all = self.parameters_of(step.optimizer)
            if is_all and modules and all(self.is_same(model, each) or self.reaches(model, each) for each in modules):
                found.append(step)
        return found

    def modules_in(self, value: Value | None) -> tuple[list[Value], bool]:
        """The modules whose parameters a value leads to, and whether they are all.

        Follows ``model.parameters()``, parameter groups, ``filter`` and ``chain``. The second result is false when
        some part of the value leads nowhere known.
        """
        known = self._modules.get(id(value))
        if known is None:
            known = self._modules[id(value)] = self._find_modules(value)
        return known

    def all_parameters_in(self, value: Value | None) -> Symbol | None:
        """What a value has all parameters of a module from (``model.parameters()``), but perhaps for frozen ones.

        They may be in a list, the values of a dict, or filtered by ``requires_grad``. ``None`` where some are left out.
        """
        return all_parameters(value)

    def trained_parameters_in(self, value: Value | None) -> Symbol | None:
        """What a value has those parameters of a module from that are trained where it is made, and no frozen ones."""
        return trained_parameters(value)

    def _find_modules(self, value: Value | None) -> tuple[list[Value], bool]:
        found: list[Value] = []
        complete = value is not None
        for source in graph.sources(value) if value is not None else ():
            if (
                isinstance(source, Symbol)
                and source.name in ("parameters", "named_parameters", "state_dict")
                and source.inputs
            ):
                for module in self.objects(source.inputs[0]):
                    if not any(module is known for known in found):
                        found.append(module)
            elif isinstance(source, Symbol) and not source.inputs:
                complete = False
        return found, complete

    def parameters_of(self, optimizer: Value) -> tuple[list[Value], bool]:
        """The modules whose parameters an optimizer was given, and whether they are all."""
        known = self._parameters.get(id(optimizer))
        if known is None:
            known = self._parameters[id(optimizer)] = self._find_parameters(optimizer)
        return known

    def _find_parameters(self, optimizer: Value) -> tuple[list[Value], bool]:
        modules: list[Value] = []
        complete, seen = True, False
        for event in self.all_of(OptimizerCreated, ParametersAdded):
            assert isinstance(event, OptimizerCreated | ParametersAdded)
            if not self.is_same(event.optimizer, optimizer):
                continue
            seen = True
            found, whole = self.modules_in(event.parameters)
            complete = complete and whole
            modules.extend(module for module in found if not any(module is known for known in modules))
        return modules, complete and seen

    def gives_gradients(self, loss: Value | None, optimizer: Value) -> bool | None:
        """Whether a loss is computed with a module whose parameters an optimizer was given, so that its gradients go
        there; ``None`` where it may be, or not: it is not known which modules it is computed with, or which the
        optimizer has, or the loss is one of several, of which not all are."""
        modules, _ = self.parameters_of(optimizer)
        behind = self.models_behind(loss, with_gradients=True) if loss is not None else []
        own = [used for used in behind if any(self.reaches(m, used) or self.reaches(used, m) for m in modules)]
        if own and loss is not None:
            return True if self._leads_to(loss, {id(each) for each in own}, {}) else None
        is_known = bool(behind and modules) and all(isinstance(each, Instance) for each in (*behind, *modules))
        return False if is_known else None

    def _leads_to(self, value: Value, modules: Set[int], known: dict[int, bool]) -> bool:
        """Whether a value, whichever of several it is, is computed with one of some modules."""
        if id(value) not in known:
            known[id(value)] = False  # what is computed from itself, in a loop, and nothing else
            of_modules = [each for each in self.models_behind(value, with_gradients=True) if id(each) in modules]
            if isinstance(value, Choice):
                known[id(value)] = all(self._leads_to(each, modules, known) for _, each in value.options)
            elif of_modules:
                is_called = isinstance(value, Symbol) and any(id(m) in modules for m in self.objects(value.inputs[0]))
                given = graph.inputs_of(value)
                given = given[:1] if isinstance(value, Symbol) and value.name in _LOOK_UPS else given
                inner = (self._leads_to(each, modules, known) for each in given)
                known[id(value)] = is_called or any(inner)
        return known[id(value)]

    def trains_nothing(self, optimizer: Value) -> bool:
        """Whether all that an optimizer was given are numbers made for it, which have no gradients.

        Such an optimizer is there for its schedule: ``SGD([torch.tensor(0.1)], lr=1)``.
        """
        given = [
            event.parameters for event in self.all_of(OptimizerCreated) if self.is_same(event.optimizer, optimizer)
        ]
        items = [item for each in given for item in (each.items if isinstance(each, Items) and each.exact else (each,))]
        return bool(items) and all(map(self._has_no_gradient, items))

    def _has_no_gradient(self, value: Value | None) -> bool:
        if not isinstance(value, Symbol) or value.name not in _TENSORS or value.arguments is None:
            return False
        flag = value.arguments.keywords.get("requires_grad")
        return flag is None or self.constant(flag) is False

    def rate_as_written(self, optimizer: Value | None) -> str | None:
        """The learning rate of an optimizer as it is written, where that is a number other than 1 or a name.

        Of an optimizer whose groups of parameters may have rates of their own it is none.
        """
        node = optimizer.site.node if isinstance(optimizer, Instance) and optimizer.site is not None else None
        if not isinstance(node, ast.Call) or not isinstance(optimizer, Instance):
            return None
        rate, parameters = optimizer.arguments.get(1, "lr"), optimizer.arguments.get(0, "params")
        is_filtered = isinstance(parameters, Symbol) and parameters.name == "filter"
        if not is_filtered and all_parameters(parameters) is None:
            return None
        at_its_place = node.args[1] if len(node.args) > 1 else None
        written = next((each.value for each in node.keywords if each.arg == "lr"), at_its_place)
        if written is None or rate is None or self.constant(rate) == 1:
            return None
        is_name = isinstance(written, ast.Name | ast.Attribute | ast.Subscript | ast.Constant)
        return ast.unparse(written) if is_name else None

    def is_prepared(self, value: Value) -> bool:
        """Whether an object was handed to Accelerate's ``prepare``, or may have been."""
        return any(
            not call.arguments.exact or any(self.is_same(given, value) for given in call.arguments.positional)
            for call in self.library_calls("accelerate.prepare")
        )

    def must_concern(self, target: Value, optimizer: Value) -> bool:
        """Whether clearing the gradients of ``target`` certainly clears those that ``optimizer`` uses."""
        key = ("must", id(target), id(optimizer))
        if key not in self._concerns:
            self._concerns[key] = self._must_concern(target, optimizer)
        return self._concerns[key]

    def _must_concern(self, target: Value, optimizer: Value) -> bool:
        if self.is_same(target, optimizer):  # one of several it is where the same choice of them takes the step
            return len(self.objects(target)) == 1 or any(step.optimizer is target for step in self.steps())
        modules, _ = self.parameters_of(optimizer)
        if modules:
            owners = self.objects(target)
            return all(any(self.reaches(owner, module) for owner in owners) for module in modules)
        owners = [owner for owner in self.objects(target) if not isinstance(owner, Const)]
        if any(self.guessed_role(owner) == "optimizer" for owner in owners):
            return False  # another one, of unknown parameters: both are what one object has
        return any(self.reaches(optimizer, owner) for owner in owners)

    def may_concern(self, target: Value, optimizer: Value) -> bool:
        """Whether clearing the gradients of ``target`` may clear those that ``optimizer`` uses: in doubt, it may."""
        key = ("may", id(target), id(optimizer))
        if key not in self._concerns:
            self._concerns[key] = self._may_concern(target, optimizer)
        return self._concerns[key]

    def _may_concern(self, target: Value, optimizer: Value) -> bool:
        if self.is_same(target, optimizer):
            return True
        others = [event.optimizer for event in self.all_of(OptimizerCreated)]
        modules, complete = self.parameters_of(optimizer)
        if self.role(target) == "optimizer" and any(self.is_same(target, other) for other in others):
            cleared, _ = self.parameters_of(target)
            overlaps = any(self.reaches(c, m) or self.reaches(m, c) for c in cleared for m in modules)
            return overlaps or self.reaches(target, optimizer) or self.reaches(optimizer, target)
        if complete and modules and self.role(target) == "module":
            return any(self.reaches(target, module) or self.reaches(module, target) for module in modules)
        return True

    def opaque_to(self, event: OpaqueCall, target: Value) -> bool:
        """Whether an unresolved call could do anything to ``target``.

        A trainer that hands itself to a callback (``callback(self)``) does not count: what it does not do in its own
        loop, callbacks rarely do for it. An unresolved method of its own does.
        """
        reach = self._given.get(event)
        if reach is None:
            running = [frame.receiver for frame in event.frame.stack()]
            given = [value for value in event.values if not any(value is receiver for receiver in running)]
            if event.receiver is not None:
                given.append(event.receiver)
            reached = {id(each): each for each in map(self._reach_of, given)}
            reach = self._given[event] = list(reached.values())
        wanted = self._identities_of(target)
        return not all(map(wanted.isdisjoint, reach))

    def opaque_to_gradients(self, event: OpaqueCall, optimizer: Value) -> bool:
        """Whether an unresolved call could change the gradients an optimizer uses: it gets it, or a model of it."""
        modules, _ = self.parameters_of(optimizer)
        if any(self.opaque_to(event, value) for value in (optimizer, *modules)):
            return True
        given = (*event.values, *([event.receiver] if event.receiver is not None else ()))
        return any(self.guessed_role(value) == "module" for value in given)
