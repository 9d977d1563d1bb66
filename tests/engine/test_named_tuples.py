"""Named tuples hold what they are given, and nothing else happens to it."""

from __future__ import annotations

import pytest

from dllint.testing import check

AGENT = """
import random
from collections import deque, namedtuple

import torch
from torch import nn
from torch.nn import functional as F


class Agent:
    def __init__(self):
        self.network = nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)
        self.memory = deque(maxlen=1000)
        self.experience = namedtuple("Experience", {fields})

    def act(self, state):
        with torch.no_grad():
            return self.network(state).argmax().item()

    def step(self, state, action, reward):
        self.memory.append(self.experience(state, action, reward))
        batch = random.sample(self.memory, 32)
        values = self.network(torch.stack([each.state for each in batch]))
        loss = F.mse_loss(values, torch.stack([each.reward for each in batch]))
        self.optimizer.zero_grad()
        self.optimizer.step()  # DL204
        loss.backward()


agent = Agent()
for state, reward in given.environment:
    agent.step(state, agent.act(state), reward)
"""


@pytest.mark.parametrize("fields", ['["state", "action", "reward"]', '"state action reward"', "given.fields"])
def test_a_replay_memory_of_named_tuples(fields: str) -> None:
    check("DL204", AGENT.replace("{fields}", fields), vary=())


def test_a_field_is_what_was_put_there() -> None:
    source = """
    from collections import namedtuple

    import torch
    from torch import nn

    Output = namedtuple("Output", "logits, probabilities")
    logits = nn.Linear(4, 2)(given.x)
    output = Output(logits, probabilities=torch.softmax(logits, dim=1))
    nn.functional.cross_entropy(output.logits, given.y)
    nn.functional.cross_entropy(output.probabilities, given.y)  # DL101
    """
    check("DL101", source, vary=())
