"""Modes of the script's that change what functions of torch do, such as a default device. They are not for what dllint
computes itself, but for the models that it calls: https://docs.pytorch.org/docs/stable/notes/extending.html"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

_CAN_BE_CHOSEN = hasattr(torch._C, "_EnableTorchFunction")  # torch 2.6 and later


def without_modes() -> AbstractContextManager[Any]:
    """Functions of torch do what they do by themselves, whatever the script has set."""
    return torch._C.DisableTorchFunction() if _CAN_BE_CHOSEN else nullcontext()


def with_modes() -> AbstractContextManager[Any]:
    """They do what they do for the script."""
    enabled: AbstractContextManager[Any] = torch._C._EnableTorchFunction() if _CAN_BE_CHOSEN else nullcontext()
    return enabled
