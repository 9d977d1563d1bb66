"""A call that Python refuses ends the path: nothing after it happens."""

from __future__ import annotations

import pytest
from engine_support import found

from dllint.testing import check

HEAD = """
import functools

import torch
from torch import nn
from torch.nn import functional as F


class Trainer:
    def __init__(self, model, rate=0.1):
        self.model = model

    def step(self, batch, *, scale):
        return batch

    @classmethod
    def make(cls, model):
        return cls(model)

    @staticmethod
    def plain(model):
        return model


class Net(nn.Module):
    def forward(self, x):
        return x


class Inherits(Trainer):
    pass


def two(a, b, c=0):
    return a


def any_of(*args, **kwargs):
    return args


def twice(function):
    return lambda *args: function(*args, None)


@twice
def decorated(a, b):
    return a


trainer = Trainer(None)
net = Net()
logits = torch.randn(4, 10, requires_grad=True)
target = torch.tensor([1, 2, 3, 4])
"""
BUG = "F.cross_entropy(F.softmax(logits, dim=1), target).backward()"
MARK = "  # DL101"

REFUSED = [
    "two(1)",
    "two(1, 2, 3, 4)",
    "two(1, 2, d=3)",
    "two(1, a=2)",
    "two(1, 2, 3, c=4)",
    "x = [two(1)]",
    "trainer.step(1)",
    "trainer.step(1, 2)",
    "trainer.step(1, scale=2, other=3)",
    "Trainer()",
    "Trainer(1, 2, 3)",
    "Inherits()",
    "Trainer.make()",
    "Trainer.plain()",
    "trainer.plain(1, 2)",
    "net(1, 2)",
    "net()",
    "(lambda a: a)()",
    "two(two(1), 2)",
    "print(1 if two(1) else 2)",
    "print(two(1) if logits.sum() > 0 else two(2))",
    "def outer():\n    inner()\ndef inner():\n    two(1)\nouter()",
    "if two(1):\n    pass",
    "with two(1):\n    pass",
    "for i in two(1):\n    pass",
    "[nn.Linear(1, 1)](logits)",
    "layers = {'a': net}\nlayers(logits)",
    "torch.optim.SGD(net.parameters(), 0.1)(logits)",
    "nn.Embedding([10, 4])",
    "nn.Linear(4)",
    "nn.Linear(out_features=3)",
    "layers = nn.Sequential(nn.Conv2d(3, 8), nn.ReLU())",
    "class Deep(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.table = nn.Embedding([10, 4])\nDeep()",
    "first, second, third = 1, 2",
    "def load(a):\n    if a:\n        return 1, 2\n    return 3, 4\nx, y, z = load(target.sum())",
    "def pair():\n    return net, trainer\nnet, trainer, rest = pair()",
    "for first, second in [(1, 2, 3)]:\n    pass",
    "first, (second, third) = 1, (2, 3, 4)",
]
MADE = [
    "nn.Embedding(10, 4)",
    "nn.Linear(4, out_features=3)",
    "nn.Linear(*[4])",
    "nn.Linear(**{'in_features': 4})",
    "nn.LazyLinear(4)",
    "first, second = 1, 2",
    "first, *rest = 1, 2, 3",
    "first, second, third = any_of(1, 2)",
    "first, second = (1, *logits)",
    "first, second = [1, 2, 3]",
    "def either():\n    if logits.sum() > 0:\n        return 1, 2\n    return 1, 2, 3\nfirst, second = either()",
    "try:\n    first, second = 1, 2, 3\nexcept ValueError:\n    pass",
    "two(1, 2)",
    "two(b=1, a=2)",
    "any_of(1, 2, x=3)",
    "two(*[1])",
    "two(**{})",
    "trainer.step(1, scale=2)",
    "Inherits(1)",
    "Trainer.make(1)",
    "Trainer.plain(1)",
    "trainer.plain(1)",
    "Trainer.step(trainer, 1, scale=2)",
    "net(1)",
    "decorated(1)",
    "functools.partial(two, 1)(2)",
    "print(two(1) if logits.sum() > 0 else 2)",
    "if logits.sum() > 0:\n    two(1)",
    "nn.ModuleList([net])[0](logits)",
    "try:\n    two(1)\nexcept TypeError:\n    print('no')",
    "Trainer.step = two\ntrainer.step(1, 2)",
    "class Made:\n    def __new__(cls, *args):\n        return object.__new__(cls)\n"
    "    def __init__(self):\n        pass\nMade(1)",
    "class Meta(type):\n    def __call__(cls, *args):\n        return 1\nclass Of(metaclass=Meta):\n"
    "    def __init__(self):\n        pass\nOf(1)",
    "class First:\n    def __init__(self, a):\n        pass\nclass Mixed(nn.Module, First):\n    pass\nMixed()",
    "class Either:\n    if torch.__version__ > '2':\n        def run(self):\n            pass\n"
    "    else:\n        def run(self, a):\n            pass\nEither().run()",
]


@pytest.mark.parametrize("call", REFUSED)
def test_nothing_happens_after_a_call_that_is_refused(call: str) -> None:
    check("DL101", f"{HEAD}\n{BUG}{MARK}\n{call}\n{BUG}\n", vary=())


@pytest.mark.parametrize("call", MADE)
def test_a_call_that_may_be_made_ends_nothing(call: str) -> None:
    check("DL101", f"{HEAD}\n{call}\n{BUG}{MARK}\n", vary=())


def test_a_handler_takes_over_where_a_call_is_refused() -> None:
    body = f"try:\n    two(1)\n    {BUG}\nexcept TypeError:\n    {BUG}{MARK}\n{BUG}{MARK}\n"
    check("DL101", f"{HEAD}\n{body}", vary=())


TRAINING = """
def train(model, loader, optimizer):
    for images, labels in loader:
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        {call}
        optimizer.step(){mark}
        {clear}

train(net, torch.utils.data.DataLoader(data), torch.optim.SGD(net.parameters(), 0.1))
"""


def test_what_is_missing_after_a_refused_call_is_not_missed() -> None:
    codes = ["DL201", "DL202"]
    check(codes, HEAD + TRAINING.format(call="two(1)", clear="optimizer.zero_grad()", mark=""), vary=())
    check(codes, HEAD + TRAINING.format(call="two(1)", clear="pass", mark=""), vary=())
    check(codes, HEAD + TRAINING.format(call="two(1, 2)", clear="pass", mark="  # DL202"), vary=())


def test_a_question_about_a_call_that_cannot_be_made() -> None:
    source = """
    import numpy as np
    from torch.utils.data import DataLoader


    def seed_worker():
        np.random.seed(0)


    loader = DataLoader(given.data, num_workers=2, worker_init_fn=seed_worker)
    for batch in loader:
        print(batch)
    """
    check("DL402", source, vary=())


@pytest.mark.parametrize(("begins", "expected"), [("import lpips", 0), ("import torch", 1)])
def test_a_file_that_wraps_a_library_of_its_name_is_not_that(begins: str, expected: int) -> None:
    files = {
        "README.md": "# Scores\n",
        "scores/all.py": "import lpips\n\ndef score(x):\n    return lpips.LPIPS(net='alex')(x)\n",
        "scores/lpips.py": f"{begins}\n\ndef LPIPS(path):\n    return path\n",
    }
    main = "import torch\nfrom scores.all import score\n\nif __name__ == '__main__':\n    score(torch.ones(2))\n"
    assert len(found("DL843", main, files)) == expected
