"""The axes of tensors, and views that mix them."""

from __future__ import annotations

import pytest
from engine_support import found

HEAD = """
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self, dim, heads, words):
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(dim, 96)
        self.conv = nn.Conv2d(3, 64, 3)
        self.embedding = nn.Embedding(words, 32)
        self.rnn = nn.GRU(32, 32, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
"""

MIXED = [
    "b, t, c = x.shape; y = x.view(t, b, c)",
    "b, t, c = x.size(); y = self.norm(x).reshape(t, b, -1)",
    "b, t, c = x.shape; y = torch.reshape(x, (t, b, c))",
    "b, t, c = x.shape; y = self.linear(x).view(b, self.heads, t, 96 // self.heads)",
    "b, t, c = x.shape; y = x.transpose(0, 1).reshape(b, t, c)",
    "b, t, c = x.shape; y = x.permute(0, 2, 1).contiguous().view(b, t, c)",
    "y = self.conv(x); n, c, h, w = y.shape; y = y.view(n, h * w, c)",
    "y = F.relu(self.conv(x)); n, c, h, w = y.shape; y = y.view(n, h, w, c)",
    "n, l, c = x.shape; y = x.view(n, c, 14, 14)",
    "y = self.embedding(x); y = y.view(y.size(1), y.size(0), 32)",
    "y, _ = self.rnn(x); b, t, _ = y.shape; y = y.reshape(t, b, 32)",
    "y = x.unsqueeze(0); b, t = x.size(0), x.size(1); y = y.view(1, t, b, -1)",
]
MIXED += [
    "b, t, c = x.shape; q, k = self.norm(x).split(c // 2, dim=2); y = k.view(b, self.heads, t, -1)",
    "b, t, c = x.shape; y = self.linear(x).chunk(3, dim=-1)[1].view(b, self.heads, t, -1)",
]
MIXED += [
    "n = x.size(0); y = x.view(n // 2, x.size(1), 2, x.size(2))",
    "y = self.linear(x) if self.heads else self.norm(x); b, t, _ = y.shape; y = y.view(t, b, -1)",
]
KEPT = [
    "b, t, c = x.shape; q, k = self.norm(x).split(c // 2, dim=2); y = k.view(b, t, self.heads, -1)",
    "b, t, c = x.shape; q, k = x.split(t // 2, dim=1); y = k.view(b, -1, c)",
    "b, t, c = x.shape; q = x.unbind(1)[0]; y = q.view(b, self.heads, -1)",
    "b, t, c = x.shape; y = x.view(b * t, c).view(b, t, c)",
    "b, t, c = x.shape; y = self.linear(x).view(b, t, self.heads, -1).transpose(1, 2)",
    "b, t, c = x.shape; y = x.transpose(0, 1).reshape(t, b, c)",
    "b, t, c = x.shape; y = x.transpose(0, 1).reshape(t, -1)",
    "y = self.conv(x); n, c, h, w = y.shape; y = y.view(n, c, h * w).permute(0, 2, 1).reshape(n, h * w, c)",
    "y = self.conv(x); y = y.view(-1, 64)",
    "y = self.conv(x); y = y.flatten(1).view(y.size(0), -1)",
    "n, t = x.shape; y = x.view(n, 1, t)",
    "n, n2 = x.shape; y = x.view(-1, n2)",
    "b, t, c = x.shape; y = x.view(b // 2, 2, t, c)",
    "b, t, c = x.shape; y = x.view(b, t // 4, 4, c)",
    "n = x.size(0); y = x.view(n // 2, 2, x.size(1), x.size(2))",
    "y = self.linear(x) if self.heads else self.norm(x); b, t, _ = y.shape; y = y.view(b * t, -1)",
    "b, t, c = x.shape; y = x.view(*x.shape[:2], self.heads, -1)",
    "b, t, c = x.shape; x = some_call(x); y = x.view(t, b, c)",
    "b, t = x.shape[0], 1; y = x.view(t, b, -1)",
    "y = x.view(self.rnn.num_layers, x.size(0), x.size(1))",
    "b, t = x.shape; y = x.view(b, self.heads, t)",
]


def body(code: str) -> str:
    return "".join(f"        {line.strip()}\n" for line in code.split(";"))


@pytest.mark.parametrize("code", MIXED)
def test_views_that_mix(code: str) -> None:
    mixed = found("DL821", f"{HEAD}{body(code)}        return y\n", explicit=True)
    assert [each.code for each in mixed] == ["DL821"]


@pytest.mark.parametrize("code", KEPT)
def test_views_that_keep_the_order(code: str) -> None:
    assert found("DL821", explicit=True, source=f"{HEAD}{body(code)}        return y\n") == []


def test_axes_that_may_have_one_step_are_a_question() -> None:
    (finding,) = found("DL821", explicit=True, source=f"{HEAD}        return x.view(x.size(0), x.size(2), x.size(1))\n")
    assert "effect" in {each.kind for each in finding.assumptions}


COLLECTED = """
import gym
import torch
from torch import nn
import torch.nn.functional as F

critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
environment = gym.make("CartPole-v1")
state, ended, states, rewards = environment.reset(), False, [], []
while not ended:
    states.append(state)
    state, reward, ended, _ = environment.step(0)
    rewards.append(reward)
returns, running = [], 0
for reward in reversed(rewards):
    running = reward + 0.99 * running
    returns.insert(0, running)
returns = torch.tensor(returns)
values = critic(torch.tensor(states))
"""


def test_numbers_that_a_loop_collects_are_a_row() -> None:
    (finding,) = found("DL117", f"{COLLECTED}F.mse_loss(values, returns).backward()\n")
    assert "effect" in {each.kind for each in finding.assumptions}


@pytest.mark.parametrize("given", ["values.squeeze(1), returns", "values, returns.unsqueeze(1)"])
def test_rows_and_columns_of_numbers_that_a_loop_collects(given: str) -> None:
    assert found("DL117", f"{COLLECTED}F.mse_loss({given}).backward()\n") == []
