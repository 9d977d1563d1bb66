"""Edits of calls: the right change, valid code, comments and line ends kept."""

from __future__ import annotations

import ast

import pytest
from editing import HERE, applied

from dllint.files.source import SourceFile, source_from_text
from dllint.syntax.edits import (
    remove_call_wrapper,
    remove_last_item,
    remove_method_call,
    rename_callee,
    replace_call_argument,
)


def call_in(text: str, callee: str = "softmax") -> tuple[SourceFile, ast.Module, ast.Call]:
    """The only call of a function in a text."""
    source = source_from_text(text, HERE)
    tree = ast.parse(text)
    (call,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (ast.unparse(node.func) == callee or ast.unparse(node.func).endswith(f".{callee}"))
    )
    return source, tree, call


def unwrapped(text: str, argument: int | str = 0) -> str:
    source, _, call = call_in(text)
    if isinstance(argument, int):
        value = call.args[argument]
    else:
        value = next(keyword.value for keyword in call.keywords if keyword.arg == argument)
    return applied(source, remove_call_wrapper(source, call, value))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss = ce(softmax(x, dim=1), y)", "loss = ce(x, y)"),
        ("loss = ce(F.softmax(x, dim = 1), y)", "loss = ce(x, y)"),
        ("loss = ce(input=F . softmax (x))", "loss = ce(input=x)"),
        ("p = softmax(a + b, 1)", "p = a + b"),
        ("p = softmax(a + b, 1)  # why\nq = 1\n", "p = a + b  # why\nq = 1\n"),
        ("p = softmax(a + b, 1) * 2", "p = (a + b) * 2"),
        ("p = -softmax(a + b, 1)", "p = -(a + b)"),
        ("ce(x=softmax(a + b), y=softless(c))", "ce(x=a + b, y=softless(c))"),
        ("p = (softmax(a + b)\n     * 2)", "p = ((a + b)\n     * 2)"),
        ("return_ = softmax(lambda: 1)", "return_ = lambda: 1"),
        ("p = softmax((a, b), 1)[0]", "p = ((a, b))[0]"),
        ("p = softmax(((a)), 1)", "p = ((a))"),
        ("p = (softmax)(x)", "p = x"),
        ("p = softmax(1).real", "p = (1).real"),
        ("p = softmax(model(x), dim=1).sum()", "p = model(x).sum()"),
        ("p = x if softmax(y)else z", "p = x if y else z"),
        ("p = x in(softmax)(y)", "p = x in y"),
        ("p = softmax(y := f(x))", "p = (y := f(x))"),
        ("f(softmax(x for x in y))", "f(softmax(x for x in y))"),
        ("f(softmax((x for x in y), 1))", "f((x for x in y))"),
        ("f(softmax(*x))", "f(softmax(*x))"),
        ("p = softmax(\n    a\n    + b,\n    dim=1,\n)", "p = (a\n    + b)"),
        ("g(\n\tsoftmax(\n\t\ta\n\t\t+ b,\n\t),\n)", "g(\n\ta\n\t\t+ b,\n)"),
        ("g(softmax(  # to probabilities\n    x, dim=1), y)", "g((  # to probabilities\n    x), y)"),
        ("g(softmax(x,  # raw\n    dim=1))", "g((x  # raw\n))"),
        ("p = softmax(x, '#', dim='''# no\ncomment''')", "p = x"),
        ("é = '🎉', softmax(logits, 1), '🎉'\r\n", "é = '🎉', logits, '🎉'\r\n"),
    ],
)
def test_a_call_gives_way_to_its_argument(before: str, after: str) -> None:
    assert unwrapped(before) == after
    ast.parse(after)


def test_any_argument_can_be_the_one() -> None:
    assert unwrapped("p = softmax((1), input=(x), dim=1)", "input") == "p = (x)"
    assert unwrapped("p = softmax((1),\n  (x + 1), dim=1)", 1) == "p = (x + 1)"
    assert unwrapped("p = softmax(a, x + 1, 2) ** 2", 1) == "p = (x + 1) ** 2"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("p = x.softmax(1)", "p = x"),
        ("p = (x + 1).softmax(dim=1).log()", "p = (x + 1).log()"),
        ("p = model(x)[0] . softmax(\n    dim=1\n)", "p = model(x)[0]"),
        ("p = ((\n    x + 1\n) ).softmax(1) * 2", "p = ((\n    x + 1\n) ) * 2"),
        ("p = (x\n     .view(3, 3)\n     .softmax(1))", "p = (x\n     .view(3, 3))"),
        ("p = x.softmax(1)if y else z", "p = x if y else z"),
        ("p = x.softmax(  # over classes\n    1)", "p = x.softmax(  # over classes\n    1)"),
        ("p = (x  # logits\n     .softmax(1))", "p = (x  # logits\n     .softmax(1))"),
    ],
)
def test_a_method_call_gives_way_to_its_object(before: str, after: str) -> None:
    source, _, call = call_in(before)
    assert applied(source, remove_method_call(source, call)) == after
    ast.parse(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("net = Sequential(a, b)", "net = Sequential(a)"),
        ("net = Sequential(a, b,)", "net = Sequential(a,)"),
        ("net = Sequential(\n    a,\n    b,\n)", "net = Sequential(\n    a,\n)"),
        ("net = Sequential(\n    a,\n    b\n)", "net = Sequential(\n    a,\n)"),
        ("net = Sequential(a,\n    b)", "net = Sequential(a)"),
        (
            "net = Sequential(\n    a,  # head\n    b,  # odds\n    # end\n)",
            "net = Sequential(\n    a,  # head\n    # end\n)",
        ),
        ("net = Sequential(a,  # head\n    b)", "net = Sequential(a,  # head\n    b)"),
        ("net = Sequential(a, (b))", "net = Sequential(a, (b))"),
        ("net = Sequential((a), b)", "net = Sequential((a), b)"),
        ("net = Sequential(a,\n    (\n    b\n    ))", "net = Sequential(a,\n    (\n    b\n    ))"),
        ("net = Sequential(a\r\n    , b('#')\r\n)", "net = Sequential(a\r\n)"),
        ("net = Sequential('é🎉', 'é', b)", "net = Sequential('é🎉', 'é')"),
    ],
)
def test_the_last_item_goes(before: str, after: str) -> None:
    source, _, call = call_in(before, "Sequential")
    assert applied(source, remove_last_item(source, call.args)) == after
    ast.parse(after)


def with_argument(text: str, position: int | None = None) -> str:
    source, _, call = call_in(text, "Adam")
    after = applied(source, replace_call_argument(source, call, "lr", "3e-4", position=position))
    ast.parse(after)
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Adam(p, lr=1)", "Adam(p, lr=3e-4)"),
        ("Adam(p, lr=(1), **kw)", "Adam(p, lr=(3e-4), **kw)"),
        ("Adam(p)", "Adam(p, lr=3e-4)"),
        ("Adam((p), )", "Adam((p), lr=3e-4, )"),
        ("Adam()", "Adam(lr=3e-4)"),
        ("Adam(  # none\n)", "Adam(  # none\nlr=3e-4)"),
        ("Adam(p  # weights\n)", "Adam(p, lr=3e-4  # weights\n)"),
        ("Adam(\n    p,  # weights\n)", "Adam(\n    p,  # weights\n    lr=3e-4,\n)"),
        ("Adam(\n    p  # weights\n)", "Adam(\n    p,  # weights\n    lr=3e-4\n)"),
        ("Adam(\n\tp\n)", "Adam(\n\tp,\n\tlr=3e-4\n)"),
        ("Adam(\r\n  p,\r\n)", "Adam(\r\n  p,\r\n  lr=3e-4,\r\n)"),
        ("Adam(\n    p, q)", "Adam(\n    p, q, lr=3e-4)"),
        ("Adam(\n    f(\n        p\n    ),\n)", "Adam(\n    f(\n        p\n    ), lr=3e-4,\n)"),
        ("Adam(x for x in y)", "Adam(x for x in y)"),
        ("Adam(p, **kw)", "Adam(p, **kw)"),
        ("Adam(*p)", "Adam(*p)"),
    ],
)
def test_an_argument_is_replaced_or_added(before: str, after: str) -> None:
    assert with_argument(before) == after


def test_an_argument_may_be_given_by_position() -> None:
    assert with_argument("Adam(p, (1), 2)", 1) == "Adam(p, (3e-4), 2)"
    assert with_argument("Adam(p, 1, *rest)", 1) == "Adam(p, 3e-4, *rest)"
    assert with_argument("Adam(p, *rest)", 1) == "Adam(p, *rest)"
    assert with_argument("Adam(p)", 1) == "Adam(p, lr=3e-4)"
    assert with_argument("Adam(p, lr=1)", 1) == "Adam(p, lr=3e-4)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("o = optim.Adam(p)", "o = optim.AdamW(p)"),
        ("o = torch . optim .\\\n Adam (p)", "o = torch . optim .\\\n AdamW (p)"),
        ("from torch.optim import Adam\nAdam(p)", "from torch.optim import Adam, AdamW\nAdamW(p)"),
        (
            "from torch.optim import (\n    Adam as Opt,  # best\n)\nOpt(p)",
            "from torch.optim import (\n    Adam as Opt, AdamW,  # best\n)\nAdamW(p)",
        ),
        ("from torch.optim import AdamW, Adam\nAdam(p)", "from torch.optim import AdamW, Adam\nAdamW(p)"),
        ("from torch.optim import *\nAdam(p)", "from torch.optim import *\nAdam(p)"),
        ("def f():\n    from torch.optim import Adam\nAdam(p)", "def f():\n    from torch.optim import Adam\nAdam(p)"),
        ("Adam = get()\nAdam(p)", "Adam = get()\nAdam(p)"),
        ("get()(p)", "get()(p)"),
    ],
)
def test_a_callee_is_renamed(before: str, after: str) -> None:
    source = source_from_text(before, HERE)
    tree = ast.parse(before)
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    assert applied(source, rename_callee(source, tree, call, "AdamW")) == after
    ast.parse(after)
