"""Arms of which only one ever happens are judged one by one, in whatever order they stand."""

from __future__ import annotations

import textwrap

import pytest

from dllint.testing import check

HEAD = """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(4, 2)
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler()
for i, (x, y) in enumerate(loader):
"""
SCALED = """
optimizer.zero_grad()
scaler.scale(criterion(model(x), y)).backward()
scaler.step(optimizer)
scaler.update()
"""


def arms(test: str, first: str, second: str) -> str:
    inner = "\n".join([f"if {test}:", textwrap.indent(first, "    "), "else:", textwrap.indent(second, "    ")])
    return HEAD + textwrap.indent(inner, "    ")


def in_both_orders(code: str, test: str, first: str, second: str) -> None:
    check(code, arms(test, first, second), vary=())
    check(code, arms(f"not {test}", second, first), vary=())


def test_accumulation_in_one_arm() -> None:
    summed = """
    criterion(model(x), y).backward()  # DL210
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
    """
    in_both_orders("DL210", "args.amp", SCALED, textwrap.dedent(summed))


def test_one_arm_never_clears() -> None:
    summed = """
    criterion(model(x), y).backward()
    optimizer.step()  # DL202
    """
    in_both_orders("DL202", "args.amp", SCALED, textwrap.dedent(summed))


def test_one_arm_never_steps() -> None:
    idle = """
    optimizer.zero_grad()
    criterion(model(x), y).backward()  # DL201
    """
    in_both_orders("DL201", "args.amp", SCALED, textwrap.dedent(idle))


@pytest.mark.parametrize("code", ["DL201", "DL202", "DL210"])
def test_arms_that_both_do_it_are_no_bug(code: str) -> None:
    plain = "optimizer.zero_grad()\ncriterion(model(x), y).backward()\noptimizer.step()"
    in_both_orders(code, "args.amp", SCALED, plain)


@pytest.mark.parametrize("code", ["DL201", "DL202"])
@pytest.mark.parametrize("test", ["i % 2", "i % 4 == 0", "random.random() < 0.5", "phase == 0"])
def test_arms_that_take_turns_go_together(code: str, test: str) -> None:
    loss = "phase = 1 - i\nloss = criterion(model(x), y)\nloss.backward()\n"
    inner = f"if {test}:\n    optimizer.step()\nelse:\n    optimizer.zero_grad()"
    check(code, "import random\n" + HEAD + textwrap.indent(loss + inner, "    "), vary=())


def test_a_flag_that_methods_turn_is_no_decision() -> None:
    source = """
    import torch

    class Agent:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            self.starting = True

        def turn(self):
            self.starting = not self.starting

        def train(self, loader):
            for x, y in loader:
                self.turn()
                torch.nn.functional.cross_entropy(self.model(x), y).backward()
                if self.starting:
                    self.optimizer.step()
                else:
                    self.optimizer.zero_grad()
    """
    check("DL202", source, vary=())


def test_what_a_helper_is_told_in_each_iteration_is_no_decision() -> None:
    source = """
    import torch

    def act(optimizer, clear):
        if clear:
            optimizer.zero_grad()
        else:
            optimizer.step()

    def train(model, loader, flags):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x, y), flag in zip(loader, flags):
            torch.nn.functional.cross_entropy(model(x), y).backward()
            act(optimizer, flag)
    """
    check("DL202", source, vary=())
