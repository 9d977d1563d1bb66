"""Edits of statements: put in, removed and moved, with the comments that belong to them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from editing import HERE, applied, statements

from dllint.files.source import source_from_text
from dllint.findings import Edit
from dllint.syntax.statement_edits import (
    insert_statement_after,
    insert_statement_before,
    move_statement,
    remove_statement,
)


def statement(tree: ast.Module, text: str) -> ast.stmt:
    """The first statement whose source begins so."""
    return next(node for node in statements(tree) if ast.unparse(node).startswith(text))


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
