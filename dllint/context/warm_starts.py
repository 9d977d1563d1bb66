"""Warm starts: what says that a run begins with the weights of another one, and does not go on with that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.context.checkpoints import Saved
from dllint.context.command_line import name_of_option
from dllint.context.optimizers import Optimizers
from dllint.context.paths import Paths
from dllint.context.sources import Sources
from dllint.events import Event, LibraryCall, OptimizerStep, SchedulerCreated, SchedulerStep, StateRead
from dllint.interp.run.argparse_calls import ADD
from dllint.sites import Site
from dllint.structure import walk
from dllint.values import Const, Instance

_ANNEALING = frozenset((
    "CosineAnnealingLR", "OneCycleLR", "PolynomialLR", "LinearLR", "get_linear_schedule_with_warmup",
    "get_cosine_schedule_with_warmup", "get_polynomial_decay_schedule_with_warmup",
))  # fmt: skip
"""The schedules that come to an end, where the rate is as low as it gets."""


class WarmStarts(Optimizers, Paths, Sources):
    """Runs of their own that begin with weights of an earlier one."""

    def is_saved_again_and_again(self, saved: Saved) -> bool:
        """Whether a checkpoint is written while training goes on, rather than once at the end."""
        loops = (loop for loop in self.loops_around(saved.event) if not self.is_of_runs(loop))
        return any(isinstance(event, OptimizerStep) for loop in loops for event in walk(loop.body))

    def ends_a_schedule(self, saved: Saved) -> bool:
        """Whether a checkpoint is written when the training is over, and with it a schedule that anneals the rate.

        Each run has a whole schedule of its own then, from the first rate on: who begins with what an earlier one has
        left restarts it warm. That holds if all optimizers have such a schedule, and none is put back.
        """
        if self.is_saved_again_and_again(saved):
            return False
        stepped = [each.scheduler for each in self.all_of(SchedulerStep)]
        made = [each for each in self.all_of(SchedulerCreated) if any(self.is_same(each.scheduler, s) for s in stepped)]
        annealed = [each.optimizer for each in made if self._anneals(each)]
        optimizers = self.stepped_optimizers()
        return bool(optimizers) and all(any(self.is_same(one, each) for each in annealed) for one in optimizers)

    def _anneals(self, made: SchedulerCreated) -> bool:
        schedulers = self.objects(made.scheduler)
        return bool(schedulers) and all(
            isinstance(each, Instance) and each.library_name.rpartition(".")[2] in _ANNEALING for each in schedulers
        )

    def _speaks_of_fine_tuning(self, read: StateRead, name: str) -> bool:
        """Whether what is read begins a run of its own, by what it is read for: a condition of it, the help of an
        option of this name, or a comment at the condition speaks of fine-tuning, and not of resuming as well."""
        if any(guard.holds and self.speaks_of("fine-tuning", str(guard.subject)) for guard in read.guards):
            return True
        tests = (Site(read.site.module, each) for each in self.ancestors(read.site, ast.If))
        said = (*self._helps_of(name), *(text for test in tests for text in self.comments_at(test)))
        return any(self.speaks_of("fine-tuning", text) and not self.speaks_of("resuming", text) for text in said)

    def _helps_of(self, name: str) -> Iterator[str]:
        """What the help of an option says."""
        option = name.rpartition(".")[2].strip("<>")
        for event in self.all_of(LibraryCall):
            said = event.arguments.keywords.get("help") if event.name == ADD else None
            if isinstance(said, Const) and name_of_option(event) == option:
                yield str(said.value)

    def _is_taken_instead(self, step: OptimizerStep, event: Event) -> bool:
        """Whether a step is taken only if an event fails: in a handler of exceptions, where what is tried has it."""
        places = [event.site, *(each.call for each in event.frame.stack() if each.call is not None)]
        ways = [step.site, *(each.call for each in step.frame.stack() if each.call is not None)]
        return any(
            place.module is way.module and any(_is_in(place.node, attempt.body) for attempt in attempts)
            for way in ways
            if (attempts := [each for each in self.ancestors(way, ast.Try) if _is_in(way.node, each.handlers)])
            for place in places
        )


def _is_in(node: ast.AST, blocks: list[ast.stmt] | list[ast.ExceptHandler]) -> bool:
    """Whether a node stands in some statements or handlers, by their lines."""
    line = getattr(node, "lineno", 0)
    return any(each.lineno <= line <= (each.end_lineno or each.lineno) for each in blocks)
