"""What a test of a type decides: only what a value certainly is, or certainly is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

PROGRAM = """
from elsewhere import load

def convert(value):
    return value

given, other = load("a"), load("b")
if isinstance({value}, {kind}):
    convert(given, other)
"""


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("given | other", "tuple"),
        ("given.params | {'term': other}", "(tuple, list)"),
        ("given.weight - other", "list"),
        ("-given", "str"),
        ("given @ other", "tuple"),
    ],
)
def test_what_an_operator_gives_is_no_sequence(tmp_path: Path, value: str, kind: str) -> None:
    assert not run(tmp_path, PROGRAM.format(value=value, kind=kind)).all_of(CallRefused)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("given", "tuple"),
        ("given + other", "tuple"),
        ("given * 2", "list"),
        ("given % other", "str"),
        ("given | other", "dict"),
        ("given | other", "(tuple, dict)"),
        ("given(other)", "tuple"),
    ],
)
def test_other_tests_may_hold(tmp_path: Path, value: str, kind: str) -> None:
    assert run(tmp_path, PROGRAM.format(value=value, kind=kind)).all_of(CallRefused)


CALLED = """
import torch
from elsewhere import load

class Net(torch.nn.Module):
    def predict(self, x):
        return x

class Other(Net):
    pass

model = Net() if load("a") else Other()
given = {value}
if callable(given):
    given(1)
elif given is not None:
    given(1, 2)
"""


@pytest.mark.parametrize("value", ["model.predict", "model.predict if load('b') else Net().predict"])
def test_a_method_of_one_of_several_objects_can_be_called(tmp_path: Path, value: str) -> None:
    assert not run(tmp_path, CALLED.format(value=value)).all_of(CallRefused)


CLASSES = """
from elsewhere import Other, load

class Agent:
    def describe(self):
        if isinstance(self, Learner):
            return convert(1, 2)

class Actor(Agent):
    pass

class Learner(Agent):
    pass

class Guest(load("guest"), Agent):
    pass

def convert(value):
    return value

def look(agent):
    if isinstance(agent, {kind}):
        return convert(agent, 1)

{call}
"""


@pytest.mark.parametrize(
    ("kind", "call", "is_reached"),
    [
        ("Learner", "look(Actor())", False),
        ("(Learner, Guest)", "look(Actor())", False),
        ("Agent", "look(Actor())", True),
        ("(Learner, Actor)", "look(Actor())", True),
        ("Learner", "look(Guest())", True),  # which may be one, for all that is known of its bases
        ("Learner", "Agent().describe()", True),  # as somebody may call it on an object of a class below
        ("Other", "look(Actor())", True),
    ],
)
def test_an_object_of_one_class_is_none_of_another(tmp_path: Path, kind: str, call: str, is_reached: bool) -> None:
    program = CLASSES.format(kind=kind, call=call)
    assert bool(run(tmp_path, program).all_of(CallRefused)) is is_reached
