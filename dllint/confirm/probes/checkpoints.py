"""DL701 and DL717: what is in the checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Probe
from dllint.confirm.probes.contents import dicts

_PREFIXES = ("module.", "_orig_mod.")


class Checkpoints(Probe):
    """Looks into what ``torch.save`` is given."""

    name = "checkpoints"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._saved: dict[Stack, dict[str, Any]] = {}

    def on_save(self, content: Any, path: Any, stack: Stack) -> None:
        states = list(dicts(content))
        weights = [state for state in states if state and all(isinstance(value, Tensor) for value in state.values())]
        wrapped = [key for state in weights for key in state if str(key).startswith(_PREFIXES)]
        self._saved[stack] = {
            "weights": len(weights),
            "optimizers": sum("param_groups" in state and "state" in state for state in states),
            "alone": content in weights if isinstance(content, dict) else False,
            "wrapped_keys": len(wrapped),
        }

    def judge(self) -> Iterator[Judgement]:
        for stack, facts in self._saved.items():
            if facts["weights"]:
                yield self._judgement("DL717", stack, facts, facts["wrapped_keys"] > 0)
                yield self._judgement("DL701", stack, facts, not facts["optimizers"])

    def _judgement(self, rule: str, stack: Stack, facts: dict[str, Any], is_wrong: bool) -> Judgement:
        what = {
            "DL701": f"{facts['weights']} sets of weights and {facts['optimizers']} of optimizer state were saved",
            "DL717": f"{facts['wrapped_keys']} keys that were saved begin with the prefix of a wrapper",
        }
        return Judgement(
            rule,
            self.name,
            "CONFIRMED" if is_wrong else "REFUTED",
            what[rule],
            {"DL701": "weights without the state of an optimizer", "DL717": "any such key"}[rule],
            facts,
            1,
            (self.run.steps, self.run.steps),
            (stack,),
        )
