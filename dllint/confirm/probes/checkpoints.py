"""DL701, DL704 and DL717: what is in the checkpoints, and where they go."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Probe, stack_of
from dllint.confirm.probes.contents import dicts, has_optimizer
from dllint.events import StateSaved

_PASSING = ("/tmp", "/var/tmp", "/dev/shm", "/content", "/kaggle/temp", "/scratch/local")  # gone with the machine
_LASTING = ("/content/drive",)
_PREFIXES = ("module.", "_orig_mod.")


class Checkpoints(Probe):
    """Looks into what ``torch.save`` is given."""

    name = "checkpoints"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._saved: dict[Stack, dict[str, Any]] = {}

    def on_state_saved(self, event: StateSaved[Any]) -> None:
        content: Any = event.content
        states = list(dicts(content))
        weights = [state for state in states if state and all(isinstance(value, Tensor) for value in state.values())]
        wrapped = [key for state in weights for key in state if str(key).startswith(_PREFIXES)]
        self._saved[stack_of(event)] = {
            "weights": len(weights),
            "optimizers": sum("param_groups" in state and "state" in state for state in states),
            "alone": content in weights if isinstance(content, dict) else False,
            "wrapped_keys": len(wrapped),
            "passing_place": _is_passing(event.path) if has_optimizer(content) else None,
        }

    def judge(self) -> Iterator[Judgement]:
        for stack, facts in self._saved.items():
            if facts["weights"]:
                yield self._judgement("DL717", stack, facts, facts["wrapped_keys"] > 0)
                yield self._judgement("DL701", stack, facts, not facts["optimizers"])
            if facts["passing_place"] is not None:
                yield self._judgement("DL704", stack, facts, facts["passing_place"])

    def _judgement(self, rule: str, stack: Stack, facts: dict[str, Any], is_wrong: bool) -> Judgement:
        what = {
            "DL701": f"{facts['weights']} sets of weights and {facts['optimizers']} of optimizer state were saved",
            "DL704": f"a checkpoint to resume from goes where files are {'not ' * (not facts['passing_place'])}deleted "
            "with the machine",
            "DL717": f"{facts['wrapped_keys']} keys that were saved begin with the prefix of a wrapper",
        }
        return Judgement(
            rule,
            self.name,
            "CONFIRMED" if is_wrong else "REFUTED",
            what[rule],
            _THRESHOLDS[rule],
            facts,
            1,
            (self.run.steps, self.run.steps),
            (stack,),
            "note",
        )


_THRESHOLDS = {
    "DL701": "weights without the state of an optimizer",
    "DL704": "an absolute path into a temporary folder that the run itself is not in; else refuted",
    "DL717": "any such key",
}


def _is_passing(path: Any) -> bool:
    """Whether the script names a folder that does not outlive the machine."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isabs(path):
        return False
    here, text = os.path.join(os.getcwd(), ""), os.fspath(path)
    roots = [root + os.sep for root in (*_PASSING, tempfile.gettempdir())]
    lasts = any(str(text).startswith(root + os.sep) for root in _LASTING)
    return not lasts and any(str(text).startswith(root) and not here.startswith(root) for root in roots)
