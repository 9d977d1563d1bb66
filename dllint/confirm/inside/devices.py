"""What GPUs have of their own: graphs that are captured, errors that come later, and tensors of which each rank has a
part; and modes of the script's that change what functions of torch do, such as a default device. These are not for what
dllint computes itself, but for the models that it calls: https://docs.pytorch.org/docs/stable/notes/extending.html"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor

_asks_whether_it_captures: Callable[[], bool] = getattr(torch._C, "_cuda_isCurrentStreamCapturing", bool)
_CAN_BE_CHOSEN = hasattr(torch._C, "_EnableTorchFunction")  # torch 2.6 and later


def is_capturing() -> bool:
    """Whether a graph of CUDA is being captured: what is computed then has no values, and to ask for some fails.

    Once the device is lost it is taken for that, too.
    """
    try:
        return torch.cuda.is_initialized() and _asks_whether_it_captures()  # type: ignore[no-untyped-call]
    except RuntimeError:
        return True


def is_device_lost(error: Any) -> bool:
    """Whether an error is about what a kernel failed at before. All else that a GPU is asked for fails as well."""
    return isinstance(error, RuntimeError) and str(error).startswith("CUDA error")


def fails_later(tensor: Tensor) -> bool:
    """Whether an index that is out of range raises no error where it is used, but ends the process afterwards."""
    return tensor.is_cuda


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this rank has: of a ``DTensor``, whose rest only all of them can ask for; else all."""
    to_local = getattr(tensor, "to_local", None)
    return tensor if to_local is None else cast(Tensor, to_local())


def without_modes() -> AbstractContextManager[Any]:
    """Functions of torch do what they do by themselves, whatever the script has set."""
    return torch._C.DisableTorchFunction() if _CAN_BE_CHOSEN else nullcontext()


def with_modes() -> AbstractContextManager[Any]:
    """They do what they do for the script."""
    enabled: AbstractContextManager[Any] = torch._C._EnableTorchFunction() if _CAN_BE_CHOSEN else nullcontext()
    return enabled
