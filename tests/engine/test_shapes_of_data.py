"""Shapes of numbers that a program collects, keeps, draws and takes apart again."""

from __future__ import annotations

import pytest
from engine_support import found

HEAD = """
import random
from collections import deque, namedtuple

import gym
import numpy as np
import pandas as pd
import torch
from sklearn.datasets import fetch_california_housing
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(critic.parameters())
environment = gym.make("CartPole-v1")
"""

MEMORY = """
class Memory:
    def __init__(self, size):
        self.held = {held}

    def push(self, state, action, reward, ended):
        {push}

    def draw(self, count):
        {draw}

memory = Memory(1000)

def learn():
    states, actions, rewards, ended = memory.draw(32)
    values = critic(torch.as_tensor(states).float())
    loss = F.mse_loss(values, torch.as_tensor(rewards){after})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

state = environment.reset()
for _ in range(1000):
    after, reward, ended, _ = environment.step(0)
    memory.push(state, 0, reward, ended)
    state = after
    learn()
"""

APPENDED = "self.held.append((state, action, reward, ended))"
HELD = [
    ("deque(maxlen=size)", APPENDED, "return map(np.stack, zip(*random.sample(self.held, count)))"),
    ("deque(maxlen=size)", APPENDED, "return zip(*random.sample(self.held, count))"),
    (
        "np.zeros(size), np.zeros((size, 4))",
        "self.held[0][0], self.held[1][0] = reward, state",
        "at = np.random.choice(1000, count); return self.held[1][at], None, self.held[0][at], None",
    ),
]


def of_memory(held: str, push: str, draw: str, after: str = "") -> str:
    return HEAD + MEMORY.format(held=held, push=push, draw=draw.replace("; ", "\n        "), after=after)


@pytest.mark.parametrize("code", HELD)
def test_numbers_of_a_memory_are_a_row(code: tuple[str, str, str]) -> None:
    assert [each.code for each in found("DL117", of_memory(*code))] == ["DL117"]


@pytest.mark.parametrize("code", HELD)
def test_numbers_of_a_memory_that_get_an_axis(code: tuple[str, str, str]) -> None:
    assert found("DL117", of_memory(*code, after=".unsqueeze(1)")) == []


def test_numbers_of_a_memory_in_lists_of_one() -> None:
    listed = APPENDED.replace("reward", "[reward]")
    assert found("DL117", of_memory("deque(maxlen=size)", listed, HELD[1][2])) == []


TRANSITIONS = """
Transition = namedtuple("Transition", ("state", "reward"))
memory = deque(maxlen=1000)
state = environment.reset()
for _ in range(1000):
    after, reward, ended, _ = environment.step(0)
    memory.append(Transition(state, {reward}))
    state = after
batch = Transition(*zip(*random.sample(memory, 32)))
values = critic(torch.tensor(batch.state))
F.mse_loss(values, torch.{joined}(batch.reward)).backward()
"""


@pytest.mark.parametrize(
    ("reward", "joined", "codes"),
    [
        ("reward", "tensor", ["DL117"]),
        ("torch.tensor([reward])", "cat", ["DL117"]),
        ("torch.tensor([[reward]])", "cat", []),
        ("torch.tensor(reward)", "stack", ["DL117"]),
        ("[reward]", "tensor", []),
    ],
)
def test_fields_of_transitions(reward: str, joined: str, codes: list[str]) -> None:
    source = HEAD + TRANSITIONS.format(reward=reward, joined=joined)
    assert [each.code for each in found("DL117", source)] == codes


MANY_LINES = "\n".join(f"        self.seen_{number} = {number}" for number in range(40))  # short methods are entered
LEFT_OUT = {
    "memory.py": f"""
import random
from collections import deque

class Memory:
    def __init__(self, size):
        self.held = deque(maxlen=size)
{MANY_LINES}

    def push(self, state, reward):
        self.held.append((state, reward))
{MANY_LINES}

    def draw(self, count):
        states, rewards = zip(*random.sample(self.held, count))
{MANY_LINES}
        return states, rewards
"""
}
USED = """
from memory import Memory
memory = Memory(1000)
state = environment.reset()
for _ in range(1000):
    after, reward, ended, _ = environment.step(0)
    memory.push(state, {reward})
    states, rewards = memory.draw(32)
    F.mse_loss(critic(torch.tensor(states)), torch.tensor(rewards)).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("reward", "codes"), [("reward", ["DL117"]), ("[reward]", [])])
def test_methods_of_a_memory_that_are_left_out(reward: str, codes: list[str]) -> None:
    assert [each.code for each in found("DL117", HEAD + USED.format(reward=reward), LEFT_OUT)] == codes


def fitted(target: str, prediction: str = "critic(inputs)", before: str = "") -> str:
    return f"{HEAD}{before}\nloss = F.mse_loss({prediction}, {target})\nloss.backward()\noptimizer.step()\n"


HOUSES = "inputs, prices = fetch_california_housing(return_X_y=True)\n"
SPLIT = f"{HOUSES}inputs, tests, prices, _ = train_test_split(inputs, prices)\n"
SCALED = f"{SPLIT}inputs = torch.tensor(StandardScaler().fit_transform(inputs)).float()\n"
FRAME = 'frame = pd.read_csv("houses.csv")\ninputs = torch.tensor(frame.iloc[:, :-1].values)\n'
STEPS = "critic = nn.Linear(1, 1)\nsteps = np.linspace(0, 1, 200)\ninputs = torch.tensor(steps).unsqueeze(1)\n"
ROWS = [
    ("torch.tensor(prices).float()", SCALED),
    ("torch.tensor(frame.iloc[:, -1].values)", FRAME),
    ("torch.tensor(np.sin(2 * np.pi * steps))", STEPS),
    ("torch.tensor(targets)", f"{STEPS}targets = np.zeros_like(steps)\n"),
    ("targets", f"{STEPS}targets = torch.tensor([random.random() for _ in steps])\n"),
    ("torch.tensor(np.stack(drawn))", f"{STEPS}drawn = []\nfor _ in steps: drawn.append(np.random.rand())\n"),
]


@pytest.mark.parametrize(("target", "before"), ROWS)
def test_rows_of_numbers(target: str, before: str) -> None:
    assert [each.code for each in found("DL117", fitted(target, before=before))] == ["DL117"]
    assert found("DL117", fitted(f"{target}.unsqueeze(1)", before=before)) == []


def test_what_a_layer_refuses_has_no_shape() -> None:
    target, before = ROWS[2]
    assert found("DL117", fitted(target, "nn.Linear(2, 1)(inputs)", before)) == []


PREDICTIONS = [
    "torch.min(critic(inputs), critic(inputs))",
    'Heads()(inputs)["price"]',
    "normed(inputs)",
    "scaled(inputs)",
    "torch.cat([critic(each.unsqueeze(0)) for each in inputs])",
]
HEADS = (
    HOUSES
    + """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.price = nn.Linear(4, 1)
        self.kind = nn.Linear(4, 3)

    def forward(self, x):
        return {"kind": self.kind(x), "price": self.price(x)}

class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return torch.sigmoid(self.factor * x)

inputs = torch.tensor(inputs)
normed = nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 64)), nn.utils.spectral_norm(nn.Linear(64, 1)))
scaled = nn.Sequential(nn.Linear(4, 1), Scaled(1))
"""
)


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_columns_that_models_return(prediction: str) -> None:
    source = fitted("torch.tensor(prices)", prediction, HEADS)
    assert [each.code for each in found("DL117", source)] == ["DL117"]
    assert found("DL117", fitted("torch.tensor(prices)", f"{prediction}.squeeze(1)", HEADS)) == []


VALUES = """
values = nn.Linear(4, 2)
def learn(states, actions, rewards):
    chosen = values(states).gather(1, actions.unsqueeze(1))
    best = values(states).argmax(1)
    F.mse_loss(chosen, rewards + values(states)[{index}]).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("index", "codes"),
    [("range(32), best", ["DL117"]), ("torch.arange(32), best", ["DL117"]), ("best", []), ("range(32), best, 0", [])],
)
def test_one_number_of_each_row(index: str, codes: list[str]) -> None:
    assert [each.code for each in found("DL117", HEAD + VALUES.format(index=index))] == codes


SUMMED = """
def returns_of(rewards):
    listed, running = [], 0
    for reward in reversed(rewards):
        running = reward + 0.99 * running
        listed.append(running)
    return torch.tensor(listed[::-1])

def fit(states, rewards):
    F.mse_loss(critic(states), returns_of(rewards){after}).backward()
    optimizer.step()
"""


def test_sums_over_steps_are_a_question() -> None:
    (finding,) = found("DL117", HEAD + SUMMED.format(after=""))
    assert "one number for each sample" in " ".join(each.text for each in finding.assumptions)
    assert finding.confidence == "possible"
    assert found("DL117", HEAD + SUMMED.format(after=".unsqueeze(1)")) == []


@pytest.mark.parametrize(("name", "codes"), [("rewards", ["DL117"]), ("winner_batch", ["DL117"]), ("labels", [])])
def test_names_of_numbers_are_a_question(name: str, codes: list[str]) -> None:
    source = f"""{HEAD}
def fit(states, {name}):
    F.mse_loss(critic(torch.tensor(states)), torch.tensor({name})).backward()
    optimizer.step()
"""
    findings = found("DL117", source)
    assert [each.code for each in findings] == codes
    assert all(each.confidence == "possible" for each in findings)


GRAPHS = """
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader as GraphLoader
from torch_geometric.nn import GCNConv, global_mean_pool

class Molecules(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = GCNConv(9, 64), nn.Linear(64, 1)

    def forward(self, graphs):
        nodes = self.conv(graphs.x, graphs.edge_index).relu()
        return self.out(global_mean_pool(nodes, graphs.batch))

def graphs_of(frame):
    graphs = []
    for _, row in frame.iterrows():
        nodes, edges = features_of(row["smiles"])
        graphs.append(Data(x=nodes, edge_index=edges, y=torch.tensor({label})))
    return graphs

model = Molecules()
for batch in GraphLoader(graphs_of(pd.read_csv("molecules.csv")), batch_size=32):
    F.mse_loss(model(batch), batch.y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("label", "codes"),
    [('row["y"]', ["DL117"]), ('[row["y"]]', ["DL117"]), ('[[row["y"]]]', []), ("labels_of(row)", [])],
)
def test_labels_of_graphs(label: str, codes: list[str]) -> None:
    assert [each.code for each in found("DL117", HEAD + GRAPHS.format(label=label))] == codes


PAIRS = """
states, rewards = np.zeros((1000, 4)), np.zeros(1000)
at = np.random.choice(1000, 32)
before = torch.tensor(states[at])
target = torch.tensor(rewards[at]) + 0.99 * critic(before)
F.mse_loss(critic(before), target{after}).backward()
optimizer.step()
"""


@pytest.mark.parametrize(("after", "codes"), [("", ["DL117"]), (".mean(1, keepdim=True)", [])])
def test_targets_that_were_broadcast_before(after: str, codes: list[str]) -> None:
    assert [each.code for each in found("DL117", HEAD + PAIRS.format(after=after))] == codes
