"""Observes what environments of gymnasium return, once the script has imported it."""

from __future__ import annotations

import sys
from typing import Any

from dllint.confirm.inside.patching import observe
from dllint.confirm.inside.run import Run


def observe_environments(run: Run) -> None:
    """Observe environments that ``gymnasium.make`` makes. Nothing happens where gymnasium has not been imported."""

    def stepped(outcome: Any, environment: Any, *_: Any, **__: Any) -> None:
        if isinstance(outcome, tuple) and len(outcome) == 5:
            reward, is_over = outcome[1], bool(outcome[2])
            run.tell("reward", environment, float(reward), is_over)

    def began(_: Any, environment: Any, *__: Any, **___: Any) -> None:
        run.tell("episode", environment)

    kind = getattr(sys.modules.get("gymnasium.wrappers"), "OrderEnforcing", None)  # which is around each of them
    observe(run, kind, "step", after=stepped)
    observe(run, kind, "reset", after=began)
