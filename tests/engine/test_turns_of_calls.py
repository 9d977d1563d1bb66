"""What a function compares that a loop calls is another thing in each turn; a flag that it reads stays what it is."""

from __future__ import annotations

import pytest
from engine_support import found

SCRIPT = """
import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, net, loader, options):
        self.net, self.loader, self.options = net, loader, options
        self.optimizer = torch.optim.Adam(net.parameters())
        self.best, self.kept = 9.0, None

    def epoch(self, limit):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.net(x), y).backward()
            self.optimizer.step()
        loss = measured(self.net)
        {test}
            self.kept = self.net.state_dict()

    def fit(self):
        for number in range(20):
            self.epoch(number * 0.1)
        self.net.load_state_dict(self.kept)


trainer = Trainer(torch.nn.Linear(8, 2), read_loader(), read_options())
trainer.fit()
trainer.net(read_image())
"""


@pytest.mark.parametrize(
    "test", ["if loss < self.best:", "if self.best > loss:", "if limit > 1:", "if is_better(loss):"]
)
def test_a_comparison_is_made_anew(test: str) -> None:
    assert len(found("DL719", SCRIPT.format(test=test))) == 1


@pytest.mark.parametrize(("word", "findings"), [("--resume", 1), ("-resume", 1), ("resume", 0)])
def test_a_word_of_the_command_line_is_off_by_default(word: str, findings: int) -> None:
    script = f"""
import sys
import torch
import torch.nn.functional as F

net = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(net.parameters())
first = 0
if "{word}" in sys.argv:
    read = torch.load("last.pt")
    net.load_state_dict(read["net"])
    optimizer.load_state_dict(read["optimizer"])
    first = read["epoch"] + 1
for epoch in range(first, 9):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    torch.save({{"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}}, "last.pt")
"""
    assert len(found("DL703", script)) == findings


@pytest.mark.parametrize("test", ["if True:", "if self.options.keep:", "if limit == 1.9:"])
def test_what_is_asked_in_the_same_way_in_each_turn(test: str) -> None:
    assert not found("DL719", SCRIPT.format(test=test))
