"""Every edit, everywhere in ugly code: the right change, valid code, comments and line ends kept."""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator
from io import StringIO

import pytest
from editing import HERE, applied, statements

from dllint.files.source import SourceFile, source_from_text
from dllint.syntax.edits import remove_call_wrapper, replace_call_argument
from dllint.syntax.statement_edits import (
    insert_statement_after,
    insert_statement_before,
    move_statement,
    remove_statement,
)

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
