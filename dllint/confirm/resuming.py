"""Whether a command that is run twice continues the second time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dllint.confirm.evidence import Judgement, Moment, Record, Verdict

RULE = "resume-check"

_CLOSE = 1e-2  # of the length of the weights: what rounding to half precision leaves
_SAME = 1e-6
_CLEARLY = 0.5  # of the distance from the beginning
_SAME_RATE = 0.01
_THRESHOLD = (
    "the second run begins with weights within 1e-2 of those after some step of the first, with state of the optimizer "
    "and a learning rate within 1 % of that time; else it does not continue"
)


def compare_runs(first: Record, second: Record | None) -> Judgement:
    """Where the second run takes up the first.

    Args:
        first: the first run.
        second: the second; None if it trained nothing.
    """
    steps = first.moments[-1].step if first.moments else 0
    if not steps:
        return _judgement("INCONCLUSIVE", "the first run took no step", {})
    if second is None or not second.moments:
        ended = f"the second run took no step: {second.error}" if second and second.error else ""
        if first.stop == "end" and not ended:
            return _judgement("REFUTED", f"the first run ended after {steps} steps, and the second took none", {})
        return _judgement("INCONCLUSIVE", ended or "the second run took no step", {"steps": steps})
    begin = second.moments[0]
    distances = [_distance(begin.weights, moment.weights) for moment in first.moments]
    best = min(range(len(distances)), key=distances.__getitem__)
    numbers = {"steps": steps, "distance": distances[best], "from_the_beginning": distances[0], "continues_at": best}
    if distances[best] > _CLOSE or distances[0] <= _SAME:
        how = "those that the first began with" if distances[0] <= _SAME else "none that the first had"
        told = f"the second run begins with new weights: {how}, which made {steps} steps"
        return _judgement("CONFIRMED", told, numbers)
    if distances[best] > _CLEARLY * distances[0]:
        return _judgement("INCONCLUSIVE", f"the weights have hardly moved in {steps} steps of the first run", numbers)
    return _continued(first.moments[best], begin, numbers)


def _continued(then: Moment, begin: Moment, numbers: dict[str, float]) -> Judgement:
    """What else is taken up where the weights are."""
    lost = []
    if then.states and not begin.states:
        lost.append("the optimizer has lost its state")
    for rate, expected in zip(begin.rates, then.rates, strict=False):
        if abs(rate - expected) > _SAME_RATE * max(abs(expected), 1e-12):
            lost.append(f"the learning rate is {rate:.3g} instead of {expected:.3g}")
            break
    told = f"the second run continues with the weights after step {then.step}"
    if lost:
        return _judgement("CONFIRMED", f"{told}, but {' and '.join(lost)}", numbers)
    return _judgement("REFUTED", f"{told}, the state of the optimizer and the learning rate of then", numbers)


def _judgement(verdict: Verdict, message: str, numbers: dict[str, float]) -> Judgement:
    return Judgement(RULE, "course", verdict, message, _THRESHOLD, numbers, 2, voice="alarm")


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """How far apart weights are, compared with their length; infinite where they cannot be compared."""
    if len(one) != len(other):
        return math.inf
    length = math.sqrt(sum(value * value for value in other))
    apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))
    distance = apart / length if length else apart
    return distance if math.isfinite(distance) else math.inf
