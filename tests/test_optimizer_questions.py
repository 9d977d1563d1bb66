"""What rules of optimizers ask: which modules get gradients and are trained by nobody."""

from __future__ import annotations

import pytest
from asking import ask, last

from dllint.api import LossCall

LOOP = """
head, tail = nn.Linear(2, 2), nn.Linear(2, 2)
{optimizer}
for x, y in train_loader:
    F.mse_loss({output}, y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "output", "untrained"),
    [
        ("optimizer = torch.optim.SGD(head.parameters(), lr=0.1)", "tail(head(x))", ["tail"]),
        ("optimizer = torch.optim.SGD([*head.parameters(), *tail.parameters()], lr=0.1)", "tail(head(x))", []),
        ("optimizer = torch.optim.SGD(head.parameters(), lr=0.1)", "head(x) + tail(x).detach()", []),
        ("optimizer = torch.optim.SGD(find_parameters(), lr=0.1)", "tail(head(x))", []),
        ("optimizer = torch.optim.SGD([head.weight], lr=0.1)", "tail(head(x))", []),
        ("optimizer = make_optimizer(head.parameters())", "tail(head(x))", []),
    ],
)
def test_what_is_left_out(made: str, output: str, untrained: list[str]) -> None:
    code = LOOP.format(optimizer=made, output=output)
    assert ask(code, lambda ctx: [left.name for left in ctx.untrained()]) == untrained


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        ("x.long()", "integer"),
        ("x.to(torch.float32)", "floating"),
        ("x.to(device, dtype=torch.long).view(-1)", "integer"),
        ("F.one_hot(x, 3)", "integer"),
        ("F.one_hot(x, 3).float().to(device)", "floating"),
        ("x.type(torch.LongTensor).cuda()", "integer"),
        ("torch.zeros(3, dtype=torch.long)", "integer"),
        ("torch.zeros_like(x.long())", "integer"),
        ("x > 0.5", "boolean"),
        ("x", ""),
        ("x.long().to(other)", ""),
        ("x.long().type_as(y)", ""),
        ("x.long() if flag else x", ""),
    ],
)
def test_kind_of_numbers(tensor: str, kind: str) -> None:
    code = f"for x, y in train_loader:\n    F.mse_loss({tensor}, y)\n"
    assert ask(code, lambda ctx: ctx.number_kind(last(ctx, LossCall).input)) == kind


def test_cast_of_one_of_several_tensors() -> None:
    code = """
    labels = torch.ones(3).long() if flag else torch.zeros(3).long()
    F.mse_loss(labels.float(), labels)
    """
    assert ask(code, lambda ctx: ctx.number_kind(last(ctx, LossCall).input)) == "floating"
