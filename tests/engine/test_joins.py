"""Wherever ways through a program meet, none of them is lost: a claim about one of them is never certain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_support import found

import dllint.interp.run
from dllint.findings import Finding
from dllint.tiers import confidence_of

HEAD = """
import torch
from torch import nn
from unseen import other, flag, table, key, numbers

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 4)

    def forward(self, x):
        return self.out(x).softmax(1)

model = Net()
bad = nn.CrossEntropyLoss()
"""
TAIL = """
for x, y in numbers:
    loss = criterion(model(x), y)
    loss.backward()
"""

# By the function of the interpreter in which the ways meet: programs in which `criterion` is `bad` on one way, and
# something unresolved on another.
JOINS: dict[str, list[str]] = {
    "_if": [
        "if flag:\n    criterion = bad\nelse:\n    criterion = other",
        "criterion = other\nif flag:\n    criterion = bad",
        "criterion = bad\nif flag and key:\n    criterion = other",
        "if flag:\n    criterion = other\nelif key:\n    criterion = other\nelse:\n    criterion = bad",
    ],
    "_try": [
        "try:\n    from unseen import loss_of as criterion\nexcept ImportError:\n    criterion = bad",
        "try:\n    other()\n    criterion = bad\nexcept ValueError:\n    criterion = other",
    ],
    "_match": [
        "match key:\n    case 'ce':\n        criterion = bad\n    case _:\n        criterion = other",
        "criterion = other\nmatch key:\n    case [1, *_]:\n        criterion = bad",
    ],
    "_if_exp": ["criterion = bad if flag else other", "criterion = other if flag else bad"],
    "_callable": [
        "def made():\n    pass\n"
        "if callable(made if flag else other):\n    criterion = bad\nelse:\n    criterion = other",
    ],
    "_len": [
        "pair = (1, 2) if flag else (1, 2, 3)\nif len(pair) == 2:\n    criterion = bad\nelse:\n    criterion = other",
        "count = len((1, 2) if flag else (1, 2, 3))\ncriterion = bad if count > 2 else other",
        "pair = (1, 2) if flag else other\nif len(pair) == 2:\n    criterion = bad\nelse:\n    criterion = other",
    ],
    "_plain": [
        "from accelerate import Accelerator\nhelper = Accelerator()\n"
        "criterion = helper.unwrap_model(helper.prepare(bad) if flag else other)",
    ],
    "_bool_op": ["criterion = other or bad", "criterion = flag and bad or other"],
    "looping": [
        "criterion = other\nfor n in numbers:\n    if n:\n        criterion = bad\n        break",
        "criterion = bad\nfor n in numbers:\n    if n:\n        criterion = other\n        continue",
    ],
    "calling": [
        "class Box:\n    pass\nbox = Box()\nbox.loss = other\ndef fill():\n    if flag:\n        box.loss = bad\n"
        "        return\n    print()\nfill()\ncriterion = box.loss",
    ],
    "_table_method": [
        "criterion = {'a': bad, 'b': other}.get(key)",
        "criterion = {'a': bad}.get(key, other)",
        "criterion = {'a': other}.get(key, bad)",
    ],
    "join_values": ["options = {'loss': other}\nif flag:\n    options['loss'] = bad\ncriterion = options['loss']"],
    "_join_items": [
        "losses = []\nif flag:\n    losses.append(bad)\nelse:\n    losses.append(other)\ncriterion = losses[0]",
    ],
    "invoke": [
        "def build():\n    if flag:\n        return bad\n    return other\ncriterion = build()",
        "def build(kind):\n    if kind == 'a':\n        return bad\n    elif kind == 'b':\n        return other()\n"
        "criterion = build(key)",
        "def build():\n    yield other\n    yield bad\ncriterion = next(build())",
    ],
    "_each_option": [
        "def one():\n    return bad\ndef two():\n    return other\ncriterion = (one if flag else two)()",
        "class One:\n    def make(self):\n        return bad\ncriterion = (One() if flag else other).make()",
    ],
    "get_item": [
        "criterion = {'a': bad, 'b': other}[key]",
        "criterion = [bad, other][key]",
        "losses = {'a': bad} if flag else {'a': other}\ncriterion = losses['a']",
    ],
    "_from_items": ["criterion = (bad, other)[key]"],
    "_any_entry": ["for criterion in {'a': bad, 'b': other}.values():\n    pass"],
    "element_of": ["criterion = next(iter([bad, other]))"],
    "_of_so_many": [
        "made = (bad, other) if flag else (other, bad) if key else (bad, bad, bad)\ncriterion, rest = made",
    ],
    "unpack": ["criterion, rest = (bad, other) if flag else (other, bad)"],
    "entries_of": ["common = {**({'loss': bad} if flag else {'loss': other})}\ncriterion = common['loss']"],
    "get_attribute": [
        "class A:\n    loss = bad\nclass B:\n    loss = other\ncriterion = (A() if flag else B()).loss",
        "criterion = getattr(table, key, bad)",
    ],
    "set_attribute": [
        "class A:\n    pass\nfirst, second = A(), A()\nfirst.loss = other\nsecond.loss = other\n"
        "(first if flag else second).loss = bad\ncriterion = first.loss",
    ],
    "_getattr": ["class A:\n    pass\na = A()\nif flag:\n    a.loss = other\ncriterion = getattr(a, 'loss', bad)"],
    "under_path": [
        "criterion = bad if key == 'a' else other\nif flag:\n    print(criterion)",
    ],
}


CASES = [
    pytest.param(program, id=f"{join}-{number}")
    for join, programs in JOINS.items()
    for number, program in enumerate(programs)
]


def _claims(program: str) -> list[Finding]:
    return found("DL101", f"{HEAD}\n{program}\n{TAIL}")


@pytest.mark.parametrize("program", CASES)
def test_a_claim_about_one_of_several_ways_is_not_certain(program: str) -> None:
    for finding in _claims(program):
        assert finding.assumptions
        assert {"alternative", "default"} & {assumption.kind for assumption in finding.assumptions}


def test_the_same_claim_is_certain_where_there_is_one_way() -> None:
    assert [confidence_of(finding.assumptions) for finding in _claims("criterion = bad")] == ["certain"]


@pytest.mark.parametrize(
    "program",
    [
        "criterion = bad if flag else nn.CrossEntropyLoss(label_smoothing=0.1)",
        "if flag:\n    criterion = bad\nelse:\n    criterion = nn.CrossEntropyLoss()",
        "def build():\n    if flag:\n        return bad\n    return nn.CrossEntropyLoss()\ncriterion = build()",
        "criterion = {'a': bad, 'b': nn.CrossEntropyLoss()}[key]",
    ],
)
def test_a_claim_that_holds_on_all_ways_is_certain(program: str) -> None:
    assert [confidence_of(finding.assumptions) for finding in _claims(program)] == ["certain"]


def test_every_place_where_ways_meet_has_programs_above() -> None:
    """A new join in the interpreter needs a program here that would lose a way in it."""
    joining = set(_functions_that_join(Path(dllint.interp.run.__file__).parent))
    elsewhere = {  # parts of those above: what they join is what a caller of theirs was asked for
        "_isinstance", "_set", "_force", "apply_last", "branch", "parts_of", "attribute_by_name", "outcome_of",
    }  # fmt: skip
    assert joining - elsewhere <= set(JOINS), sorted(joining - elsewhere - set(JOINS))


def _functions_that_join(folder: Path) -> Iterator[str]:
    for file in folder.glob("*.py"):
        for function in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if not isinstance(node, ast.Call):
                    continue
                if ast.unparse(node.func) in ("choose", "machine.branch", "self.join", "machine.join"):
                    yield function.name
