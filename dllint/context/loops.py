"""What the iterations of a loop are, and how many there may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from dllint.choices import same
from dllint.context.base import Unit
from dllint.context.objects import Objects
from dllint.context.paths import Paths
from dllint.events import Backward, Event, OptimizerStep
from dllint.interp.source.batchwise import last_bound
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.interp.source.repeated_inputs import gets_the_same_each_round
from dllint.sites import Site
from dllint.structure import Loop, walk
from dllint.values import Const, Symbol, Value

_MAX_WRAPPERS = 3  # tqdm(enumerate(range(…)))


class Loops(Objects, Paths):
    """The loops of a program as those of a training."""

    def loop_unit(self, loop: Loop) -> Unit:
        """What one iteration of a loop is: a batch, an epoch, a part of a batch, or a training run of its own.

        The structure decides: where a backward pass stands, and which loop goes over data. Only parts of a batch, whose
        gradients are added up, are told by names: a loop over tasks or losses looks the same.
        """
        known = self._units.get(id(loop))
        if known is None:
            known = self._units[id(loop)] = self._unit_of(loop)
        return known

    def _unit_of(self, loop: Loop) -> Unit:
        if self.is_of_runs(loop):
            return "runs"
        around = [self.loops_around(event) for event in walk(loop.body) if isinstance(event, Backward)]
        inner = [loops[loops.index(loop) - 1] for loops in around if loop in loops[1:]]
        if any(loops[:1] == (loop,) for loops in around):
            return self._unit_of_training(loop)
        if any(self.goes_over_data(each) for each in inner):
            return "epochs"
        return "batches" if not inner and self.goes_over_loader(loop) else "unknown"

    def is_made_in(self, loop: Loop, owner: Value, call: Site) -> bool:
        """Whether each iteration of a loop makes an object of which a method is called: there, or in a function that
        it calls, whose result it puts into a variable. What is only made where there is none yet is not."""
        made = [each.site for each in self.objects(owner) if each.site is not None]
        if any(_is_below(site, loop.site) for site in made):
            return True
        function = call.node.func if isinstance(call.node, ast.Call) else None
        variable = function.value if isinstance(function, ast.Attribute) else None
        around: Any = enclosing_definition(call) or call.module.tree
        bound = last_bound(variable.id, around, call.line) if isinstance(variable, ast.Name) else None
        if not isinstance(variable, ast.Name) or not isinstance(bound, ast.Call):
            return False
        place = Site(call.module, bound)
        tests = (each.test for each in ancestors(place) if isinstance(each, ast.If))
        is_once = any(variable.id in ast.unparse(test) for test in tests)  # `if model is None:`
        is_here = _is_below(place, loop.site) and not is_once
        return is_here and any(_is_below(site, each) for site in made for each in self.entered_in(loop))

    def is_repeated_as_it_is(self, event: Event) -> bool:
        """Whether a loop that only counts, and trains nothing, makes a call again and again with the same arguments.

        What comes of it then differs by chance alone.
        """
        call = event.site.node
        if not isinstance(call, ast.Call):
            return False
        for node in ancestors(event.site):
            if isinstance(node, ast.ListComp | ast.GeneratorExp):
                return gets_the_same_each_round(call, node.generators[0])
        loop = next(iter(self.loops_around(event)), None)
        if loop is None or loop.frame is not event.frame or self.trains(loop):
            return False
        return isinstance(loop.site.node, ast.For) and gets_the_same_each_round(call, loop.site.node)

    def goes_over_loader(self, loop: Loop) -> bool:
        """Whether a loop goes over a data loader, with or without an enumeration or a progress bar around it."""
        value = loop.iterable
        for _ in range(_MAX_WRAPPERS):
            if value is not None and self.guessed_role(value) == "loader":
                return True
            is_wrapper = isinstance(value, Symbol) and value.name in (
                "enumerate",
                "zip",
                *self.facts.iteration_wrappers,
            )
            value = value.inputs[0] if is_wrapper and isinstance(value, Symbol) and value.inputs else None
        return False

    def counts_batches(self, loop: Loop) -> bool:
        """Whether a training loop in one over epochs, as its header says, takes a batch in each iteration: by an index,
        as the next one, or out of a list."""
        node = loop.site.node
        outer = next((loops for each, loops in self._structure.loops if each is loop), ())
        if not isinstance(node, ast.For) or not outer or outer[0].frame is not loop.frame:
            return False
        if not _names_epochs(outer[0]) or _names_epochs(loop):
            return False
        if self._unit_of_training(loop) != "batches" or self.is_of_runs(outer[0]):
            return False
        return any(isinstance(event, Backward) for event in walk(loop.body)) and _takes_batches(node)

    def is_part_of_an_epoch(self, loop: Loop) -> bool:
        """Whether a loop stands in one over epochs, as the header of that says, and goes over something else itself."""
        outer = next((loops for each, loops in self._structure.loops if each is loop), ())
        return not _names_epochs(loop) and any(map(_names_epochs, outer))

    def _unit_of_training(self, loop: Loop) -> Unit:
        """The unit of a loop that goes backward itself."""
        outer = next((loops for each, loops in self._structure.loops if each is loop), ())
        if not any(isinstance(event, OptimizerStep) for event in walk(loop.body)):
            is_part = bool(outer) and any(isinstance(event, OptimizerStep) for event in walk(outer[0].body))
            is_so_called = self.speaks_of("accumulation", *_names_in_header(loop))
            return "micro-batches" if is_part and _is_counted(loop) and is_so_called else "unknown"
        return "batches" if outer or self.goes_over_data(loop) else "unknown"

    def goes_round_once(self, loop: Loop) -> bool:
        """Whether a loop has one iteration, as a number in the code says: ``for epoch in range(1)``."""
        count = self.loop_count(loop)
        is_from_start = isinstance(loop.iterable, Symbol) and len(loop.iterable.inputs) == 1
        return is_from_start and isinstance(count, Const) and count.value == 1

    def loop_count(self, loop: Loop) -> Value | None:
        """The number of iterations of ``for … in range(…)``, with or without a progress bar around it."""
        value = loop.iterable
        for _ in range(_MAX_WRAPPERS):
            if isinstance(value, Symbol) and not _is_range(value) and value.inputs:
                value = value.inputs[0]
        if not isinstance(value, Symbol) or not _is_range(value) or not value.inputs:
            return None
        if len(value.inputs) == 1:
            return value.inputs[0]
        start, end = value.inputs[:2]
        if isinstance(end, Symbol) and end.name == "+":  # range(start, start + n)
            return next((side for side in end.inputs if not same(side, start)), end)
        numbers = [each.value for each in value.inputs if isinstance(each, Const) and type(each.value) is int]
        return Const(len(range(*numbers)), end.site) if len(numbers) == len(value.inputs) else end


def _is_range(value: Symbol) -> bool:
    return value.name.endswith("range")


def _is_counted(loop: Loop) -> bool:
    """Whether a loop goes over a range of numbers, and not just once."""
    count = loop.iterable
    if not isinstance(count, Symbol) or count.name != "range" or not count.inputs:
        return False
    return getattr(count.inputs[-1], "value", None) != 1


def _is_below(place: Site, around: Site) -> bool:
    return place.module is around.module and any(each is around.node for each in ancestors(place))


def _names_epochs(loop: Loop) -> bool:
    return any("epoch" in name.lower() for name in _names_in_header(loop))


def _takes_batches(loop: ast.For) -> bool:
    """Whether the body of a loop takes an item by what the loop counts, the next one, or what it goes over."""
    counted = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    if not any(isinstance(node, ast.Name) and node.id == "range" for node in ast.walk(loop.iter)):
        return True
    nodes = [node for statement in loop.body for node in ast.walk(statement)]
    indices = (node.slice for node in nodes if isinstance(node, ast.Subscript))
    is_index = any(isinstance(node, ast.Name) and node.id in counted for index in indices for node in ast.walk(index))
    return is_index or any(isinstance(node, ast.Call) and ast.unparse(node.func) == "next" for node in nodes)


def _names_in_header(loop: Loop) -> Iterator[str]:
    """The names in the header of a loop."""
    node = loop.site.node
    test = (node.test,) if isinstance(node, ast.While) else ()
    for part in (node.target, node.iter) if isinstance(node, ast.For) else test:
        for child in ast.walk(part):
            if isinstance(child, ast.Name | ast.Attribute):
                yield child.id if isinstance(child, ast.Name) else child.attr
