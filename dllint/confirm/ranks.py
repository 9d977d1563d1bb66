"""Compares the ranks of a distributed run: what began equal has to stay equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dllint.confirm.evidence import Judgement, Record

RULE = "ranks-in-sync"


def compare_ranks(records: Sequence[Record]) -> Iterator[Judgement]:
    """A judgement on the ranks that took the same number of steps, if there are two or more.

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
