"""What holds after an ``if`` of which one side left the turn holds after the ``with`` block around it, too."""

from __future__ import annotations

import textwrap

import pytest

from dllint.testing import check

_LOOP = """
    import contextlib
    import torch
    import torch.nn.functional as F

    def fit(net, batches):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for turn, (x, y) in enumerate(batches):
            with {manager}:
                loss = F.cross_entropy(net(x), y)
                if loss.isnan():
                    optimizer.zero_grad()
                    {leaves}
            loss.backward(){mark}
            if turn % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
"""


@pytest.mark.parametrize("manager", ["torch.autocast('cuda')", "contextlib.nullcontext()", "net.no_sync()"])
def test_a_turn_that_ends_in_a_block_does_not_come_after_it(manager: str) -> None:
    check("DL210", textwrap.dedent(_LOOP.format(manager=manager, leaves="continue", mark="  # DL210")))


@pytest.mark.parametrize("manager", ["contextlib.suppress(ValueError)", "swallowing(batches)"])
def test_a_block_that_swallows_errors_may_be_left_for_what_is_after_it(manager: str) -> None:
    check("DL210", textwrap.dedent(_LOOP.format(manager=manager, leaves="raise ValueError", mark="")))
