"""What is found in a script that certainly fails is a question, unless the failure itself is what is reported."""

from __future__ import annotations

import pytest

from dllint.registry import load_rules
from dllint.testing.linting import Setup, lint

RULES = Setup([rule for rule in load_rules() if rule.code in ("DL843", "DL846")])
SCRIPT = """
import argparse
import torch
from library import build

def main(args):
    model = build({body})
    torch.optim.AdamW(model.parameters(), lr=1e-3)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--width", type=int, default=64)
    {more}
    args = parser.parse_args()
    main(args)
"""


def tiers(body: str, more: str = "") -> dict[str, str]:
    """How sure each finding is: a question, or not, whether or not its rule is proven by now."""
    (linted,) = lint({"main.py": SCRIPT.replace("{body}", body).replace("{more}", more)}, RULES)
    sure = {finding.code: finding.confidence for finding in linted.findings}
    return {code: "likely" if each == "certain" else each for code, each in sure.items()}


def test_a_script_that_goes_on() -> None:
    assert tiers("args.depth") == {"DL846": "likely"}


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("args.depth, args.vocabulary", ""),
        ("args.depth", "parser.add_argument('--depth', type=int)"),
    ],
)
def test_a_script_that_fails(body: str, more: str) -> None:
    assert tiers(body, more) == {"DL846": "possible"}


def test_who_imports_a_script_has_none_of_what_is_below_its_main_guard() -> None:
    script = SCRIPT.replace("{body}", "args.depth, args.vocabulary").replace("{more}", "")
    linted = lint({"main.py": script, "other.py": "from main import main\nmain(None)\n"}, RULES)
    assert [each.confidence for one in linted for each in one.findings if each.code == "DL846"] == ["possible"]


def test_a_script_whose_failure_is_reported() -> None:
    assert tiers("main(args.depth, 3)") == {"DL843": "likely", "DL846": "likely"}


RUN = """
import torch
import torch.nn.functional as F

def prepare():
    return 0.1

def run(model, x, y):
    return F.cross_entropy(F.softmax(model(x), 1), y)

if __name__ == "__main__":
    prepare(3)
    run(None, None, None)
"""


@pytest.mark.parametrize(
    ("user", "tier"),
    [
        ("from runs import losses\nfor name in losses.NAMES:\n    train = name\n", "possible"),
        ("from runs import losses, train\ntrain.run(losses, None, None)\n", "likely"),
        ("from runs.train import run\nrun(None, None, None)\n", "likely"),
        ("import runs.train as training\ntraining.run(None, None, None)\n", "likely"),
    ],
)
def test_only_who_imports_a_script_goes_on_with_what_is_in_it(user: str, tier: str) -> None:
    """A word that is the name of the script is no import of it."""
    files = {"runs/train.py": RUN, "runs/losses.py": "NAMES = ()\n", "use.py": user}
    linted = lint(files, Setup([rule for rule in load_rules() if rule.code == "DL101"]))
    assert [each.confidence.replace("certain", "likely") for one in linted for each in one.findings] == [tier]


TRAINING = """
import torch
import torch.nn as nn
import torch.nn.functional as F

model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(loader):
    for epoch in range(10):
        for x, y in loader:
            loss = F.cross_entropy(F.softmax(model(x), 1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {inside}
    {after}

if __name__ == "__main__":
    train(torch.load("data.pt"))
    {last}
"""


def tier_in_training(inside: str = "pass", after: str = "pass", last: str = "pass") -> str:
    """How sure it is that a loss gets probabilities."""
    return tier_with(TRAINING, inside=inside, after=after, last=last)


def tier_with(code: str, **texts: str) -> str:
    """How sure DL101 is in a script, in which texts are put where their names stand in braces."""
    rules = Setup([rule for rule in load_rules() if rule.code == "DL101"])
    for name, text in texts.items():
        code = code.replace(f"{{{name}}}", text)
    (linted,) = lint({"main.py": code, "README.md": "# Nets"}, rules)
    (finding,) = linted.findings
    return str(finding.confidence)


def test_training_that_fails_in_its_first_round() -> None:
    assert tier_in_training() != "possible"
    assert tier_in_training("print(loss.item(), 'of', os.getcwd())") == "possible"
    assert tier_in_training("print(f\"{loss.item():.4f if loss else 'N/A'}\")") == "possible"


def test_what_is_trained_to_the_end_is_trained() -> None:
    assert tier_in_training(after="print(os.getcwd())") != "possible"
    assert tier_in_training(last="print(os.getcwd())") != "possible"
    assert tier_in_training("print(epoch)\n        if epoch > 5:\n            print(os.getcwd())") != "possible"


MODES = """
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 3)

    def forward(self, x):
        {forward}
        return self.last(x)

def train(args, loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for x, y in loader:
            loss = F.cross_entropy(F.softmax(model(x), 1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {inside}
    {after}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode")
    args = parser.parse_args()
    if args.mode == "train":
        train(args, torch.load("data.pt"))
        {then}
    else:
        print(args.mode)
"""


def tier_in_mode(inside: str = "pass", after: str = "pass", then: str = "pass", forward: str = "pass") -> str:
    """How sure it is that a loss gets probabilities, in one of the modes of a script."""
    return tier_with(MODES, inside=inside, after=after, then=then, forward=forward)


def test_a_mode_that_fails() -> None:
    assert tier_in_mode() != "possible"
    assert tier_in_mode("print(os.getcwd())") == "possible"
    assert tier_in_mode("print(f\"{loss.item():.4f if loss else 'N/A'}\")") == "possible"


def test_a_mode_that_may_end_before_it_fails() -> None:
    assert tier_in_mode("if epoch == 3:\n            return\n        print(os.getcwd())") != "possible"
    assert tier_in_mode("if epoch == 3:\n            break\n        print(os.getcwd())") == "possible"  # in the others


def test_a_mode_that_has_trained() -> None:
    assert tier_in_mode(after="print(os.getcwd())") != "possible"
    assert tier_in_mode(then="print(os.getcwd())") != "possible"


def test_a_model_that_fails() -> None:
    assert tier_in_mode(forward="x = self.first(x)") == "possible"
    assert tier_in_mode(forward="x = self.last(x, os.sep)") == "possible"
    assert tier_in_mode(forward="x = self.last(x) if x is None else x") != "possible"
    assert tier_in_mode(forward="if self.training:\n            return x\n        x = self.first(x)") != "possible"


def test_what_is_called_where_it_fails_is_lost() -> None:
    rules = Setup([rule for rule in load_rules() if rule.code == "DL207"])
    script = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x), x, x

def evaluate(model, loader):
    with torch.no_grad():
        for x in loader:
            NAMES = model(x)
            print(one)

if __name__ == "__main__":
    model = Net()
    model.load_state_dict(torch.load("net.pt"))
    evaluate(model, torch.load("data.pt"))
"""
    for names, tier in (("one, *rest", "likely"), ("one, two", "possible")):
        (linted,) = lint({"main.py": script.replace("NAMES", names), "README.md": "# Nets"}, rules)
        assert [each.confidence for each in linted.findings] == [tier]


RESUMING = """
import argparse
import torch

class Options:
    depth = 3

def load(path):
    checkpoint = torch.load(path)
    return checkpoint["args"].depth, checkpoint

def main(args):
    {before}
    if args.resume:
        model, state = load(args.checkpoint)
        {arm}
    else:
        network = torch.nn.Linear(3, 3)
    {after}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--checkpoint")
    main(parser.parse_args())
"""


def tier_of_branch(after: str, arm: str = "pass", before: str = "pass") -> str:
    """How sure it is that a file is refused which one branch reads."""
    rules = Setup([rule for rule in load_rules() if rule.code == "DL718"])
    code = RESUMING.replace("{after}", after).replace("{arm}", arm).replace("{before}", before)
    (linted,) = lint({"main.py": code, "README.md": "# Nets"}, rules)
    (finding,) = linted.findings
    told = " ".join(str(each) for each in finding.assumptions)
    return "fails" if "this branch does not bind" in told else "goes on"


def test_a_branch_after_which_a_name_is_missing() -> None:
    assert tier_of_branch("print(network)") == "fails"
    assert tier_of_branch("for each in network.parameters():\n        print(each)") == "fails"


@pytest.mark.parametrize(
    ("after", "arm", "before"),
    [
        ("print(args.resume)", "pass", "pass"),
        ("print(network)", "network = model", "pass"),
        ("print(network)", "return model", "pass"),
        ("print(network)", "pass", "network = None"),
        ("if not args.resume:\n        print(network)", "pass", "pass"),
        ("print(args.resume or network)", "pass", "pass"),
        ("if args.resume:\n        return\n    print(network)", "pass", "pass"),
    ],
)
def test_a_branch_that_goes_on(after: str, arm: str, before: str) -> None:
    assert tier_of_branch(after, arm, before) == "goes on"


def test_cells_are_run_in_any_order() -> None:
    rules = Setup([rule for rule in load_rules() if rule.code == "DL843"])
    code = "# %%\nimport torch\nfrom library import build\n\n# %%\ndef two(a, b):\n    return a\n\n{}two(1)\n"
    for mark, tier in (("", "likely"), ("# %%\n", "possible")):
        text = code.format(mark) if mark else code.format("").replace("# %%\n", "")
        (linted,) = lint({"main.py": text}, rules)
        assert [each.confidence for each in linted.findings] == [tier]


def test_a_script_that_fails_after_a_branch_whose_failure_is_reported() -> None:
    """What is reported mends one way through it alone."""
    found = tiers("args.vocabulary", "if torch.cuda.is_available():\n        main(1, 2)")
    assert found == {"DL843": "likely", "DL846": "possible"}
