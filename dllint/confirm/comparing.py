"""Compares records: those of the ranks of a distributed run, where what began equal has to stay equal, and those of a
command that is run twice, which has to continue the second time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from dllint.confirm.evidence import Judgement, Moment, Record, Stack, Verdict, counted_back
from dllint.confirm.rules import declare

_ENOUGH = 16  # samples that are not equal by chance
_CLOSE = 1e-2  # of the length of the weights: what rounding to half precision leaves
_SAME = 1e-6
_CLEARLY = 0.5  # of the distance from the beginning
_SAME_RATE = 0.01


def compare_ranks(records: Sequence[Record]) -> Iterator[Judgement]:
    """Judgements on the ranks of a run, if there are two or more."""
    comparing = [record for record in records if record.fingerprints]
    if len(comparing) > 1:
        yield from _parameters(comparing)
        yield from _shared_samples(comparing)
    ranks = [record for record in records if record.mode == "observe"]
    if len({record.rank for record in ranks}) > 1:
        for compare in (_collectives, _randomness, _lengths, _shards):
            yield from compare(ranks)


def _parameters(ranks: Sequence[Record]) -> Iterator[Judgement]:
    """Whether the parameters of ranks that took the same number of steps are equal.

    Tensors that differ from the beginning are shards, and say nothing.
    """
    if len({record.steps for record in ranks}) > 1:
        return
    names = set.intersection(*(set(record.fingerprints) for record in ranks))
    replicated = sorted(name for name in names if len({record.fingerprints[name][0] for record in ranks}) == 1)
    apart = [name for name in replicated if len({record.fingerprints[name][1] for record in ranks}) > 1]
    if replicated:
        found = {"apart": apart, "replicated": len(replicated), "steps": ranks[0].steps}
        yield _of_ranks("ranks-in-sync", bool(apart), "", found, ranks, len(ranks))


def _shared_samples(ranks: Sequence[Record]) -> Iterator[Judgement]:
    """Whether ranks that hold the same model train it with the same samples."""
    begin = [{name: first for name, (first, _) in record.fingerprints.items()} for record in ranks]
    if any(other != begin[0] for other in begin):
        return
    orders = [{(order.loader, order.epoch): order.indices for order in record.pictures.orders} for record in ranks]
    for key in orders[0]:
        drawn = [order.get(key, []) for order in orders]
        if min(map(len, drawn)) >= _ENOUGH:
            shared = all(indices == drawn[0] for indices in drawn)
            told = f"{'the same' if shared else 'other'} samples from {key[0]} in epoch {key[1]}"
            yield _of_ranks("DL805", shared, told, {"samples": drawn[0][:_ENOUGH]}, ranks, len(ranks))
            return


def _collectives(ranks: Sequence[Record]) -> Iterator[Judgement]:
    """Whether all ranks did the same together: else some wait for the others without end."""
    common = min(len(record.collectives) for record in ranks)
    apart = next((at for at in range(common) if len({record.collectives[at] for record in ranks}) > 1), None)
    if apart is None and any(_waits(record, other, common) for record in ranks for other in ranks):
        apart = common
    told: dict[str, str] = {}
    what = f"{common} operations of {len(ranks)} ranks together are the same"
    if apart is not None:
        told = {f"rank {record.rank}": (record.collectives[apart : apart + 1] or ["nothing"])[0] for record in ranks}
        which = " and ".join(f"{operation} on {rank}" for rank, operation in told.items())
        what = f"operation {apart} of the ranks together is {which}"
    if any(record.collectives for record in ranks):
        yield _of_ranks("collectives-in-step", bool(told), what, {"at": apart, "operations": told}, ranks, len(ranks))


def _waits(record: Record, other: Record, common: int) -> bool:
    """Whether a rank began an operation that another, which has gone on or ended, had no part in."""
    is_alone = len(record.collectives) > common == len(other.collectives)
    return is_alone and (record.steps < other.steps or (record.stop == "time" and other.stop == "end"))


def _randomness(ranks: Sequence[Record]) -> Iterator[Judgement]:
    """Whether all ranks draw the same numbers in the same step, so that their dropout is one and the same."""
    drawing: list[list[tuple[str, ...]]] = []  # of each step and generator, the states of all ranks
    for name in set.intersection(*(set(record.notes.draws) for record in ranks)):
        steps = zip(*(record.notes.draws[name] for record in ranks), strict=False)
        drawing += [[tuple(states) for states in step] for step in steps if all(now != then for now, then in step)]
    alike = sum(len(set(states)) == 1 for states in drawing)
    if drawing:
        is_wrong = None if 0 < alike < len(drawing) else bool(alike)
        yield _of_ranks("ranks-share-randomness", is_wrong, "", {"alike": alike}, ranks, len(drawing))


def _lengths(ranks: Sequence[Record]) -> Iterator[Judgement]:
    """Whether the passes of all ranks have equally many batches: else some wait for gradients without end."""
    for name in set.intersection(*(set(record.notes.lengths) for record in ranks)):
        passes = list(zip(*(record.notes.lengths[name] for record in ranks), strict=False))
        uneven = [lengths for lengths in passes if len(set(lengths)) > 1]
        found = {"number": len(uneven), "dataset": name, "batches": (uneven or passes)[0]}
        yield _of_ranks("DL405", bool(uneven), "", found, ranks, len(passes))


def _shards(ranks: Sequence[Record]) -> Iterator[Judgement]:
    """Whether each rank saves its part of a model where no other saves its own."""
    saved = [(record.rank, shard) for record in ranks for shard in record.notes.shards]
    for stack in {shard.stack for _, shard in saved}:
        here = [(rank, shard.path) for rank, shard in saved if shard.stack == stack]
        missing = {record.rank for record in ranks} - {rank for rank, _ in here}
        shared = len({path for _, path in here}) < len(set(here))
        found = {"files": sorted({path for _, path in here}), "saving": len({rank for rank, _ in here})}
        told = ", to one file" if shared else ""
        yield _of_ranks("DL705", bool(missing) or shared, told, found, ranks, len(here), stack)


def _of_ranks(
    rule: str, is_wrong: bool | None, told: str, found: dict[str, Any], ranks: Sequence[Record], looks: int, *at: Stack
) -> Judgement:
    """A judgement on all ranks; it is open whether something is wrong where that is None."""
    verdict: Verdict = "INCONCLUSIVE" if is_wrong is None else "CONFIRMED" if is_wrong else "REFUTED"
    steps, numbers = (0, min(record.steps for record in ranks)), {**found, "ranks": len(ranks)}
    return declare(Judgement(rule, "rank_comparison", verdict, told, "", numbers, looks, steps, at, "declared"))


_Part = tuple[str, str]
"""The rule about something that a run has to take up, and what is lost of it; nothing where it is kept."""


def compare_runs(first: Record, second: Record | None) -> Judgement:
    """Where the second run takes up the first.

    Args:
        first: the first run.
        second: the second; None if it trained nothing.
    """
    steps = first.moments[-1].step if first.moments else 0
    if not steps:
        return _of_runs("INCONCLUSIVE", "the first run took no step", {})
    if second is None or not second.moments:
        ended = f"the second run took no step: {second.error}" if second and second.error else ""
        if first.stop == "end" and not ended:
            return _of_runs("REFUTED", f"the first run ended after {steps} steps, and the second took none", {})
        return _of_runs("INCONCLUSIVE", ended or "the second run took no step", {"steps": steps})
    begin = second.moments[0]
    distances = [_distance(begin.weights, moment.weights) for moment in first.moments]
    best = min(range(len(distances)), key=distances.__getitem__)
    numbers = {"steps": steps, "distance": distances[best], "from_the_beginning": distances[0], "continues_at": best}
    if distances[best] > _CLOSE or distances[0] <= _SAME:
        how = "those that the first began with" if distances[0] <= _SAME else "none that the first had"
        told = f"the second run begins with new weights: {how}, which made {steps} steps"
        return _of_runs("CONFIRMED", f"{told} (DL703)", numbers, lost=["DL703"])
    if distances[best] > _CLEARLY * distances[0]:
        return _of_runs("INCONCLUSIVE", f"the weights have hardly moved in {steps} steps of the first run", numbers)
    parts = list(_parts(first.moments, best, second.moments, first.stop == "end"))
    lost = [f"{what} ({rule})" for rule, what in parts if what]
    kept = ["DL703", *(rule for rule, what in parts if not what)]
    rules = {"lost": [rule for rule, what in parts if what], "kept": kept}
    told = f"the second run continues with the weights after step {first.moments[best].step}"
    if any(rule != "DL712" for rule in rules["lost"]):
        return _of_runs("CONFIRMED", f"{told}, but {' and '.join(lost)}", numbers, **rules)
    told += ", the state of the optimizer and the learning rate of then"
    return _of_runs("REFUTED", "; ".join([told, *lost]), numbers, **rules)


def _parts(first: Sequence[Moment], at: int, second: Sequence[Moment], is_over: bool) -> Iterator[_Part]:
    """What else there is to take up where the weights are: state, rates, scale, counters and samples."""
    then, begin = first[at], second[0]
    if then.states:
        yield "DL701", "" if begin.states else "the optimizer has lost its state"
    rates = _apart(begin, then) or _rates_apart(first, at, second)
    yield "DL713", f"the learning rate is {rates[0][0]:.3g} instead of {rates[0][1]:.3g}" if rates else ""
    if then.scale and begin.scale:
        scales = [moment.scale for moment in first[at : at + 2]]  # that of the step, and what it left
        is_lost = all(_differ(begin.scale, scale) for scale in scales)
        yield "DL714", f"the scale is {begin.scale:.3g} instead of {then.scale:.3g}" if is_lost else ""
    saved = next((moment.counters for moment in second if moment.counters), {})
    if saved.keys() & then.counters.keys():
        lower = counted_back(then.counters, saved)[:1]
        yield "DL711", "".join(f"`{name}` is {saved[name]} again after {then.counters[name]}" for name in lower)
    elif is_over and second[-1].step >= first[-1].step > 0:
        yield "DL711", f"it makes {second[-1].step} steps again, as if none had been made"
    yield from _samples(first, at, second)


def _rates_apart(first: Sequence[Moment], at: int, second: Sequence[Moment]) -> list[tuple[float, float]]:
    """Where a schedule goes another way than it did, or, if it was over, the way from the beginning again.

    The last step of a run may be one that its scheduler did not come to.
    """
    ahead = list(zip(second[1:-1], first[at + 1 : -1], strict=False))
    if ahead:
        return next((apart for pair in ahead if (apart := _apart(*pair))), [])
    again = list(zip(second[1:-1], first[1:], strict=False))
    return _apart(second[1], first[at]) if again and not any(_apart(*pair) for pair in again) else []


def _apart(mine: Moment, other: Moment) -> list[tuple[float, float]]:
    """The learning rates that differ."""
    return [pair for pair in zip(mine.rates, other.rates, strict=False) if _differ(*pair)]


def _samples(first: Sequence[Moment], at: int, second: Sequence[Moment]) -> Iterator[_Part]:
    """DL712, where the first run was in the middle of a pass over a loader."""
    then = first[at]
    same = [moment for moment in first[1:] if moment.place[:1] == then.place[:1] and moment.batch]
    begin = next((moment.batch for moment in second[1:2]), [])
    if not begin or not same or same[-1].step == then.step or then.step == 0:
        return
    met = {index for moment in same if moment.step <= then.step for index in moment.batch}
    if begin == same[0].batch:
        yield "DL712", "it takes the samples of the pass from the beginning"
    elif met.isdisjoint(begin):
        yield "DL712", ""


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _SAME_RATE * max(abs(other), 1e-12)


def _of_runs(verdict: Verdict, message: str, numbers: dict[str, float], **rules: list[str]) -> Judgement:
    return declare(Judgement("resume-check", "course", verdict, message, "", {**numbers, **rules}, 2, voice="declared"))


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    """How far apart weights are, compared with their length; infinite where they cannot be compared."""
    if len(one) != len(other):
        return math.inf
    distance = math.dist(one, other) / (math.hypot(*other) or 1.0)
    return distance if math.isfinite(distance) else math.inf
