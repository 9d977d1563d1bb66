"""The update of a class that keeps its own optimizer is called again and again, though nobody is seen to call it."""

from __future__ import annotations

from dllint.testing import check

AGENT = """
import torch
from torch import nn
from torch.nn import functional as F


class Agent:
    def __init__(self, size, rate):
        self.model = nn.Linear(size, 2)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)
        self.steps = 0

    def act(self, state):
        return self.model(state).argmax()

    {more}

    def learn(self, buffer):
        states, returns = buffer.sample()
        loss = F.mse_loss(self.model(states), returns)
        {clear}
        loss.backward(){backward}
        {step}
"""


def agent(clear: str = "pass", step: str = "self.optimizer.step()", backward: str = "", more: str = "pass") -> str:
    return AGENT.format(clear=clear, step=step, backward=backward, more=more)


def test_an_update_that_never_clears_the_gradients() -> None:
    check("DL202", agent(step="self.optimizer.step()  # DL202"), vary=())
    check("DL202", agent(clear="self.optimizer.zero_grad()"), vary=())


def test_an_update_that_takes_no_step() -> None:
    check("DL201", agent(clear="self.optimizer.zero_grad()", step="pass", backward="  # DL201"), vary=())
    check("DL201", agent(clear="self.optimizer.zero_grad()"), vary=())


def test_another_method_or_the_user_of_the_class_may_clear() -> None:
    check("DL202", agent(more="def reset(self):\n        self.optimizer.zero_grad()\n"), vary=())
    user = "from main import Agent\n\ndef run(agent: Agent):\n    agent.model.zero_grad()\n    agent.learn(None)\n"
    check("DL202", agent(), files={"user.py": user}, vary=())
    check("DL202", agent() + "\n\ndef run(agent: Agent):\n    agent.model.zero_grad()\n", vary=())


def test_a_class_beside_it_that_clears_its_own_says_nothing() -> None:
    other = agent(clear="self.optimizer.zero_grad()").replace("class Agent", "class Other")
    check("DL202", agent(step="self.optimizer.step()  # DL202") + other, vary=())


def test_another_method_or_the_user_of_the_class_may_step() -> None:
    clear = "self.optimizer.zero_grad()"
    check("DL201", agent(clear, "pass", more="def update(self):\n        self.optimizer.step()\n"), vary=())
    user = "from main import Agent\n\ndef run(agent: Agent):\n    agent.learn(None)\n    agent.optimizer.step()\n"
    check("DL201", agent(clear, "pass"), files={"user.py": user}, vary=())


def test_a_method_with_a_loop_of_its_own_is_judged_by_that() -> None:
    source = agent().replace("    def learn", "    def fit").replace("loss.backward()", "self.finish(loss)")
    loop = """
    def run(self, buffer):
        self.optimizer.zero_grad()
        for part in buffer:
            self.model(part).sum().backward()
        self.optimizer.step()
"""
    check("DL202", source + loop, vary=())


def test_an_optimizer_that_is_handed_in_is_not_the_objects_own() -> None:
    source = """
    class Updater:
        def __init__(self, model, optimizer):
            self.model = model
            self.optimizer = optimizer

        def update(self, loss):
            loss.backward()
            self.optimizer.step()
    """
    check("DL202", source, vary=())
