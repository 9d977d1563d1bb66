"""Losses and metrics: what loops over batches add up, and what they leave behind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dllint.context.phases import Phases
from dllint.events import Event, Loop, LossCall, ModelForward, walk
from dllint.interp.source.batchwise import Remainder, Sum, remainders, sums_in
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site
from dllint.values import Symbol


@dataclass(frozen=True, slots=True)
class BatchLoop:
    """A loop over the batches of a loader that calls a model or computes a loss: ``event`` is the first that does."""

    loop: Loop
    event: Event

    @property
    def node(self) -> ast.For:
        assert isinstance(self.loop.site.node, ast.For)
        return self.loop.site.node

    def site(self, node: ast.AST) -> Site:
        """A place in the loop's file."""
        return Site(self.loop.site.module, node)


class Scores(Phases):
    """How a program measures."""

    @cached_property
    def batch_loops(self) -> tuple[BatchLoop, ...]:
        """The loops over loaders in which a model is called or a loss computed, each once."""
        over_loaders = {id(one.loop) for one in self.data.passes}
        found: dict[int, BatchLoop] = {}
        for loop, _ in self._structure.loops:
            if isinstance(loop.site.node, ast.For) and (id(loop) in over_loaders or self.goes_over_loader(loop)):
                events = (event for event in walk(loop.body) if isinstance(event, ModelForward | LossCall))
                event = next(events, None)
                if event is not None:
                    found.setdefault(id(loop.site.node), BatchLoop(loop, event))
        return tuple(found.values())

    def left_by(self, one: BatchLoop) -> Iterator[Remainder]:
        """The variables that a loop binds to something of one batch alone, and that are read after it."""
        module: Any = one.loop.site.module
        yield from remainders(one.node, enclosing_definition(one.loop.site) or module.tree)

    def summed_in(self, one: BatchLoop) -> Iterator[Sum]:
        """What a loop over batches adds up: `total += loss.item()`."""
        yield from sums_in(one.node)

    def has_one_batch(self, one: BatchLoop) -> bool:
        """Whether a batch of the loader is as large as what it goes over, by how its size is computed."""
        loaders = [loader for each in self.data.passes if each.loop is one.loop for loader in each.loaders]
        made = (event for event in self.data.loaders if any(event.loader is loader for loader in loaders))
        sizes = (size for event in made if (size := event.options.get("batch_size")) is not None)
        return any(isinstance(each, Symbol) and each.name == "len" for size in sizes for each in self.sources(size))

    def loss_in(self, one: BatchLoop, expression: ast.AST) -> LossCall | None:
        """The loss that an expression in a loop computes, if it is one that is known."""
        nodes = {id(node) for node in ast.walk(expression)}
        losses = (event for event in walk(one.loop.body) if isinstance(event, LossCall))
        return next((event for event in losses if id(event.site.node) in nodes), None)
