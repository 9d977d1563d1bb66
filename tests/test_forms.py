"""The forms of symbols are all told, and asked for by functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from dllint.forms import FORMS, attribute_of, element_of
from dllint.values import Const, Symbol

PACKAGE = Path(__file__).resolve().parent.parent / "dllint"


def _made() -> Iterator[tuple[str, str]]:
    """The names that code gives to symbols, each with the file it is in."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Symbol" and node.args:
                name = getattr(node.args[0], "value", None)
                if isinstance(name, str):
                    yield name, path.name


def test_each_form_is_told_and_made_somewhere() -> None:
    made = {name: file for name, file in _made() if name.replace("-", "_").isidentifier()}
    assert not {name: file for name, file in made.items() if name not in FORMS}
    by_name = {"state_dict"}  # a method of models that is handed on under its own name
    assert set(FORMS) - set(made) <= by_name


def test_questions_of_forms() -> None:
    model = Symbol("parameter", detail="model")
    head = Symbol("attribute", (model,), detail="head")
    assert attribute_of(head) is attribute_of(head, "tail", "head") is model
    assert attribute_of(head, "tail") is attribute_of(model) is attribute_of(Const(3)) is attribute_of(None) is None
    assert element_of(Symbol("element", (model,))) is model
    assert element_of(head) is element_of(Const(3)) is element_of(None) is None
