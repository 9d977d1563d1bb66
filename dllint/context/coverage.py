"""Coverage: which modules gradients are computed for, and which of these no optimizer of the program trains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from dllint.choices import Choice, alternatives, shared
from dllint.context.freezing import Freezing
from dllint.context.uses import Uses
from dllint.dataclass import dataclass
from dllint.events import Backward, Event, LossCall, OptimizerCreated, OptimizerStep, ParametersAdded
from dllint.forms import attribute_of
from dllint.interp.ask.gradients import passes_none_on
from dllint.interp.run import graph
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Guards
from dllint.values import Absent, Class, Const, Instance, Items, OpenAttributes, Symbol, Table, Value

_MADE = frozenset(
    f"torch.{name}" for name in ("zeros", "ones", "full", "tensor", "rand", "randn", "zeros_like", "ones_like")
)
_Maker = OptimizerCreated | ParametersAdded
_PASSING = frozenset(  # what makes of parameters nothing but some of them, or a list of them
    ("filter", "list", "tuple", "chain", "itertools.chain", "itertools.chain.from_iterable", "+", "element", "item",
     "parameters", "named_parameters", "sum", "slice", "generator")
)  # fmt: skip
_LISTS = ("torch.nn.ModuleList", "torch.nn.Sequential")
_NOT_USING = frozenset(("__init__", "parameters", "named_parameters"))
_LISTED = 2  # parts of a model in the optimizers, from which on they list what is trained
_MAX_PARTS = 4000
_MAX_BEHIND = 400


@dataclass(frozen=True, slots=True)
class Untrained:
    """A module that gets gradients and is in no optimizer: ``call`` is its result, ``loss`` what computes gradients.

    ``guards`` are the conditions under which it takes part in the loss. ``owner`` is the module that it is a part of,
    if the optimizers have others of its parts.
    """

    module: Instance
    name: str
    call: Symbol
    loss: Event
    makers: tuple[_Maker, ...]
    guards: Guards
    owner: Instance | None


@dataclass(frozen=True, slots=True)
class Trained:
    """A backward pass of ``loss`` through a call of ``model``, which it comes to under some conditions."""

    backward: Backward
    loss: Value
    call: Symbol
    model: Value
    guards: Guards


class Coverage(Freezing, Uses):
    """The modules that optimizers cover, and those that they leave out."""

    def untrained(self) -> list[Untrained]:
        """The modules with parameters that get gradients and that no optimizer has; none where that is in doubt.

        Everything has to be known for it: all optimizers that take steps, and all that each of them is given.
        """
        makers: list[_Maker] = [*self.all_of(OptimizerCreated), *self.all_of(ParametersAdded)]
        held = {maker: self._held_by(maker) for maker in makers if not _are_made_tensors(maker.parameters)}
        is_managed = any(made.frame.framework == "lightning" for made in makers)
        if not all(held.values()) or not (self.steps() or is_managed):
            return []
        parts = [self._parts_of(module) for modules in held.values() for module in modules]
        is_known = all(self._is_made_here(step, makers) for step in self.steps())
        if not is_known or any(each is None for each in parts):
            return []
        covered = set[int]().union(*(each for each in parts if each is not None))
        found: dict[int, Untrained] = {}
        for event, loss in self._losses():
            for left in self._left_out_of(event, loss, held, covered):
                found.setdefault(id(left.module), left)
        return [each for left in found.values() for each in _whichever_it_is(left, found)]

    def _left_out_of(
        self, event: Event, loss: Value, held: dict[_Maker, list[Value]], covered: set[int]
    ) -> Iterator[Untrained]:
        """What takes part in a loss and is not covered, if an optimizer has something else that does."""
        calls = [
            (guards + more, call, model)
            for guards, call in self.calls_behind(loss)
            for more, model in graph.objects_under(self._machine, call.inputs[0])
            if isinstance(model, Instance)
        ]
        models: list[Value] = [model for *_, model in calls]
        models += (each for each in self.models_behind(loss, with_gradients=True) if _is_from_outside(each))
        training = tuple(
            made for made, modules in held.items() if self._takes_steps(made) and self._share(modules, models)
        )
        inside = [module for modules in held.values() for module in modules]
        is_given = any(not isinstance(module, Instance) for module in inside)
        for guards, call, model in calls if training else ():
            for module, name in self._left_out(model, call, inside, covered):
                if not is_given or any(_is_made_beside(module, made) for made in training):
                    yield Untrained(module, name, call, event, training, guards, model if module is not model else None)

    def _takes_steps(self, maker: _Maker) -> bool:
        steps = (each for step in self.steps() for each in self.objects(step.optimizer))
        return maker.frame.framework == "lightning" or any(self.is_same(each, maker.optimizer) for each in steps)

    def _share(self, modules: list[Value], models: list[Value]) -> bool:
        """Whether what an optimizer has takes part in a loss, as a whole or in parts."""
        return any(self.reaches(module, model) or self.reaches(model, module) for module in modules for model in models)

    def _held_by(self, maker: _Maker) -> list[Value]:
        """The modules whose parameters an optimizer was given; none if that is not all."""
        found, is_complete = self.modules_in(maker.parameters)
        if not _are_only_parameters(maker.parameters):
            return []
        modules = [each for module in found for each in self._put_together(module)]
        unknown = [module for module in modules if not isinstance(module, Instance)]
        is_known = all(map(_is_from_outside, unknown)) if unknown else is_complete
        return modules if is_known else []

    def _put_together(self, module: Value) -> list[Value]:
        """The modules in a list that was made for an optimizer, ``nn.ModuleList([one, other])``, or the module."""
        is_list = isinstance(module, Instance) and module.library_name in _LISTS and module.arguments.exact
        given = module.arguments.positional if is_list and isinstance(module, Instance) else ()
        items = [each for value in given for each in (value.items if isinstance(value, Items) else (value,))]
        held = [each for item in items for each in self.objects(item)]
        return held if held and all(isinstance(each, Instance) for each in held) else [module]

    def _is_made_here(self, step: OptimizerStep, makers: list[_Maker]) -> bool:
        return all(any(self.is_same(each, made.optimizer) for made in makers) for each in self.objects(step.optimizer))

    def _losses(self) -> Iterator[tuple[Event, Value]]:
        """What gradients are computed of; under Lightning, the losses in the training step."""
        for event in self.all_of(Backward):
            if event.loss is not None:
                yield event, event.loss
        for call in self.all_of(LossCall):
            is_of_step = any(frame.function == "training_step" for frame in call.frame.stack())
            if call.frame.framework == "lightning" and is_of_step:
                yield call, call.result

    def calls_behind(self, loss: Value) -> Iterator[tuple[Guards, Symbol]]:
        """The calls of modules that the gradients of a loss go through, with the conditions under which they do."""
        pending: list[tuple[Guards, Value]] = [((), loss)]
        seen = set[tuple[int, Guards]]()
        for guards, value in pending:  # which grows meanwhile
            if (id(value), guards) in seen or len(seen) > _MAX_BEHIND:
                continue
            seen.add((id(value), guards))
            if isinstance(value, Choice):
                pending.extend((guards + more, option) for more, option in value.options)
            elif not isinstance(value, Symbol):
                pending.extend((guards, each) for each in graph.inputs_of(value))
            elif not self._ends_here(value):
                if value.inputs and (value.name == "forward" or value.name.endswith("()")):
                    yield guards, value
                pending.extend((guards, each) for each in value.inputs)

    def trained_through(self, made: Value) -> Iterator[Trained]:
        """The backward passes through models that a call has returned, such as one that wraps them."""
        known = {id(each) for each in graph.sources(made)}
        for event in self.all_of(Backward):
            for guards, call in self.calls_behind(event.loss) if event.loss is not None else ():
                model = call.inputs[0]
                if event.loss is not None and any(id(source) in known for source in graph.sources(model)):
                    yield Trained(event, event.loss, call, model, guards)

    def _ends_here(self, value: Symbol) -> bool:
        """Whether no gradient goes through an operation, or it is not known whether one does."""
        if value.grad != "on" or value.name in self.facts.detach or value.name == "call":
            return True
        if passes_none_on(self._machine, value):
            return True
        if value.name.startswith("."):
            return value.name[1:] in self.facts.detach_methods or not _is_of_tensors(value)
        return value.name == "attribute" and value.detail == "data"

    def _left_out(
        self, model: Instance, call: Symbol, held: list[Value], covered: set[int]
    ) -> Iterator[tuple[Instance, str]]:
        """The model itself, or those of its parts that are left out where at least two others are trained."""
        parts = self._parts_of(model)
        if parts is None or id(model) in covered:
            return
        inside = {id(module) for module in held if id(module) in parts}
        if not inside and self.has_parameters(model) is True:
            yield model, self.name_of(call.inputs[0]) or self.class_name(model)
        if len(inside) < _LISTED or not isinstance(model.cls, Class):
            return
        for name, part in model.attributes.items():
            if not isinstance(part, Instance) or id(part) in covered or not self.is_module(part):
                continue
            used = [use for use in self.attribute_uses(model.cls, name) if use.method not in _NOT_USING]
            below = self._parts_of(part)
            if used and self.has_parameters(part) is True and below is not None and below.isdisjoint(inside):
                yield part, name

    def _parts_of(self, module: Value) -> set[int] | None:
        """The identities of all that a module leads to, however deep; ``None`` where that is too much."""
        found: set[int] = set()
        pending = self.objects(module)
        for value in pending:  # which grows meanwhile
            if id(value) in found or isinstance(value, Const | Absent):
                continue
            found.add(id(value))
            if len(found) > _MAX_PARTS:
                return None
            pending.extend(each for held in (*graph.held_by(value), *_put_into(value)) for each in self.objects(held))
        return found


def _whichever_it_is(left: Untrained, found: dict[int, Untrained]) -> Iterator[Untrained]:
    """What is left out; of several of which a module is one, and which all are, the first, whichever it is."""
    for choice in left.module.choices:
        others = [found.get(id(option)) for _, option in choice.options]
        each = [other for other in others if other is not None and other.loss is left.loss]
        if len(each) == len(others):
            if left is each[0]:
                yield replace(left, guards=reduce(shared, (other.guards for other in each)))
            return
    yield left


def _is_of_tensors(value: Symbol) -> bool:
    """Whether a method is one of a tensor, also of one of several that a model returns: ``model(x)[0].cpu()``."""
    while value.name in ("item", "slice") or value.name.startswith("."):
        inner = value.inputs[0] if value.inputs else None
        if not isinstance(inner, Symbol):
            return False
        value = inner
    return graph.is_tensor_operation(value)


def _put_into(value: Value) -> Iterator[Value]:
    """What a program has put into an object that is not its own: ``model.head = head``."""
    kept = value._attributes if isinstance(value, Symbol) else None
    if isinstance(kept, OpenAttributes):
        yield from (each for each in kept.values() if not kept.is_read(each))


def _are_made_tensors(given: Value | None) -> bool:
    """Whether an optimizer gets a list of tensors that were made for it alone, such as ``[log_alpha]``."""
    items = given.items if isinstance(given, Items) and given.exact else ()
    return bool(items) and all(isinstance(each, Symbol) and each.name in _MADE for each in items)


def _is_from_outside(module: Value) -> bool:
    """Whether a model was given by a caller who is not seen, or a library made it: nothing of the program is in it."""
    while attribute_of(module) is not None:
        assert isinstance(module, Symbol)
        module = module.inputs[0]
    return isinstance(module, Symbol) and (module.name == "parameter" or "." in module.name[1:])


def _is_made_beside(module: Instance, maker: _Maker) -> bool:
    """Whether a module is made by the function that makes an optimizer, or by a method of the same class."""
    frame = maker.frame
    around = enclosing_definition(module.site) if module.site is not None else None
    if around is None:
        return False
    owner = frame.receiver.cls if isinstance(frame.receiver, Instance) else None
    methods = (
        {member for each in owner.lineage for member in each.members.values()} if isinstance(owner, Class) else set()
    )
    return around in methods or (frame.definition is not None and around is frame.definition.node)


def _are_only_parameters(given: Value | None) -> bool:
    """Whether a value is made of parameters of modules alone, in lists, groups, filters and chains."""
    pending = [given] if given is not None else []
    for value in pending:  # which grows meanwhile
        if isinstance(value, Symbol) and value.name in ("parameters", "named_parameters"):
            continue
        if isinstance(value, Items):
            pending.extend(value.items)
        elif isinstance(value, Table):
            pending.extend(value.entries()[key] for key in value.entries() if key == "params")
        elif isinstance(value, Symbol) and value.name in _PASSING:
            pending.extend(each for each in value.inputs if not isinstance(each, Const))
        elif not isinstance(value, Const | Absent):
            options = [option for _, option in alternatives(value)]
            if len(options) == 1 and options[0] is value:
                return False
            pending.extend(options)
    return bool(pending)
