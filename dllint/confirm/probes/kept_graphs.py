"""DL211: losses that are added up, or collected, with all that was computed for them.

An object that nobody else knows is put into the dictionary that each operation of a graph has, and lives as long as
the graph does. Graphs that live on over steps of the optimizer are kept for nothing; so are several at once that no
backward pass comes to, as in an evaluation with gradients on.
"""

from __future__ import annotations

from weakref import ReferenceType, ref

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided, events, stack_of

_KEY = "dllint"
_MANY = 5  # graphs at once
_MOST = 64  # that are followed from each place


class _Losses(Samples):
    marks: list[tuple[ReferenceType[set[None]], int]] = []  # each lives as long as a graph; and the steps before
    peak: int = 0  # graphs at once since the last backward pass
    thrown: int = 0  # graphs that lived at once and had no backward pass
    outlived: int = 0  # graphs that lived on over steps

    def living(self) -> int:
        """How many graphs there still are."""
        self.marks = [item for item in self.marks if item[0]() is not None]
        return len(self.marks)


class KeptGraphs(PlaceProbe[_Losses]):
    at_first = _MOST

    def on_loss_call(self, call: events.LossCall) -> None:
        seen = self.sample(stack_of(call))
        if seen is not None:
            metadata = getattr(call.result.grad_fn, "metadata", None)
            if metadata is not None and len(seen.marks) < _MOST:
                mark: set[None] = set()
                metadata[_KEY] = mark
                seen.marks.append((ref(mark), self.run.all_steps))
            seen.peak = max(seen.peak, seen.living())

    def before_backward(self, call: events.BackwardCall) -> None:
        self._look(is_over=False)

    def on_derivative(self) -> None:
        for seen in self.noted():
            seen.peak = 0

    on_gap = on_derivative  # a backward pass may have come to them

    def _look(self, *, is_over: bool) -> None:
        """Note graphs that there were at once since the last backward pass, and that none will come to any more."""
        for seen in self.noted():
            if seen.peak:
                if seen.peak >= _MANY and (is_over or not seen.living()):
                    seen.thrown = max(seen.thrown, seen.peak)
                seen.peak = 0

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        for seen in self.noted():
            if len(seen.marks) >= _MANY:
                seen.living()
                seen.outlived = max(seen.outlived, sum(before < self.run.all_steps for _, before in seen.marks))

    def judge(self) -> Judgements:
        if self.run.ended_by == "end":
            self._look(is_over=True)
        yield from super().judge()

    def judge_each(self, seen: _Losses) -> Judgements:
        seen.looks = seen.calls
        is_kept = seen.outlived >= _MANY
        told = f"the graphs of {seen.thrown} losses were kept at once, and no backward pass came"
        if is_kept:
            told = f"the graphs of {seen.outlived} losses lived on over steps of the optimizer"
        is_good = not seen.outlived and seen.looks >= ENOUGH
        yield self.judgement("DL211", seen, decided(is_kept or seen.thrown, is_good), told)
