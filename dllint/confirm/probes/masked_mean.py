"""DL109: a mean over losses of which a mask, or the ignored class, has made some zero.

Such a mean is smaller than that of the losses which count, by their share: with half of the tokens padded, the learning
rate is halved in effect, and differs from batch to batch. It shows in the graph: the loss that is sent backward is the
mean of a product with zeros and ones, or of losses whose targets are ignored, and the numbers say that nothing has been
divided by their share since.
"""

from __future__ import annotations

from typing import Any

import torch

from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, Stack, Tensor, alarm_if, events, stack_of
from dllint.confirm.probes.graph import children, operation, through_views

_FEW = 0.95  # share of what counts, above which nothing can be told
_SAME = 0.02  # of the share, by which a mean may have been divided by hand
_NEAR = 4  # operations between the root and the mean: factors, and what only changes the type
_LOSSES = ("NllLoss", "NllLoss2D", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits", "MseLoss", "L1Loss",
           "SmoothL1Loss", "HuberLoss", "Abs", "Pow", "KlDiv", "CrossEntropyLoss")  # fmt: skip
_PASSING = ("Mul", "Div", "ToCopy", "Add")


class _Means(Samples):
    """The means that were sent backward from one place; wrong are those over what does not count as well."""

    shares: list[float] = []  # of what counts, where the mean was over all of it
    padded: int = 0  # those of them in which what does not count ends or begins the rows


class MaskedMean(PlaceProbe[_Means]):
    _latest: Stack = ()  # of the last loss that was not reduced
    _rows = torch.Size()  # of its targets, before they were made flat

    def on_loss_call(self, call: events.LossCall) -> None:
        self._latest = ()
        if call.options.get("reduction") == "none":
            base = call.target._base if call.target.dim() == 1 else None
            self._latest = stack_of(call)
            self._rows = call.target.shape if base is None else base.shape

    def on_gap(self) -> None:
        self._latest = ()

    def before_backward(self, call: events.BackwardCall) -> None:
        seen = self.sample(stack_of(call), self._latest)
        if seen is None or self.run.packs or len(call.roots) != 1 or call.roots[0].numel() != 1:
            return
        try:
            found = _mask_of_mean(call.roots[0].grad_fn)
        except RuntimeError:  # a backward pass before this one has freed what was kept
            return
        if found is not None:
            mask, factor = found
            share = float(mask.float().mean())
            is_whole = factor is None or share >= _FEW or not share or abs(factor * share - 1) < _SAME
            seen.count(not is_whole)
            seen.shares += [] if is_whole else [share]
            seen.padded += not is_whole and _ends_rows(mask, self._rows)

    def judge_each(self, seen: _Means) -> Judgements:
        if seen.looks:
            shares, voice = seen.shares or [1.0], alarm_if(seen.padded == seen.wrong)  # all count where none was masked
            yield self.judgement("DL109", seen, seen.unanimous, "", voice, shares=shares[:50])


def _mask_of_mean(node: Any) -> tuple[Tensor, float | None] | None:
    """Which elements count of the mean that a loss is, and what the script has multiplied that with; None for a number
    that it has computed. None where the loss is no mean of masked losses.
    """
    factor: float | None = 1.0
    for _ in range(_NEAR if node is not None else 0):
        kind = operation(node)
        if kind == "Mean" or (kind == "Sum" and factor is None):
            mask = _mask(node.next_functions[0][0])
            return None if mask is None else (mask, factor)
        following = children(node)
        if kind not in _PASSING or len(following) != 1:
            return None
        factor = _times(factor, node, kind)
        node = following[0]
    return None


def _times(factor: float | None, node: Any, kind: str) -> float | None:
    """A factor, with what an operation multiplies by; None if that was computed."""
    other = getattr(node, "_saved_other", None) if kind in ("Mul", "Div") else 1.0
    if factor is None or (isinstance(other, Tensor) and other.dtype not in (torch.float64, torch.int64)):
        return None
    number = 1.0 if other is None else float(other)
    return factor * number if kind == "Mul" else factor / number if number else None


def _mask(node: Any) -> Tensor | None:
    """Which elements of a tensor of losses count."""
    node = through_views(node)
    kind = operation(node)
    inner = node.next_functions[0][0] if node is not None and node.next_functions else None
    mask: Tensor | None = None
    if kind in ("NllLoss", "NllLoss2D"):
        return node._saved_target != node._saved_ignore_index if node._saved_reduction == 0 else None
    if kind == "MaskedFill":
        mask = ~node._saved_mask
    elif kind == "Mul":
        mask, inner = _zeros_and_ones(node)
    elif kind == "Where":
        mask = node._saved_condition if inner is not None else ~node._saved_condition
        inner = inner or node.next_functions[1][0]
    elif kind in ("Index", "MaskedSelect"):
        mask = torch.ones(1)
    return mask if operation(through_views(inner)) in _LOSSES else None


def _zeros_and_ones(node: Any) -> tuple[Tensor | None, Any]:
    """The factor of a product that is a mask, and what it masks."""
    for factor, (inner, _) in ((node._saved_other, node.next_functions[0]), (node._saved_self, node.next_functions[1])):
        if isinstance(factor, Tensor) and inner is not None and factor.dim() and not factor.requires_grad:
            counts = factor != 0
            if bool((~counts | (factor == 1)).all()):
                return counts, inner
    return None, None


def _ends_rows(mask: Tensor, rows: torch.Size) -> bool:
    """Whether what does not count is the end of each row, or its beginning: padding of sequences."""
    if mask.dim() != 2 and mask.numel() == rows.numel():
        mask = mask.view(rows)
    if mask.dim() != 2 or min(mask.shape) < 2:
        return False
    steps = mask.int().diff(dim=1)
    return bool((steps > 0).any()) != bool((steps < 0).any())
