"""What is in a checkpoint is looked at piece by piece: each optimizer, and which way a prefix is changed."""

from __future__ import annotations

import textwrap

import pytest

from dllint.testing import check

WRAPPED = """
import torch

model = torch.nn.DataParallel(Net())
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
torch.save(model.state_dict(), "model.pt"){mark}

state = torch.load("model.pt")
"""


def wrapped(mark: str, code: str) -> str:
    return WRAPPED.replace("{mark}", mark) + textwrap.dedent(code)


@pytest.mark.parametrize(
    "code",
    [
        "state = {'module.' + k: v for k, v in state.items()}",
        'state = {f"module.{k}": v for k, v in state.items()}',
        """
        for key in list(state):
            if not key.startswith("module."):
                state["module." + key] = state.pop(key)
        """,
    ],
)
def test_adding_a_prefix_is_not_taking_it_off(code: str) -> None:
    check("DL717", wrapped("  # DL717", code), vary=())


@pytest.mark.parametrize(
    "code",
    [
        "state = {k.replace('module.', ''): v for k, v in state.items()}",
        'state = {k.removeprefix("module."): v for k, v in state.items()}',
        'state = {k[len("module."):] if k.startswith("module.") else k: v for k, v in state.items()}',
        "state = {k[7:]: v for k, v in state.items()}",
        """
        for key in list(state):
            if key.startswith("module."):
                state[".".join(key.split(".")[1:])] = state.pop(key)
        """,
        'torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")',
    ],
)
def test_taking_a_prefix_off(code: str) -> None:
    check("DL717", wrapped("", code), vary=())
