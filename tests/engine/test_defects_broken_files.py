"""A file that Python cannot parse is looked at as far as it can be, and nothing wrong is said of the rest."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dllint.config.settings import Settings
from dllint.engine import Engine
from dllint.files.recovering import remains_of
from dllint.findings import Finding
from dllint.interp.source.facts import load_facts
from dllint.interp.source.project import Project
from dllint.registry import load_rules
from dllint.testing.checking import find_rules

BUG = """
import torch.nn.functional as F

def sound(model, x, y):
    return F.cross_entropy(F.softmax(model(x), 1), y)
"""


def findings(folder: Path, text: str) -> list[Finding]:
    """The findings of DL101 and of the engine."""
    (folder / "main.py").write_text(text, "utf-8")
    rules = find_rules(["DL101"], load_rules())
    project = Project(folder)
    engine = Engine(load_facts(), rules, Settings(folder, frozenset(["DL101"])))
    return engine.analyse(project.load(folder / "main.py"), project).findings


BROKEN = {
    "print": "def show(x):\n    print 'x', x\n",
    "print over lines": "def show(x):\n    print 'a %s' % (x,\n        x)\n",
    "print with a comment": "def show(x):\n    print x # what\n",
    "exception": "try:\n    import this\nexcept ImportError, error:\n    print error\n",
    "raise": "def fail():\n    raise ValueError, 'no'\n",
    "conflict": "<<<<<<< HEAD\nlr = 0.1\n=======\nlr = 0.2\n>>>>>>> other\n",
    "conflict with a base": "<<<<<<< HEAD\nlr = 0.1\n||||||| base\nlr = 3\n=======\nlr = 0.2\n>>>>>>> other\n",
    "template": "class {{ name }}(Base):\n    def f(self):\n        return 1\n",
    "template statement": "{% if amp %}\nscaler = 1\n{% endif %}\n",
    "header": "if x = 3:\n    y = 1\nelse:\n    y = 2\n",
    "loop": "def run(xs):\n    for x in in xs:\n        if x:\n            y = x\n    return 1\n",
    "parameters": "def f(a, (b, c)):\n    d = b\n    return d\n",
    "bracket": "def f(a):\n    b = g(a, h(a)\n    return b\n",
    "too many brackets": "x = f(1))\n",
    "indentation": "def f(a):\n    b = 1\n      c = 2\n    return b\n",
    "no body": "def f(a):\n\ndef g(b):\n    return b\n",
    "try alone": "def f(a):\n    try:\n        b = 1\n    return b\n",
    "backticks": "x = `1`\n",
    "operator": "def f(a):\n    if a <> 1:\n        return 2\n    return 3\n",
    "string": "x = 'never closed\n",
    "end": "def f(a):\n    return (a,\n",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("is_first", [True, False])
def test_the_rest_of_a_broken_file_is_looked_at(tmp_path: Path, broken: str, is_first: bool) -> None:
    text = broken + BUG if is_first else BUG + broken
    found = findings(tmp_path, text)
    assert sorted(finding.code for finding in found) == ["DL001", "DL101"]
    bug = next(finding for finding in found if finding.code == "DL101")
    assert "softmax" in text.split("\n")[bug.location.line - 1] and not bug.fixes


@pytest.mark.parametrize(
    "text",
    [
        """
        def train(model, x, y):
            out = F.softmax(model(x), 1)
            out = = undo(out)
            return F.cross_entropy(out, y)
        """,
        """
        def train(model, x, y):
            out = F.softmax(model(x), 1)
        <<<<<<< HEAD
            out = x
        =======
            out = out.log()
        >>>>>>> other
            return F.cross_entropy(out, y)
        """,
        """
        out = F.softmax(model(x), 1)
        out = = undo(out)
        loss = F.cross_entropy(out, y)
        """,
        """
        out = F.softmax(model(x), 1)
        if x = 3:
            out = undo(out)
        loss = F.cross_entropy(out, y)
        """,
        """
        def undo(out):
            out = = out.log()
            return out

        def train(model, x, y):
            return F.cross_entropy(undo(F.softmax(model(x), 1)), y)
        """,
        """
        def last(model, x):
            return F.softmax(model(x), 1)
              + 1

        def train(model, x, y):
            return F.cross_entropy(last(model, x), y)
        """,
        """
        class {{ Net }}(nn.Module):
            def forward(self, x):
                return F.softmax(x, 1)

        def train(x, y):
            return F.cross_entropy(Net()(x), y)
        """,
    ],
)
def test_nothing_is_said_of_what_lost_something(tmp_path: Path, text: str) -> None:
    found = findings(tmp_path, "import torch.nn.functional as F\nfrom torch import nn\n" + textwrap.dedent(text))
    assert [finding.code for finding in found] == ["DL001"]


def test_a_stray_quotation_mark_swallows_code(tmp_path: Path) -> None:
    text = """
    def train(model, x, y):
        out = F.softmax(model(x), 1)
        '''
        out = out.log()
        return F.cross_entropy(out, y)

    def other():
        '''What it does.'''
    """
    found = findings(tmp_path, "import torch.nn.functional as F\n" + textwrap.dedent(text))
    assert [finding.code for finding in found] == ["DL001"]


def test_print_statements_cost_nothing(tmp_path: Path) -> None:
    text = """
    import torch.nn.functional as F

    def train(model, x, y):
        print "training", x
        loss = F.cross_entropy(F.softmax(model(x), 1), y)
        print loss,
        return loss
    """
    found = findings(tmp_path, textwrap.dedent(text))
    assert [finding.code for finding in found] == ["DL001", "DL101"]


@pytest.mark.parametrize("text", ["(" * 50 + "\n", "1 2\n" * 3000, '"""\n' + "a b\n" * 500, "if x:\n" * 20 + "y y"])
def test_what_is_no_python_at_all_is_given_up(text: str) -> None:
    remains = remains_of(text)
    assert remains is None or remains.is_incomplete


TRAINING = """
import torch

model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.load("batches.pt"):
    optimizer.zero_grad()
    sound(model, x, y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("broken", "tier"), [("", "certain"), ("%time 2 + 2\n", "possible")])
def test_who_acts_on_what_is_found_has_to_mend_the_file(tmp_path: Path, broken: str, tier: str) -> None:
    script = BUG + TRAINING
    assert [each.confidence for each in findings(tmp_path, script + broken) if each.code == "DL101"] == [tier]
