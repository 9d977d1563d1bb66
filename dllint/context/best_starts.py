"""Runs that begin with the best weights of an earlier one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.context.checkpoints import Saved, keys_read
from dllint.context.records import Records
from dllint.context.resuming import Resuming, Resumption
from dllint.sites import Site
from dllint.structure import Loop
from dllint.values import Symbol

_NAMES = (ast.Name, ast.Attribute)


class BestStarts(Records, Resuming):
    """What is kept as the best so far, and taken up again."""

    def begins_from_best(self, saved: Saved, found: Resumption) -> bool:
        """Whether a run takes the best weights of another one, and nothing says that it goes on with that.

        That would be an epoch or step that is read or asked about, a condition that speaks of resuming, or a loop that
        does not begin with its first epoch. The best weights are kept to be used; who trains on from them may well mean
        to begin a run of its own.

        Args:
            saved: the checkpoint.
            found: where the run takes it up.
        """
        guards = (*found.event.guards, *found.read.guards)
        names = [name for guard in guards for name in (*guard.names, guard.subject)]
        if any(guard.topic == "resume" for guard in guards) or self.speaks_of("progress", *names):
            return False
        if any(self.speaks_of("resuming", name) for name in self._said_around(found)):
            return False
        if self.speaks_of("progress", *keys_read(found.read)) or not any(self.records(saved.event)):
            return False
        return not any(self._begins_later(loop) for loop in self.loops_around(saved.event))

    def _said_around(self, found: Resumption) -> Iterator[str]:
        """The functions in which the checkpoint is read, and what the tests around that are written with.

        Where the test is known to hold, it is no condition, and still says what it is for.
        """
        for frame, place in zip(found.read.frame.stack(), self._ways_to(found), strict=False):
            yield frame.function
            for each in self.ancestors(place, ast.If):
                yield from (ast.unparse(node) for node in ast.walk(each.test) if isinstance(node, _NAMES))

    def _ways_to(self, found: Resumption) -> Iterator[Site]:
        """Where the checkpoint is read, and the calls that lead there, innermost first."""
        yield found.read.site
        yield from (frame.call for frame in found.read.frame.stack() if frame.call is not None)

    def _begins_later(self, loop: Loop) -> bool:
        """Whether a loop counts from a number that is not known to be the first."""
        counted = loop.iterable
        is_range = isinstance(counted, Symbol) and counted.name == "range" and len(counted.inputs) > 1
        return isinstance(counted, Symbol) and is_range and self.constant(counted.inputs[0]) not in (0, 1)
