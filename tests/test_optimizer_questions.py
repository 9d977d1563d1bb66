"""What rules of optimizers ask: which modules get gradients and are trained by nobody."""

from __future__ import annotations

import pytest
from test_model import ask

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
