"""What is in a checkpoint is looked at piece by piece: each optimizer, and which way a prefix is changed."""

from __future__ import annotations

import textwrap

import pytest
from engine_support import kinds

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


GAN = """
import torch

def train(G, D, loader, epochs):
    opt_g = torch.optim.Adam(G.parameters())
    opt_d = torch.optim.Adam(D.parameters())
    for epoch in range(epochs):
        for x in loader:
            opt_d.zero_grad()
            (D(G(x).detach()).mean() - D(x).mean()).backward()
            opt_d.step()
            opt_g.zero_grad()
            D(G(x)).mean().backward()
            opt_g.step()
"""


def saving(code: str) -> str:
    return GAN + textwrap.indent(textwrap.dedent(code), "        ")


def test_one_of_two_optimizers_is_left_out() -> None:
    code = """
    state = {
        "G": G.state_dict(),  # DL701
        "D": D.state_dict(),
        "opt": opt_g.state_dict(),
        "epoch": epoch,
    }
    torch.save(state, "last.pt")
    """
    check("DL701", saving(code), vary=())


def test_one_of_two_optimizers_of_a_trainer_is_left_out() -> None:
    source = """
    import torch

    class Trainer:
        def __init__(self, G, D):
            self.G, self.D = G, D
            self.opt_g = torch.optim.Adam(G.parameters())
            self.opt_d = torch.optim.Adam(D.parameters())

        def save(self, epoch):
            torch.save({
                "G": self.G.state_dict(),  # DL701
                "D": self.D.state_dict(),
                "opt_d": self.opt_d.state_dict(),
            }, "last.pt")

        def train(self, loader, epochs):
            for epoch in range(epochs):
                for x in loader:
                    self.opt_d.zero_grad()
                    self.D(self.G(x).detach()).mean().backward()
                    self.opt_d.step()
                    self.opt_g.zero_grad()
                    self.D(self.G(x)).mean().backward()
                    self.opt_g.step()
                self.save(epoch)
    """
    check("DL701", source, vary=())


@pytest.mark.parametrize(
    "code",
    [
        """
        torch.save({"G": G.state_dict(), "D": D.state_dict(), "a": opt_g.state_dict(), "b": opt_d.state_dict()}, "a.pt")
        """,
        """
        torch.save({"G": G.state_dict(), "opt": opt_g.state_dict()}, "g.pt")
        torch.save({"D": D.state_dict(), "opt": opt_d.state_dict()}, "d.pt")
        """,
        """
        torch.save({"G": G.state_dict(), "D": D.state_dict(), "opt": opt_g.state_dict()}, "g.pt")
        torch.save(opt_d.state_dict(), "opt_d.pt")
        """,
        """
        torch.save({"G": G.state_dict(), "opt": opt_g.state_dict(), "epoch": epoch}, "g.pt")
        """,
        """
        opts = [opt_g, opt_d]
        torch.save({"G": G.state_dict(), "D": D.state_dict(), "opts": [opt.state_dict() for opt in opts]}, "g.pt")
        """,
        """
        opts = {"g": opt_g, "d": opt_d}
        states = {key: opt.state_dict() for key, opt in opts.items()}
        torch.save({"G": G.state_dict(), "D": D.state_dict(), "opts": states, "g": opt_g.state_dict()}, "g.pt")
        """,
    ],
)
def test_both_optimizers_are_kept(code: str) -> None:
    check("DL701", saving(code), vary=())


def test_an_optimizer_for_warming_up_is_not_needed() -> None:
    source = """
    import torch

    def train(model, loader, epochs):
        warming = torch.optim.Adam(model.parameters())
        for x in loader:
            warming.zero_grad()
            model(x).mean().backward()
            warming.step()
        optimizer = torch.optim.Adam(model.parameters())
        for epoch in range(epochs):
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")
    """
    check("DL701", source, vary=())


@pytest.mark.parametrize(
    ("loading", "expected"),
    [
        ("model.load_state_dict(torch.load('last.pt'))", []),
        ("# model.load_state_dict(torch.load('last.pt'))", ["effect"]),
    ],
)
def test_a_load_in_a_comment_loads_nothing(loading: str, expected: list[str]) -> None:
    source = """
        import torch
        from torch import nn
        from torch.utils.data import DataLoader
        loader = DataLoader(torch.load("data.pt"), batch_size=8)
        model = nn.DataParallel(nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        torch.save(model.state_dict(), "last.pt")
    """
    use = f"import torch\nmodel = torch.nn.Linear(4, 2)\n{loading}\nprint(model(torch.ones(1, 4)))\n"
    assert kinds("DL717", source, {"README.md": "", "use.py": use}) == expected
