"""Compares the ranks of a distributed run: what began equal has to stay equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dllint.confirm.evidence import Judgement, Record

RULE = "ranks-in-sync"
SAMPLES = "ranks-share-samples"
COLLECTIVES = "collectives-in-step"

_ENOUGH = 16  # samples that are not equal by chance


def compare_ranks(records: Sequence[Record]) -> Iterator[Judgement]:
    """Judgements on the ranks of a run, if there are two or more."""
    yield from _parameters(records)
    yield from _samples(records)
    yield from _collectives(records)


def _parameters(records: Sequence[Record]) -> Iterator[Judgement]:
    """Whether the parameters of ranks that took the same number of steps are equal.

    Tensors that differ from the beginning are shards, and say nothing.
    """
    ranks = [record for record in records if record.fingerprints]
    if len(ranks) < 2 or len({record.steps for record in ranks}) > 1:
        return
    names = set.intersection(*(set(record.fingerprints) for record in ranks))
    replicated = sorted(name for name in names if len({record.fingerprints[name][0] for record in ranks}) == 1)
    apart = [name for name in replicated if len({record.fingerprints[name][1] for record in ranks}) > 1]
    if replicated:
        shown = f" ({', '.join(apart[:3])}{', …' if len(apart) > 3 else ''})" if apart else ""
        yield Judgement(
            RULE,
            "replicas",
            "CONFIRMED" if apart else "REFUTED",
            f"{len(apart)} of {len(replicated)} parameters that began equal on {len(ranks)} ranks are not equal "
            f"after {ranks[0].steps} steps{shown}",
            "any",
            {"apart": apart, "replicated": len(replicated), "ranks": len(ranks)},
            len(ranks),
            (0, ranks[0].steps),
            voice="alarm",
        )


def _samples(records: Sequence[Record]) -> Iterator[Judgement]:
    """Whether ranks that hold the same model train it with the same samples."""
    ranks = [record for record in records if record.fingerprints]
    begin = [{name: first for name, (first, _) in record.fingerprints.items()} for record in ranks]
    if len(ranks) < 2 or any(other != begin[0] for other in begin):
        return
    orders = [{(order.loader, order.epoch): order.indices for order in record.pictures.orders} for record in ranks]
    for key in orders[0]:
        drawn = [order.get(key, []) for order in orders]
        if min(map(len, drawn)) >= _ENOUGH:
            shared = all(indices == drawn[0] for indices in drawn)
            yield Judgement(
                SAMPLES,
                "passes",
                "CONFIRMED" if shared else "REFUTED",
                f"{len(ranks)} ranks take {'the same' if shared else 'other'} samples from {key[0]} in epoch {key[1]}",
                "the same samples in the same order on all ranks, of one model; others refute",
                {"ranks": len(ranks), "samples": drawn[0][:_ENOUGH]},
                len(ranks),
                (0, ranks[0].steps),
                voice="alarm",
            )
            return


def _collectives(records: Sequence[Record]) -> Iterator[Judgement]:
    """Whether all ranks did the same together: else some wait for the others without end."""
    ranks = [record for record in records if record.mode == "observe"]
    if len({record.rank for record in ranks}) < 2 or not any(record.collectives for record in ranks):
        return
    common = min(len(record.collectives) for record in ranks)
    apart = next((at for at in range(common) if len({record.collectives[at] for record in ranks}) > 1), None)
    if apart is None and any(_waits(record, other, common) for record in ranks for other in ranks):
        apart = common
    told: dict[str, str] = {}
    if apart is not None:
        told = {f"rank {record.rank}": (record.collectives[apart : apart + 1] or ["nothing"])[0] for record in ranks}
    yield Judgement(
        COLLECTIVES,
        "collectives",
        "CONFIRMED" if told else "REFUTED",
        f"operation {apart} of the ranks together is {' and '.join(f'{what} on {rank}' for rank, what in told.items())}"
        if told
        else f"{common} operations of {len(ranks)} ranks together are the same",
        "another operation or size on some rank, or one that waits where another went on or ended; else refuted",
        {"common": common, "at": apart, "operations": told},
        len(ranks),
        (0, min(record.steps for record in ranks)),
        voice="alarm",
    )


def _waits(record: Record, other: Record, common: int) -> bool:
    """Whether a rank began an operation that another, which has gone on or ended, had no part in."""
    is_alone = len(record.collectives) > common == len(other.collectives)
    return is_alone and (record.steps < other.steps or (record.stop == "time" and other.stop == "end"))
