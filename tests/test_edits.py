"""Edits of calls and statements in ugly code: the right change, valid code, comments and line ends kept."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest

from dllint.files.source import SourceFile, source_from_text
from dllint.findings import Edit, Finding, Fix
from dllint.fixes import apply_fixes
from dllint.syntax.edits import (
    remove_call_wrapper,
    remove_last_item,
    remove_method_call,
    rename_callee,
    replace_call_argument,
)
from dllint.syntax.statement_edits import (
    insert_statement_after,
    insert_statement_before,
    move_statement,
    remove_statement,
)

HERE = Path("module.py")


def applied(source: SourceFile, edits: tuple[Edit, ...]) -> str:
    """The text after edits, put through the fixer as a rule's would be."""
    place = source.location_of(0, 0)
    finding = Finding("DL999", "x", "x", place, "error", "correctness", fixes=(Fix("x", edits, "safe"),))
    step = apply_fixes(source, [finding], unsafe=False)
    assert step.applied or not edits
    return step.text


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


# ------------------------------------------------------------------------------------------------ statements


def statement(tree: ast.Module, text: str) -> ast.stmt:
    """The first statement whose source begins so."""
    return next(node for node in statements(tree) if ast.unparse(node).startswith(text))


def statements(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def changed(text: str, about: str, edit: Callable[..., tuple[Edit, ...]], *arguments: str, **targets: str) -> str:
    source = source_from_text(text, HERE)
    tree = ast.parse(text)
    others = {name: statement(tree, value) for name, value in targets.items()}
    return applied(source, edit(source, tree, statement(tree, about), *arguments, **others))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a()\nb()\n", "a()\nz()\nb()\n"),
        ("if x:\n\tb()\n", "if x:\n\tz()\n\tb()\n"),
        ("a()\r\n\r\n# about b\r\nb()", "a()\r\n\r\nz()\r\n# about b\r\nb()"),
        ("def f():\n  a()\n\n  # about b\n  b()\n", "def f():\n  a()\n\n  z()\n  # about b\n  b()\n"),
        ("a(); b()", "a(); z(); b()"),
        ("b(); a()", "z()\nb(); a()"),
        ("if x: b()", "if x: z(); b()"),
        ("class A: x = 1; b(); y = 2  # note\n", "class A: x = 1; z(); b(); y = 2  # note\n"),
        ("#!/usr/bin/python\nb()", "#!/usr/bin/python\nz()\nb()"),
        ("x = '''\nb()\n'''\nb()\n", "x = '''\nb()\n'''\nz()\nb()\n"),
        ("# %%\n# about b\nb()\n", "# %%\nz()\n# about b\nb()\n"),
        ("if x:\n    a()\nelse:\n    b()", "if x:\n    a()\nelse:\n    z()\n    b()"),
    ],
)
def test_a_statement_is_put_in_before_another(before: str, after: str) -> None:
    assert changed(before, "b()", insert_statement_before, "z()") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("b()\na()\n", "b()\nz()\na()\n"),
        ("b()", "b()\nz()"),
        ("b();", "b();\nz()"),
        ("if x:\n\tb()  # note\n\t# end\n", "if x:\n\tb()  # note\n\tz()\n\t# end\n"),
        ("b(); a()", "b(); z(); a()"),
        ("if x: b()\r\nelse: a()", "if x: b(); z()\r\nelse: a()"),
        ("try:\n    b()\nfinally:\n    a()\n", "try:\n    b()\n    z()\nfinally:\n    a()\n"),
        ("b(\n  1,  # one\n)\n", "b(\n  1,  # one\n)\nz()\n"),
    ],
)
def test_a_statement_is_put_in_behind_another(before: str, after: str) -> None:
    assert changed(before, "b(", insert_statement_after, "z()") == after


def test_compound_statements_and_decorators() -> None:
    text = "@decorated\n@twice\ndef f():\n    if x:\n        pass\n    # end of f\n\n\nb()\n"
    assert changed(text, "@decorated", insert_statement_before, "z()").startswith("z()\n@decorated\n")
    assert changed(text, "@decorated", insert_statement_after, "z()").endswith("# end of f\n\n\nb()\n")
    assert changed("for x in y:\n\ta()\nb()", "a", insert_statement_after, "if q:\n    z()") == (
        "for x in y:\n\ta()\n\tif q:\n\t\tz()\nb()"
    )
    assert changed("a(); b()\n", "b", insert_statement_before, "if q:\n    z()") == "a(); b()\n"
    assert changed("if x:\n    a()\nelif y:\n    b()\n", "if y", insert_statement_before, "z()") == (
        "if x:\n    a()\nelif y:\n    b()\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a()\nb()\nc()\n", "a()\nc()\n"),
        ("b()", ""),
        ("if x:\n    b()\n", "if x:\n    pass\n"),
        ("if x:\n\t# about b\n\tb()  # note\n", "if x:\n\t# about b\n\t# note\n\tpass\n"),
        ("# about b\nb()  # note\nc()\n", "# about b\n# note\nc()\n"),
        ("def f():\r\n    a()\r\n    b()  # note\r\n\r\nc()", "def f():\r\n    a()\r\n    # note\r\n\r\nc()"),
        ("a(); b(); c()", "a(); c()"),
        ("a(); b()", "a()"),
        ("a(); b();  # note", "a();  # note"),
        ("a(); b()  # note", "a()  # note"),
        ("b(); a()", "a()"),
        ("if x: b()", "if x: pass"),
        ("if x: b();\nelse: pass", "if x: pass\nelse: pass"),
        ("while x: a(); b()  # note\n", "while x: a()  # note\n"),
    ],
)
def test_a_statement_is_removed(before: str, after: str) -> None:
    assert changed(before, "b()", remove_statement) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for x in y:\n    b()  # late\n    a()\n", "for x in y:\n    a()\n    b()  # late\n"),
        ("b(); a()\n", "a()\nb()\n"),
        ("b(); a(); c()\n", "a(); b(); c()\n"),
        ("d()\n# why b\nb()\n\n# why a\na()\nc()\n", "d()\n\n# why a\na()\n# why b\nb()\nc()\n"),
        ("# head\nb()\na()\n", "# head\na()\nb()\n"),
        ("if x: b()\na()\n", "if x: pass\na()\nb()\n"),
        ("b()\nwhile x: a()\n", "while x: a(); b()\n"),
        ("if x:\n\tb(1,\r\n\t  2)\na()", "if x:\n\tpass\na()\nb(1,\r\n  2)"),
    ],
)
def test_a_statement_is_moved_behind_another(before: str, after: str) -> None:
    got = changed(before, "b(", move_statement, after="a()")
    assert got.replace("\r\n", "\n") == after.replace("\r\n", "\n")


def test_a_statement_is_moved_out_of_a_loop_but_not_into_itself() -> None:
    text = "for x in y:\n    a()\n    # once an epoch\n    b()\nc()\n"
    assert changed(text, "b()", move_statement, after="for") == "for x in y:\n    a()\n# once an epoch\nb()\nc()\n"
    assert changed(text, "b()", move_statement, before="for") == "# once an epoch\nb()\nfor x in y:\n    a()\nc()\n"
    assert changed(text, "for", move_statement, after="b()") == text
    assert changed(text, "b()", move_statement, after="b()") == text


def test_in_a_notebook_edits_stay_in_their_cell() -> None:
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [code]} for code in ("a()", "b()")]
    raw = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    source = source_from_text(raw, Path("book.ipynb"))
    tree = ast.parse(source.text)
    edits = insert_statement_before(source, tree, statement(tree, "b()"), "z()")
    assert applied(source, edits) == "# %%\na()\n# %%\nz()\nb()\n"
    edits = insert_statement_after(source, tree, statement(tree, "a()"), "z()")
    assert applied(source, edits) == "# %%\na()\nz()\n# %%\nb()\n"


def test_code_too_deep_for_libcst_is_left_alone() -> None:
    source = source_from_text(f"x = {' + '.join(['a'] * 900)}\nb()\n", HERE)
    tree = ast.parse(source.text)
    assert insert_statement_after(source, tree, tree.body[0], "z()") == ()
    assert applied(source, insert_statement_after(source, tree, tree.body[1], "z()")).endswith("b()\nz()\n")


def test_libcst_is_imported_only_for_statements() -> None:
    code = (
        "import sys, ast; from pathlib import Path; from dllint.files.source import source_from_text\n"
        "from dllint.syntax import edits, statement_edits\n"
        "s = source_from_text('f(g(x))', Path('a.py')); c = ast.parse(s.text).body[0].value\n"
        "edits.remove_call_wrapper(s, c.args[0], c.args[0].args[0])\n"
        "assert 'libcst' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


UGLY = '''#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Doc; string"""; import os; import sys  # two
from torch.optim import (Adam,  # first
    SGD)

# about f
@decorate(1,
          (2))  # odd
@another
async def f(x, *, y: int = softmax((1)), **kw) -> 'é':  # note
\t"""Doc."""
\t# in f
\tif x: return g(x)(y); pass
\telif y :  # elif
\t\tz = [i for i in range((3)) if h(i)]; del z;
\t\t# end of elif
\telse:
\t\twith open(x) as a, \\
\t\t     open(y) as b: pass
\t# end of f

  # strange
class A(B, metaclass = C): x = 1; y: int; z = f(x, (y), *w,
    # inside
    k = (lambda q: q + 1), **v)
for i in a, b:
    try:
        while True: break
        else: continue
    except (E, F) as e: raise G(e) from None   # raise
    except: pass
    finally:

        x = """
    not code; f(x)
"""  ; assert f(x) , 'é🎉' ; y = f(  )

        # last
match x:
    case [1, *_] if f(x): pass
    case A(b = 2): f(x); g(x)
    case _:
        global q
x = (yield_, f(f(f(1)))[f(2):f(a if b else c)], f'{f(1)} {x!r}')  ;
if f(x)and not f(y)or f(z)if f(1)else f(2): print(f(not a), file=f(b))'''

VARIANTS = [UGLY, UGLY + "\n", UGLY.replace("\n", "\r\n")]


def replaced(tree: ast.Module, old: ast.AST, new: ast.AST) -> str:
    """A dump of the tree with another node in the place of one."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
                dump = ast.dump(tree)
                setattr(parent, name, old)
                return dump
            if isinstance(value, list) and any(item is old for item in value):
                setattr(parent, name, [new if item is old else item for item in value])
                dump = ast.dump(tree)
                setattr(parent, name, value)
                return dump
    raise AssertionError("not in the tree")


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    in_strings = {id(node) for text in ast.walk(tree) if isinstance(text, ast.JoinedStr) for node in ast.walk(text)}
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in in_strings)


def comment_tokens(text: str) -> list[tokenize.TokenInfo]:
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    return [token for token in tokens if token.type == tokenize.COMMENT]


def comments(text: str) -> Counter[str]:
    return Counter(token.string for token in comment_tokens(text))


@pytest.mark.parametrize("text", VARIANTS)
def test_any_call_in_ugly_code_can_give_way_to_any_argument(text: str) -> None:
    source, tree = source_from_text(text, HERE), ast.parse(text)
    done = 0
    for call in calls(tree):
        for value in (*call.args, *(keyword.value for keyword in call.keywords)):
            edits = remove_call_wrapper(source, call, value)
            assert edits or isinstance(value, ast.Starred)
            if edits:
                after = applied(source, edits)
                assert ast.dump(ast.parse(after)) == replaced(tree, call, value)
                assert comments(after) == comments(text)
                done += 1
    assert done > 25


@pytest.mark.parametrize("text", VARIANTS)
def test_any_call_in_ugly_code_can_get_an_argument(text: str) -> None:
    source, tree = source_from_text(text, HERE), ast.parse(text)
    for call in calls(tree):
        edits = replace_call_argument(source, call, "new", "(0)")
        hidden = any(isinstance(value, ast.Starred) for value in call.args) or any(k.arg is None for k in call.keywords)
        assert bool(edits) != hidden
        if edits:
            after = applied(source, edits)
            call.keywords.append(ast.keyword("new", ast.Constant(0)))
            assert ast.dump(ast.parse(after)) == ast.dump(tree)
            call.keywords.pop()
            assert comments(after) == comments(text)


def block_of(tree: ast.Module, wanted: ast.stmt) -> tuple[ast.AST, list[ast.stmt], int]:
    for parent in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and any(node is wanted for node in block):
                return parent, block, next(index for index, node in enumerate(block) if node is wanted)
    raise AssertionError("not in the tree")


def is_elif(source: SourceFile, node: ast.stmt) -> bool:
    return source.text.startswith("elif", source.offset(node.lineno, node.col_offset))


@pytest.mark.parametrize("text", VARIANTS)
@pytest.mark.parametrize("new", ["new()", "a; b", "# why\nif new:\n    a  # note\nelse:\n    b"])
def test_any_statement_can_be_put_in_anywhere_in_ugly_code(text: str, new: str) -> None:
    source, tree = source_from_text(text, HERE), ast.parse(text)
    for node in statements(tree):
        for after, insert in enumerate((insert_statement_before, insert_statement_after)):
            edits = insert(source, tree, node, new)
            assert edits or is_elif(source, node) or "if" in new
            if edits:
                _, block, index = block_of(tree, node)
                made = ast.parse(new).body
                block[index + after : index + after] = made
                result = applied(source, edits)
                assert ast.dump(ast.parse(result)) == ast.dump(tree)
                del block[index + after : index + after + len(made)]
                assert comments(result) == comments(text) + comments(new)
                assert ("\r\n" in text) == ("\n" not in result.replace("\r\n", "")), "line ends are mixed"


@pytest.mark.parametrize("text", VARIANTS)
def test_any_statement_can_be_removed_from_ugly_code(text: str) -> None:
    source, tree = source_from_text(text, HERE), ast.parse(text)
    for node in statements(tree):
        edits = remove_statement(source, tree, node)
        assert edits or is_elif(source, node) or isinstance(node, ast.Pass)
        if not edits:
            continue
        result = applied(source, edits)
        parent, block, index = block_of(tree, node)
        rest = [*block[:index], *block[index + 1 :]]
        block[:] = rest or ([] if isinstance(parent, ast.Module) else [ast.Pass()])
        assert ast.dump(ast.parse(result)) == ast.dump(tree)
        block[:] = [*rest[:index], node, *rest[index:]]
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        end = (node.end_lineno, node.end_col_offset)
        own = Counter(token.string for token in comment_tokens(text) if (first, 0) <= token.start < end)
        assert comments(text) - comments(result) == own


@pytest.mark.parametrize("text", VARIANTS)
def test_moving_in_ugly_code_keeps_every_comment_and_statement(text: str) -> None:
    source, tree = source_from_text(text, HERE), ast.parse(text)
    moved = 0
    nodes = statements(tree)
    for number, node in enumerate(nodes):
        target = nodes[(number * 7 + 3) % len(nodes)]
        for edits in (
            move_statement(source, tree, node, before=target),
            move_statement(source, tree, node, after=target),
        ):
            if edits:
                result = applied(source, edits)
                kinds = Counter(type(each).__name__ for each in statements(ast.parse(result)))
                kinds.subtract(Counter(type(each).__name__ for each in nodes))
                assert {name for name, count in kinds.items() if count} <= {"Pass"}
                assert comments(result) == comments(text)
                moved += 1
    assert moved > len(nodes) / 2
