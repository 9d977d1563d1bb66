"""DL211: losses that are added up, or collected, with all that was computed for them.

An object that nobody else knows is put into the dictionary that each operation of a graph has, and lives as long as
the graph does. Graphs that live on over steps of the optimizer are kept for nothing; so are several at once that no
backward pass comes to, as in an evaluation with gradients on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, ref

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, BackwardCall, LossCall, Probe, stack_of
from dllint.events import OptimizerStep

_KEY = "dllint"
_MANY = 5  # graphs at once
_MOST = 64  # that are followed from each place


class _Mark:
    """Lives as long as the graph that it is put into."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True, eq=False)
class _Losses:
    """The losses from one place."""

    marks: list[tuple[ReferenceType[_Mark], int]] = field(default_factory=list)  # and the steps before each
    computed: int = 0
    peak: int = 0  # graphs at once since the last backward pass
    thrown: int = 0  # graphs that lived at once and had no backward pass
    outlived: int = 0  # graphs that lived on over steps
    first: int = 0
    last: int = 0

    def living(self) -> int:
        """How many graphs there still are."""
        self.marks = [item for item in self.marks if item[0]() is not None]
        return len(self.marks)


class KeptGraphs(Probe):
    """Follows the graphs of losses from each place."""

    name = "kept_graphs"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, _Losses] = {}

    def on_loss_call(self, call: LossCall) -> None:
        seen = self._seen.get(stack_of(call))
        if seen is None:
            seen = self._seen[stack_of(call)] = _Losses(first=self.run.steps)
        if seen.computed > _MOST and seen.computed % self.run.every:
            seen.computed += 1
            return
        seen.computed += 1
        seen.last = self.run.steps
        metadata = getattr(call.result.grad_fn, "metadata", None)
        if metadata is not None and len(seen.marks) < _MOST:
            mark = metadata[_KEY] = _Mark()
            seen.marks.append((ref(mark), self.run.all_steps))
        seen.peak = max(seen.peak, seen.living())

    def before_backward(self, call: BackwardCall) -> None:
        self._look(is_over=False)

    def on_derivative(self) -> None:
        for seen in self._seen.values():
            seen.peak = 0

    def on_gap(self) -> None:
        for seen in self._seen.values():  # a backward pass may have come to them
            seen.peak = 0

    def _look(self, *, is_over: bool) -> None:
        """Note graphs that there were at once since the last backward pass, and that none will come to any more."""
        for seen in self._seen.values():
            if seen.peak:
                if seen.peak >= _MANY and (is_over or not seen.living()):
                    seen.thrown = max(seen.thrown, seen.peak)
                seen.peak = 0

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        for seen in self._seen.values():
            if len(seen.marks) >= _MANY:
                seen.living()
                older = sum(before < self.run.all_steps for _, before in seen.marks)
                seen.outlived = max(seen.outlived, older)

    def judge(self) -> Iterator[Judgement]:
        if self.run.ended_by == "end":
            self._look(is_over=True)
        for stack, seen in self._seen.items():
            if not seen.computed:
                continue
            is_kept = seen.outlived >= _MANY
            what = f"the graphs of {seen.outlived} losses lived on over steps of the optimizer"
            if not is_kept:
                what = f"the graphs of {seen.thrown} losses were kept at once, and no backward pass came"
            good = not seen.thrown and not seen.outlived and seen.computed >= ENOUGH
            yield Judgement(
                "DL211",
                self.name,
                "CONFIRMED" if is_kept or seen.thrown else "REFUTED" if good else "INCONCLUSIVE",
                what,
                "5 or more graphs over steps, or at once without a backward pass; none of either refutes",
                {"outlived": seen.outlived, "thrown": seen.thrown, "computed": seen.computed},
                seen.computed,
                (seen.first, seen.last),
                (stack,),
                "note",
            )
