"""Compares the ranks of a distributed run: what began equal has to stay equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dllint.confirm.evidence import Judgement, Record, Stack, Verdict
from dllint.confirm.rules import declare

_ENOUGH = 16  # samples that are not equal by chance


def compare_ranks(records: Sequence[Record]) -> Iterator[Judgement]:
    """Judgements on the ranks of a run, if there are two or more."""
    comparing = [record for record in records if record.fingerprints]
    if len(comparing) > 1:
        yield from _parameters(comparing)
        yield from _samples(comparing)
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
        yield _judgement("ranks-in-sync", bool(apart), "", found, ranks, len(ranks))


def _samples(ranks: Sequence[Record]) -> Iterator[Judgement]:
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
            yield _judgement("DL805", shared, told, {"samples": drawn[0][:_ENOUGH]}, ranks, len(ranks))
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
        yield _judgement("collectives-in-step", bool(told), what, {"at": apart, "operations": told}, ranks, len(ranks))


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
        yield _judgement("ranks-share-randomness", is_wrong, "", {"alike": alike}, ranks, len(drawing))


def _lengths(ranks: Sequence[Record]) -> Iterator[Judgement]:
    """Whether the passes of all ranks have equally many batches: else some wait for gradients without end."""
    for name in set.intersection(*(set(record.notes.lengths) for record in ranks)):
        passes = list(zip(*(record.notes.lengths[name] for record in ranks), strict=False))
        uneven = [lengths for lengths in passes if len(set(lengths)) > 1]
        found = {"number": len(uneven), "dataset": name, "batches": (uneven or passes)[0]}
        yield _judgement("DL405", bool(uneven), "", found, ranks, len(passes))


def _shards(ranks: Sequence[Record]) -> Iterator[Judgement]:
    """Whether each rank saves its part of a model where no other saves its own."""
    saved = [(record.rank, shard) for record in ranks for shard in record.notes.shards]
    for stack in {shard.stack for _, shard in saved}:
        here = [(rank, shard.path) for rank, shard in saved if shard.stack == stack]
        missing = {record.rank for record in ranks} - {rank for rank, _ in here}
        shared = len({path for _, path in here}) < len(set(here))
        found = {"files": sorted({path for _, path in here}), "saving": len({rank for rank, _ in here})}
        told = ", to one file" if shared else ""
        yield _judgement("DL705", bool(missing) or shared, told, found, ranks, len(here), stack)


def _judgement(
    rule: str, is_wrong: bool | None, told: str, found: dict[str, Any], ranks: Sequence[Record], looks: int, *at: Stack
) -> Judgement:
    """A judgement on all ranks; it is open whether something is wrong where that is None."""
    verdict: Verdict = "INCONCLUSIVE" if is_wrong is None else "CONFIRMED" if is_wrong else "REFUTED"
    steps, numbers = (0, min(record.steps for record in ranks)), {**found, "ranks": len(ranks)}
    return declare(Judgement(rule, "rank_comparison", verdict, told, "", numbers, looks, steps, at, "declared"))
