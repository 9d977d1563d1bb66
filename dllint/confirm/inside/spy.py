"""Tells which functions draw random numbers while a model is called once more at the end."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

_DRAWING = ("bernoulli", "dropout", "multinomial", "normal", "rand", "uniform")


class Spy(TorchFunctionMode):
    """While it is entered, notes functions that drop (``dropped``) and others that draw (``drawn``)."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped: list[str] = []
        self.drawn: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note a function, and call it."""
        given = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if "dropout" in name:
            probability = args[1] if len(args) > 1 else given.get("p", 0.5)
            training = args[2] if len(args) > 2 else given.get("training", True)
            if probability and training:
                self._note(self.dropped, name)
        elif name == "scaled_dot_product_attention" and given.get("dropout_p", args[4] if len(args) > 4 else 0.0):
            self._note(self.dropped, name)
        elif name.rstrip("_").startswith(_DRAWING):
            self._note(self.drawn, name)
        return func(*args, **given)

    def _note(self, names: list[str], name: str) -> None:
        if name not in names:
            names.append(name)
