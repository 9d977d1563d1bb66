"""DL708, DL710 and DL716: how the trainers of libraries were told to resume, and which checkpoint is the best.

While a trainer trains, the call of its `train` or `fit` is among those under way, with its arguments: they are looked
at once for each trainer, when an optimizer steps.
"""

from __future__ import annotations

import os
import re
from types import FrameType
from typing import Any

from dllint.confirm.inside.stacks import frames
from dllint.confirm.inside.stacks import stack as stack_of
from dllint.confirm.probes.base import Probe, decided
from dllint.confirm.probes.events import OptimizerCreated, OptimizerStep, Stack

_CALLS = {"train": "transformers.trainer", "fit": "trainer.trainer"}  # functions, and how their module's name ends
_FIRST = 3  # steps of each optimizer in which a trainer is looked for
_FALLS = re.compile(r"(^|_)(loss|err|error|wer|cer|ppl|perplexity|mse|mae|rmse|fid|nll|bpc|bpb)($|_)")
_RISES = re.compile(
    r"(^|_)(acc|accuracy|f1|auc|auroc|map|miou|iou|dice|bleu|rouge\w*|reward|recall|precision|psnr|ssim|r2)($|_)"
)
_STATES = re.compile(r"optimizer|global_step|distcp|zero_")  # files of a checkpoint that hold an optimizer's state


class Trainers(Probe):
    def begin(self) -> None:
        self._looks = 0

    def on_optimizer_created(self, event: OptimizerCreated) -> None:
        self._looks = 0

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        if self._looks >= _FIRST:
            return
        self._looks += 1
        for frame in frames():
            ending = _CALLS.get(frame.f_code.co_name)
            if ending and str(frame.f_globals.get("__name__")).endswith(ending):
                self._look(frame)

    def _look(self, frame: FrameType) -> None:
        given = frame.f_locals
        trainer = given.get("self")
        if trainer is None or not self.is_new(trainer):
            return
        place = stack_of(frame)
        if frame.f_code.co_name == "train":
            self._transformers(getattr(trainer, "args", None), given.get("resume_from_checkpoint"), place)
        else:
            self._lightning(trainer, given.get("ckpt_path"), place)

    def _transformers(self, args: Any, resumes_from: Any, place: Stack) -> None:
        told = getattr(args, "resume_from_checkpoint", None)
        if resumes_from is None and told:
            self._add("DL708", True, f"the arguments say to resume from {told!r}, and `train()` was not told", place)
        elif isinstance(resumes_from, (str, os.PathLike)) and os.path.isdir(resumes_from):
            has_state = any(_STATES.search(name) for name in os.listdir(resumes_from))
            state = f"{'the' if has_state else 'no'} state of an optimizer"
            self._add("DL708", not has_state, f"the checkpoint that is resumed from has {state}", place)
        metric = getattr(args, "metric_for_best_model", None)
        if metric and getattr(args, "greater_is_better", None) is not None:
            self._directions([(str(metric), bool(args.greater_is_better))], place)

    def _lightning(self, trainer: Any, path: Any, place: Stack) -> None:
        callbacks = [each for each in getattr(trainer, "callbacks", []) if hasattr(each, "monitor")]
        if path == "last":
            keeps = any(getattr(each, "save_last", None) for each in callbacks)
            kept = "and one is kept" if keeps else "and no callback keeps one"
            self._add("DL710", not keeps, f"training resumes from the last checkpoint, {kept}", place)
        chosen = [each for each in callbacks if isinstance(each.monitor, str)]
        modes = [(each.monitor, getattr(each, "mode", "")) for each in chosen]
        self._directions([(metric, mode == "max") for metric, mode in modes if mode in ("min", "max")], place)

    def _directions(self, taken: list[tuple[str, bool]], place: Stack) -> None:
        """DL716, where the names of metrics say which way is better.

        Each is given with whether more of it is taken to be better. What chooses by them was made elsewhere in the
        code, so that all of a trainer are judged as one.
        """
        wrong = [(metric, rises) for metric, rises in taken if _is_meant_to_rise(metric) not in (None, rises)]
        if wrong or (taken and all(_is_meant_to_rise(metric) is not None for metric, _ in taken)):
            told = (f"{metric} is taken to be the {'highest' if up else 'lowest'}" for metric, up in wrong or taken)
            self._add("DL716", bool(wrong), f"the best {', and the best '.join(told)}", place)

    def _add(self, rule: str, is_wrong: bool, told: str, place: Stack) -> None:
        self.judged.append(self.judgement(rule, self.now(place), decided(is_wrong, True), told))


def _is_meant_to_rise(metric: str) -> bool | None:
    """Whether more of a metric is better, by its name; None if that does not tell."""
    name = re.sub(r"[^a-z0-9]+", "_", metric.lower())
    falls, rises = bool(_FALLS.search(name)), bool(_RISES.search(name))
    return None if falls == rises else rises
