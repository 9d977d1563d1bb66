"""Modules that write ``__call__`` in place of ``forward``: they are models like others."""

from __future__ import annotations

import textwrap

import pytest

from dllint.testing import check

_NET = """
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 3)

        def {name}(self, x):
            return torch.softmax(self.fc(x), dim=1)

    net = Net()
    loss = F.cross_entropy(net(x), y){mark}
"""


@pytest.mark.parametrize("name", ["forward", "__call__"])
def test_what_the_call_returns_is_the_output(name: str) -> None:
    check("DL101", textwrap.dedent(_NET.format(name=name, mark="  # DL101")))


def test_a_call_around_the_forward_of_others_is_none() -> None:
    source = """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F

        class Base(nn.Module):
            def __call__(self, x):
                return torch.log(self.forward(x))

        class Net(Base):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 3)

            def forward(self, x):
                return torch.softmax(self.fc(x), dim=1)

        loss = F.nll_loss(Net()(x), y)
    """
    check("DL104", textwrap.dedent(source))


def test_what_trains_in_a_call_is_seen_there() -> None:
    source = """
        import torch
        import torch.nn as nn

        class Fitter(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(8, 3)
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def __call__(self, x, y):
                loss = nn.functional.cross_entropy(self.net(x), y)
                loss.backward()
                self.optimizer.step()  # DL202
                return loss

        fitter = Fitter()
        for x, y in loader:
            fitter(x, y)
    """
    check("DL202", textwrap.dedent(source))
