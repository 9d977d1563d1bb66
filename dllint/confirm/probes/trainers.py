"""How the trainers of libraries were told to resume (DL708, DL710), which checkpoint they take for the best (DL716),
and data that those of trl do not take, or cut off (DL909).

While a trainer trains, the call of its `train` or `fit` is among those under way, with its arguments: they are looked
at once for each trainer, when an optimizer steps. A column that is missing ends the run by itself, with the name of the
column alone. What is longer than `max_length` is cut off, or left out, without a word.
"""

from __future__ import annotations

import os
import re
from typing import Any

from dllint.confirm.inside.stacks import frames
from dllint.confirm.inside.stacks import stack as stack_of
from dllint.confirm.probes.base import Probe, Stack, events

_CALLS = {"train": "transformers.trainer", "fit": "trainer.trainer"}  # functions, and how their module's name ends
_FIRST = 3  # steps of each optimizer in which a trainer is looked for
_FALLS = re.compile(r"(^|_)(loss|err|error|wer|cer|ppl|perplexity|mse|mae|rmse|fid|nll|bpc|bpb)($|_)")
_RISES = re.compile(
    r"(^|_)(acc|accuracy|f1|auc|auroc|map|miou|iou|dice|bleu|rouge\w*|reward|recall|precision|psnr|ssim|r2)($|_)"
)
_STATES = re.compile(r"optimizer|global_step|distcp|zero_")  # files of a checkpoint that hold an optimizer's state
_TAKES = {
    "SFT": "`text`, `messages`, or `prompt` and `completion`",
    "DPO": "`chosen` and `rejected`, with or without `prompt`",
    "KTO": "`prompt`, `completion` and `label`",
    "REWARD": "`chosen` and `rejected`",
    "GRPO": "`prompt`",
    "RLOO": "`prompt`",
}
_COLUMNS = {"text", "messages", "prompt", "completion", "chosen", "rejected", "label", "input_ids", "conversations"}
_MOST, _FEWEST = 1000, 20  # examples that are looked at
_CUT = 0.05  # share of the examples


class Trainers(Probe):
    _looks = 0

    def on_optimizer_created(self, event: events.OptimizerCreated) -> None:
        self._looks = 0

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        if self._looks >= _FIRST:
            return
        self._looks += 1
        for frame in frames():
            name, module = frame.f_code.co_name, str(frame.f_globals.get("__name__"))
            given = frame.f_locals if name in _CALLS and module.endswith(_CALLS[name]) else {}
            trainer = given.get("self")
            if trainer is None or not self.is_new(trainer):
                continue
            if name == "train":
                self._transformers(getattr(trainer, "args", None), given.get("resume_from_checkpoint"), stack_of(frame))
            else:
                self._lightning(trainer, given.get("ckpt_path"), stack_of(frame))

    def _transformers(self, args: Any, resumes_from: Any, place: Stack) -> None:
        told = getattr(args, "resume_from_checkpoint", None)
        if resumes_from is None and told:
            what = f"the arguments say to resume from {told!r}, and `train()` was not told"
            self.judge_now("DL708", self.now(place), True, what)
        elif isinstance(resumes_from, (str, os.PathLike)) and os.path.isdir(resumes_from):
            has_state = any(_STATES.search(name) for name in os.listdir(resumes_from))
            what = f"the checkpoint that is resumed from has {'the' if has_state else 'no'} state of an optimizer"
            self.judge_now("DL708", self.now(place), not has_state, what)
        metric = getattr(args, "metric_for_best_model", None)
        if metric and getattr(args, "greater_is_better", None) is not None:
            self._directions([(str(metric), bool(args.greater_is_better))], place)

    def _lightning(self, trainer: Any, path: Any, place: Stack) -> None:
        callbacks = [each for each in getattr(trainer, "callbacks", []) if hasattr(each, "monitor")]
        if path == "last":
            self.judge_now("DL710", self.now(place), not any(getattr(each, "save_last", None) for each in callbacks))
        modes = [(each.monitor, getattr(each, "mode", "")) for each in callbacks if isinstance(each.monitor, str)]
        self._directions([(metric, mode == "max") for metric, mode in modes if mode in ("min", "max")], place)

    def _directions(self, taken: list[tuple[str, bool]], place: Stack) -> None:
        """DL716, where the names of metrics say which way is better.

        Each is given with whether more of it is taken to be better. What chooses by them was made elsewhere in the
        code, so that all of a trainer are judged as one.
        """
        wrong = [(metric, rises) for metric, rises in taken if _is_meant_to_rise(metric) not in (None, rises)]
        if wrong or (taken and all(_is_meant_to_rise(metric) is not None for metric, _ in taken)):
            told = (f"{metric} is taken to be the {'highest' if up else 'lowest'}" for metric, up in wrong or taken)
            self.judge_now("DL716", self.now(place), wrong, f"the best {', and the best '.join(told)}")

    def on_trainer(self, trainer: Any, given: Any, error: Exception | None, stack: Stack) -> None:
        kept, args = getattr(trainer, "train_dataset", None), getattr(trainer, "args", None)
        if error is not None:
            self._missing(trainer, _columns(given if given is not None else kept), error, stack)
        elif kept is not None and hasattr(kept, "__len__"):
            self._cut(kept, given, getattr(args, "max_length", None), args, stack)

    def _missing(self, trainer: Any, columns: list[str], error: Exception, stack: Stack) -> None:
        missing = error.args[0] if isinstance(error, KeyError) and error.args else None
        if missing in _COLUMNS and columns and missing not in columns:
            kind = type(trainer).__name__.removesuffix("Trainer").upper()
            told = ", ".join(f"`{column}`" for column in columns)
            takes = f"; {type(trainer).__name__} takes {_TAKES[kind]}" if kind in _TAKES else ""
            what = f"the data has the columns {told}, and no `{missing}`{takes}"
            self.judge_now("DL909", self.now(stack), True, what, "alarm", columns=columns, missing=missing)
            self.run.has_evidence = True

    def _cut(self, kept: Any, given: Any, longest: Any, args: Any, stack: Stack) -> None:
        columns = _columns(kept)
        if not isinstance(longest, int) or getattr(args, "packing", False) or not len(kept):
            if any(column.endswith("_ids") for column in columns):  # else nothing has looked at them yet
                what = "the columns of the data are taken, and nothing is cut off"
                self.judge_now("DL909", self.now(stack, looks=len(kept)), False, what, "", columns=columns)
            return
        before = len(given) if hasattr(given, "__len__") else len(kept)
        rows = [kept[at] for at in range(0, len(kept), max(1, len(kept) // _MOST))]
        shares = [_is_cut(row, longest) for row in rows]
        left_out = max(0, before - len(kept)) / max(before, 1)
        share = sum(shares) / len(shares) * (1 - left_out) + left_out
        what = f"{share:.2g} of {before} examples are cut off or left out, since `max_length` is {longest}"
        found = {"columns": columns, "share": share, "left_out": left_out, "max_length": longest}
        seen, is_wrong = self.now(stack, looks=before), share > _CUT and before >= _FEWEST
        self.judge_now("DL909", seen, is_wrong, what, "note", **found)


def _is_meant_to_rise(metric: str) -> bool | None:
    """Whether more of a metric is better, by its name; None if that does not tell."""
    name = re.sub(r"[^a-z0-9]+", "_", metric.lower())
    falls, rises = bool(_FALLS.search(name)), bool(_RISES.search(name))
    return None if falls == rises else rises


def _columns(dataset: Any) -> list[str]:
    found = getattr(dataset, "column_names", None)
    return [str(name) for name in found] if isinstance(found, (list, tuple)) else []


def _is_cut(row: Any, longest: int) -> bool:
    """Whether an example is as long as can be, or would be longer; what is cut off later is still longer here."""
    if not isinstance(row, dict):
        return False
    tokens = {str(name): ids for name, ids in row.items() if hasattr(ids, "__len__")}
    lengths = {name.replace("_input_ids", "_ids"): len(ids) for name, ids in tokens.items() if name.endswith("_ids")}
    if "input_ids" in lengths:
        return lengths["input_ids"] >= longest
    answers = [lengths[name] for name in ("chosen_ids", "rejected_ids", "completion_ids") if name in lengths]
    return bool(answers) and lengths.get("prompt_ids", 0) + max(answers) > longest
