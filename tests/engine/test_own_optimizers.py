"""The step of an optimizer class of the project is a step of an optimizer, as that of torch's is."""

from __future__ import annotations

from dllint.testing import check

CODE = """
import torch
from torch import nn
from torch.nn import functional as F


class Signs(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {{"lr": lr}})

    def {method}(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data.add_(p.grad.sign(), alpha=-group["lr"])
                    {after}


model = nn.Linear(8, 2)
optimizer = Signs(model.parameters(), lr=0.1)
for x, y in loader:
    loss = F.cross_entropy(model(x), y)
    {clear}
    loss.backward()
    optimizer.{call}
"""


def loop(method: str = "step", after: str = "pass", clear: str = "pass", call: str = "step()  # DL202") -> str:
    return CODE.format(method=method, after=after, clear=clear, call=call)


def test_a_loop_that_never_clears_the_gradients() -> None:
    check("DL202", loop(), vary=())
    check("DL202", loop(clear="optimizer.zero_grad()", call="step()"), vary=())


def test_a_step_that_clears_them_itself() -> None:
    check("DL202", loop(after="p.grad.zero_()", call="step()"), vary=())


def test_a_step_that_computes_gradients_in_between() -> None:
    check("DL202", loop(call="step(lambda: F.cross_entropy(model(x), y).backward())"), vary=())


def test_a_method_of_another_name() -> None:
    check("DL202", loop(method="first_step", call="first_step()"), vary=())
