"""DL108: padding that the loss counts as a class. Looks for one value that fills the ends of rows, and hardly stands
elsewhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import LossCall, stack_of

_BATCHES = 5  # from which padding is told from labels that happen to repeat
_ROWS, _SHARE, _CONCENTRATION = 0.5, 0.05, 0.9
_NONE = 0.01


@dataclass(slots=True, eq=False)
class _Targets(Samples):
    """What was seen of the targets of a loss at one place; wrong are those that look padded."""

    values: Counter[int] = field(default_factory=Counter)
    clean: int = 0  # calls in which all padding, if any, is ignored
    shares: list[float] = field(default_factory=list)


class Padding(PlaceProbe[_Targets]):
    at_first = 2 * _BATCHES

    def on_loss_call(self, call: LossCall) -> None:
        rows = _rows(call.target) if call.function in ("cross_entropy", "nll_loss") else None
        seen = None if rows is None else self.sample(stack_of(call))
        if rows is None or seen is None:
            return
        value, share, is_padding = _padding(rows)
        is_ignored = value == call.options.get("ignore_index", -100)
        seen.count(is_padding and not is_ignored)
        seen.values[value] += 1
        seen.shares.append(share)
        seen.clean += is_ignored or share < _NONE

    def judge_each(self, seen: _Targets) -> Judgements:
        if seen.looks:
            value, times = seen.values.most_common(1)[0]
            is_wrong = seen.wrong == seen.looks == times >= _BATCHES
            yield self.judgement("DL108", seen, decided(is_wrong, seen.clean == seen.looks >= ENOUGH), value=value)


def _rows(target: Tensor) -> Tensor | None:
    """The targets as one row per sequence; None where they are none of sequences."""
    if target.is_floating_point():
        return None
    base = target._base
    if target.dim() == 1 and base is not None and base.numel() == target.numel():
        target = base
    return target if target.dim() == 2 and min(target.shape) > 1 else None


def _padding(rows: Tensor) -> tuple[int, float, bool]:
    """The likeliest value of padding, the share of the targets that it fills at the ends, and whether it is padding."""
    candidates = [_at_the_end(rows), _at_the_end(rows.flip(1))]
    return max(candidates, key=lambda candidate: (candidate[2], candidate[1]))


def _at_the_end(rows: Tensor) -> tuple[int, float, bool]:
    value = rows[:, -1].mode().values
    is_value = rows == value
    runs = is_value.flip(1).long().cumprod(1).sum(1)  # how many at the end of each row
    in_runs = torch.where(runs >= 2, runs, torch.zeros_like(runs)).sum()
    total = is_value.sum().clamp(min=1)
    share = float(in_runs / rows.numel())
    in_rows = float((runs >= 2).float().mean())
    return int(value), share, in_rows > _ROWS and share > _SHARE and float(in_runs / total) > _CONCENTRATION
