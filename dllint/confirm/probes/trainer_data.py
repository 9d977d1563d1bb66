"""DL909: data sets whose columns a trainer of trl does not take, and texts that it cuts off or leaves out.

A column that is missing ends the run by itself, with the name of the column alone. What is longer than `max_length` is
cut off, or left out, without a word.
"""

from __future__ import annotations

from typing import Any

from dllint.confirm.evidence import Voice
from dllint.confirm.probes.base import Probe, decided
from dllint.confirm.probes.events import Stack

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


class TrainerData(Probe):
    def on_trainer(self, trainer: Any, given: Any, error: Exception | None, stack: Stack) -> None:
        kept = getattr(trainer, "train_dataset", None)
        args = getattr(trainer, "args", None)
        if error is not None:
            self._missing(trainer, _columns(given if given is not None else kept), error, stack)
        elif kept is not None and hasattr(kept, "__len__"):
            self._cut(trainer, kept, given, getattr(args, "max_length", None), args, stack)

    def _missing(self, trainer: Any, columns: list[str], error: Exception, stack: Stack) -> None:
        missing = error.args[0] if isinstance(error, KeyError) and error.args else None
        if missing in _COLUMNS and columns and missing not in columns:
            kind = type(trainer).__name__.removesuffix("Trainer").upper()
            told = ", ".join(f"`{column}`" for column in columns)
            takes = f"; {type(trainer).__name__} takes {_TAKES[kind]}" if kind in _TAKES else ""
            what = f"the data has the columns {told}, and no `{missing}`{takes}"
            self._add(True, what, 1, stack, "alarm", columns=columns, missing=missing)
            self.run.has_evidence = True

    def _cut(self, trainer: Any, kept: Any, given: Any, longest: Any, args: Any, stack: Stack) -> None:
        columns = _columns(kept)
        if not isinstance(longest, int) or getattr(args, "packing", False) or not len(kept):
            if any(column.endswith("_ids") for column in columns):  # else nothing has looked at them yet
                what = "the columns of the data are taken, and nothing is cut off"
                self._add(False, what, len(kept), stack, "", columns=columns)
            return
        before = len(given) if hasattr(given, "__len__") else len(kept)
        rows = [kept[at] for at in range(0, len(kept), max(1, len(kept) // _MOST))]
        shares = [_is_cut(row, longest) for row in rows]
        left_out = max(0, before - len(kept)) / max(before, 1)
        share = sum(shares) / len(shares) * (1 - left_out) + left_out
        what = f"{share:.2g} of {before} examples are cut off or left out, since `max_length` is {longest}"
        found = {"columns": columns, "share": share, "left_out": left_out, "max_length": longest}
        self._add(share > _CUT and before >= _FEWEST, what, before, stack, "note", **found)

    def _add(self, is_wrong: bool, told: str, examples: int, stack: Stack, voice: Voice, **found: Any) -> None:
        seen, verdict = self.now(stack, looks=examples), decided(is_wrong, True)
        self.judged.append(self.judgement("DL909", seen, verdict, told, voice, **found))


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
