"""Putting an observer around a function of torch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from dllint.confirm.inside.run import Run

Before = Callable[..., Any]
After = Callable[..., Any]
Failed = Callable[..., Any]

ORIGINALS: dict[Any, Any] = {}
"""The functions of torch, by those that stand in their place."""


def observe(
    run: Run,
    owner: Any,
    name: str,
    *,
    before: Before | None = None,
    after: After | None = None,
    failed: Failed | None = None,
    always: bool = True,
) -> None:
    """Have a function observed. It takes and returns what it did; observers that fail are noted and forgotten.

    Args:
        run: the run that guards the observers.
        owner: the module or class that has the function. Nothing happens where it has none of this name.
        name: the name of the function.
        before: is given the arguments before the call.
        after: is given the result and the arguments after the call, if that succeeds.
        failed: is given the exception and the arguments, if the call raises one.
        always: whether each call is to be observed, even if that takes too long.
    """
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def observed(*arguments: Any, **named: Any) -> Any:
        if not run.is_listening or not (always or run.is_due(sys._getframe(1))):
            return original(*arguments, **named)
        if before is not None:
            run.guard(before, *arguments, **named)
        try:
            result = original(*arguments, **named)
        except Exception as error:
            if failed is not None and run.is_listening:
                run.guard(failed, error, *arguments, **named)
            raise
        if after is not None and run.is_listening:
            run.guard(after, result, *arguments, **named)
        return result

    ORIGINALS[observed] = original
    setattr(owner, name, observed)
