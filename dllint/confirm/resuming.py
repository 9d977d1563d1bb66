"""Whether a command that is run twice continues the second time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dllint.confirm.evidence import Judgement, Moment, Record, Verdict, counted_back
from dllint.confirm.rules import declare

RULE = "resume-check"

_CLOSE = 1e-2  # of the length of the weights: what rounding to half precision leaves
_SAME = 1e-6
_CLEARLY = 0.5  # of the distance from the beginning
_SAME_RATE = 0.01


@dataclass(frozen=True, slots=True)
class _Part:
    """Something that a run has to take up, by the rule about it: what is lost of it; nothing where it is kept."""

    rule: str
    lost: str = ""


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
        return _judgement("CONFIRMED", f"{told} (DL703)", numbers, lost=["DL703"])
    if distances[best] > _CLEARLY * distances[0]:
        return _judgement("INCONCLUSIVE", f"the weights have hardly moved in {steps} steps of the first run", numbers)
    return _continued(
        list(_parts(first.moments, best, second.moments, first.stop == "end")), first.moments[best].step, numbers
    )


def _continued(parts: list[_Part], step: int, numbers: dict[str, float]) -> Judgement:
    """The verdict where the weights are taken up."""
    told = f"the second run continues with the weights after step {step}"
    lost = [part for part in parts if part.lost]
    names = {"lost": [part.rule for part in lost], "kept": ["DL703", *(part.rule for part in parts if not part.lost)]}
    if any(part.rule != "DL712" for part in lost):
        what = " and ".join(f"{part.lost} ({part.rule})" for part in lost)
        return _judgement("CONFIRMED", f"{told}, but {what}", numbers, **names)
    told += ", the state of the optimizer and the learning rate of then"
    return _judgement("REFUTED", told + "".join(f"; {part.lost} ({part.rule})" for part in lost), numbers, **names)


def _parts(first: Sequence[Moment], at: int, second: Sequence[Moment], is_over: bool) -> Iterator[_Part]:
    """What else there is to take up where the weights are: state, rates, scale, counters and samples."""
    then, begin = first[at], second[0]
    if then.states:
        yield _Part("DL701", "" if begin.states else "the optimizer has lost its state")
    rates = [pair for pair in zip(begin.rates, then.rates, strict=False) if _differ(*pair)]
    rates = rates or _rates_apart(first, at, second)
    yield _Part("DL713", f"the learning rate is {rates[0][0]:.3g} instead of {rates[0][1]:.3g}" if rates else "")
    if then.scale and begin.scale:
        scales = [moment.scale for moment in first[at : at + 2]]  # that of the step, and what it left
        is_lost = all(_differ(begin.scale, scale) for scale in scales)
        yield _Part("DL714", f"the scale is {begin.scale:.3g} instead of {then.scale:.3g}" if is_lost else "")
    saved = next((moment.counters for moment in second if moment.counters), {})
    common = sorted(saved.keys() & then.counters.keys())
    lower = counted_back(then.counters, saved)
    if common:
        name = lower[0] if lower else ""
        yield _Part("DL711", f"`{name}` is {saved[name]} again after {then.counters[name]}" if lower else "")
    elif is_over and second[-1].step >= first[-1].step > 0:
        yield _Part("DL711", f"it makes {second[-1].step} steps again, as if none had been made")
    yield from _samples(first, at, second)


def _rates_apart(first: Sequence[Moment], at: int, second: Sequence[Moment]) -> list[tuple[float, float]]:
    """Where a schedule goes another way than it did, or, if it was over, the way from the beginning again.

    The last step of a run may be one that its scheduler did not come to.
    """
    ahead = list(zip(second[1:-1], first[at + 1 : -1], strict=False))
    for mine, other in ahead:
        if apart := [pair for pair in zip(mine.rates, other.rates, strict=False) if _differ(*pair)]:
            return apart
    again = [] if ahead else list(zip(second[1:-1], first[1:], strict=False))
    if any(_differ(*pair) for mine, other in again for pair in zip(mine.rates, other.rates, strict=False)):
        return []
    jumps = zip(second[1].rates, first[at].rates, strict=False) if again else ()
    return [pair for pair in jumps if _differ(*pair)]


def _samples(first: Sequence[Moment], at: int, second: Sequence[Moment]) -> Iterator[_Part]:
    """DL712, where the first run was in the middle of a pass over a loader."""
    then = first[at]
    same = [moment for moment in first[1:] if moment.place[:1] == then.place[:1] and moment.batch]
    begin = next((moment.batch for moment in second[1:2]), [])
    if not begin or not same or same[-1].step == then.step or then.step == 0:
        return
    met = {index for moment in same if moment.step <= then.step for index in moment.batch}
    if begin == same[0].batch:
        yield _Part("DL712", "it takes the samples of the pass from the beginning")
    elif met.isdisjoint(begin):
        yield _Part("DL712")


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _SAME_RATE * max(abs(other), 1e-12)


def _judgement(verdict: Verdict, message: str, numbers: dict[str, float], **rules: list[str]) -> Judgement:
    return declare(Judgement(RULE, "course", verdict, message, "", {**numbers, **rules}, 2, voice="declared"))


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """How far apart weights are, compared with their length; infinite where they cannot be compared."""
    if len(one) != len(other):
        return math.inf
    length, apart = math.hypot(*other), math.dist(one, other)
    distance = apart / length if length else apart
    return distance if math.isfinite(distance) else math.inf
