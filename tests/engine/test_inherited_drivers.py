"""What a base class of the project does with the methods of a class is done with these methods."""

from __future__ import annotations

import pytest

from dllint.testing import check

BASE = """
from abc import abstractmethod


class Base:
    def __init__(self, model, loader):
        self.model = model
        self.loader = loader

    @abstractmethod
    def compute_loss(self, images, target):
        raise NotImplementedError

    def run_epoch(self):
        for images, target in self.loader:
            loss = self.compute_loss(images, target)
            loss.backward()
            self.optimizer.step(){mark}

    def fit(self):
        for epoch in range(10):
            self.run_epoch()
"""
OWN = """
import torch
from torch.nn import functional as F


class Learner(Base):
    def __init__(self, model, loader):
        super().__init__(model, loader)
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def compute_loss(self, images, target):
        {clear}
        return F.cross_entropy(self.model(images), target)
"""


def own(clear: str) -> str:
    return OWN.replace("{clear}", clear)


def base(mark: str = "") -> str:
    return BASE.replace("{mark}", mark)


def test_the_driver_of_a_base_class_runs_with_the_methods_of_a_class_derived_from_it() -> None:
    bug = "  # DL202"
    check("DL202", base(bug) + own("pass"), vary=())
    check("DL202", base() + own("self.optimizer.zero_grad()"), vary=())


def test_the_base_class_may_stand_in_another_file() -> None:
    together = "from base import Base\n" + own("pass")
    check("DL202", together, files={"base.py": base("  # DL202")}, vary=())
    check("DL202", together.replace("pass", "self.optimizer.zero_grad()"), files={"base.py": base()}, vary=())


@pytest.mark.parametrize(("middle", "is_reported"), [("pass", True), ("self.optimizer.zero_grad()", False)])
def test_classes_between_the_two_take_part(middle: str, is_reported: bool) -> None:
    source = base("  # DL202" if is_reported else "") + own("self.prepare()").replace("(Base)", "(Middle)")
    between = f"\n\nclass Middle(Base):\n    def prepare(self):\n        {middle}\n"
    check("DL202", source.replace("\n\nimport torch", between + "\n\nimport torch", 1), vary=())


def test_what_the_class_calls_by_itself_is_not_run_again() -> None:
    called = "\n\nLearner(torch.nn.Linear(4, 2), given.loader).fit()\n"
    check("DL202", base("  # DL202") + own("pass") + called, vary=())
