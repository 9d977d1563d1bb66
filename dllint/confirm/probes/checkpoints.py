"""DL701, DL704 and DL717: what is in the checkpoints, and where they go."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from dllint.confirm.inside.parts import dicts, has_optimizer
from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import StateSaved, stack_of

_PASSING = ("/tmp", "/var/tmp", "/dev/shm", "/content", "/kaggle/temp", "/scratch/local")  # gone with the machine
_LASTING = ("/content/drive",)
_PREFIXES = ("module.", "_orig_mod.")


@dataclass(slots=True, eq=False)
class _Saved(Samples):
    """What was saved last at one place."""

    facts: dict[str, Any] = field(default_factory=dict)


class Checkpoints(PlaceProbe[_Saved]):
    def on_state_saved(self, event: StateSaved) -> None:
        content = event.content
        states = list(dicts(content))
        weights = [state for state in states if state and all(isinstance(value, Tensor) for value in state.values())]
        self.at(stack_of(event)).facts = {
            "weights": len(weights),
            "optimizers": sum("param_groups" in state and "state" in state for state in states),
            "alone": content in weights if isinstance(content, dict) else False,
            "wrapped_keys": sum(str(key).startswith(_PREFIXES) for state in weights for key in state),
            "passing_place": _is_passing(event.path) if has_optimizer(content) else None,
        }

    def judge_each(self, seen: _Saved) -> Judgements:
        facts, seen.looks = seen.facts, 1
        if facts["weights"]:
            yield self.judgement("DL717", seen, decided(facts["wrapped_keys"], True), **facts)
            yield self.judgement("DL701", seen, decided(not facts["optimizers"], True), **facts)
        if facts["passing_place"] is not None:
            told = f"{'deleted' if facts['passing_place'] else 'not deleted'} with the machine"
            yield self.judgement("DL704", seen, decided(facts["passing_place"], True), told, **facts)


def _is_passing(path: Any) -> bool:
    """Whether the script names a folder that does not outlive the machine."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isabs(path):
        return False
    here, text = os.path.join(os.getcwd(), ""), os.fspath(path)
    roots = [root + os.sep for root in (*_PASSING, tempfile.gettempdir())]
    lasts = any(str(text).startswith(root + os.sep) for root in _LASTING)
    return not lasts and any(str(text).startswith(root) and not here.startswith(root) for root in roots)
