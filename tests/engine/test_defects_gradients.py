"""A loss that was cut off is seen to be, whatever computed it."""

from __future__ import annotations

import textwrap

import pytest

from dllint.testing import check

TRAIN = """
import torch

def train(model, loader, criterion, optimizer, weight):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
{body}
        optimizer.step()
"""


def train(body: str) -> str:
    return TRAIN.replace("{body}", textwrap.indent(textwrap.dedent(body).strip("\n"), "        "))


@pytest.mark.parametrize(
    "body",
    [
        "loss = loss.detach()\nloss.backward()  # DL206",
        "torch.tensor(loss.item(), requires_grad=True).backward()  # DL206",
        "loss = torch.tensor(loss.item())\nloss.requires_grad = True\nloss.backward()  # DL206",
        "loss = 0.5 * loss.detach().requires_grad_()\nloss.backward()  # DL206",
        "loss = loss.data.requires_grad_(True)\nloss.backward()  # DL206",
        "losses = [loss.item()]\nsum(losses).backward()  # DL206",
    ],
)
def test_the_loss_of_a_criterion_that_is_not_known(body: str) -> None:
    check("DL206", train(body), vary=())


def test_the_criterion_that_an_object_was_given() -> None:
    source = """
    class Trainer:
        def __init__(self, model, loss_fn):
            self.model, self.loss_fn = model, loss_fn

        def train(self, loader):
            for x, y in loader:
                loss = self.loss_fn(self.model(x), y).detach()
                loss.backward()  # DL206
    """
    check("DL206", source, vary=())


@pytest.mark.parametrize(
    "body",
    [
        "print(loss.item())\nloss.backward()",
        "total = loss + loss.detach() * weight\ntotal.backward()",
        "scale = loss.detach()\n(loss / scale).backward()",
        "weight.forward_backward(loss.detach())",
        "extra = weight(loss.detach())\nextra.backward()",
        "(loss.detach() * weight).backward()",
        "loss.requires_grad = True\nloss.backward()",
        "loss.requires_grad_().backward()",
    ],
)
def test_some_part_still_carries_gradients(body: str) -> None:
    check("DL206", train(body), vary=())


def test_what_is_optimised_itself_began_as_the_result_of_a_model() -> None:
    source = """
    import torch

    def project(generator, decode, z, target, steps):
        image = decode(generator(z)).detach().requires_grad_(True)
        optimizer = torch.optim.Adam([image])
        for _ in range(steps):
            optimizer.zero_grad()
            ((image - target) ** 2).mean().backward()
            optimizer.step()
    """
    check("DL206", source, vary=())
