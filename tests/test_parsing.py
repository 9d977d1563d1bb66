"""Modules in the syntax of a later Python are parsed, every part at its place; what is no Python is refused."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from dllint.files.parsing import parse_module

LATER = {
    "type alias": "type Batch = dict[str, int]\nx = 1\n",
    "generic type alias": "class A:\n    type Pair[T] = tuple[T, T]\n    x = 1\n",
    "generic function": "def first[T: (int, str)](xs: list[T]) -> T:\n    return xs[0]\nx = 1\n",
    "generic class": "class Box[\n    T,\n    *Ts = *tuple[int, ...],\n](Base):\n    x = 1\n",
    "same quotes": 'print(f"{row[\'a\']} {row["b"]:>{width}}", x)\n',
    "backslash": "print(f\"{'\\n'.join(names)}\", x)\n",
    "lines in a field": 'print(f"{\n    a\n}", x)\n',
    "triple quotes": 'print(f"""{row["""a"""]}\n  ä {b}""", x)\n',
}


@pytest.mark.parametrize("text", LATER.values(), ids=LATER)
def test_later_syntax_is_parsed_and_all_else_stays_at_its_place(text: str) -> None:
    tree = parse_module(text)
    (name,) = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "x")
    line = text.splitlines()[name.lineno - 1]
    assert line.encode()[name.col_offset : name.end_col_offset] == b"x"


@pytest.mark.parametrize(
    "text",
    [
        'print "x"\n',
        "def f(:\n",
        "type = = 1\n",
        pytest.param(
            "try:\n    pass\nexcept ValueError, error:\n    pass\n",
            marks=pytest.mark.skipif(sys.version_info >= (3, 14), reason="PEP 758 allows it"),
        ),
    ],
)
def test_what_is_no_python_is_refused(text: str) -> None:
    with pytest.raises(SyntaxError):
        parse_module(text)


def test_the_error_speaks_of_the_text_as_it_is_written() -> None:
    text = "type A = int\ndef broken(:\n    pass\n"
    with pytest.raises(SyntaxError) as error:
        parse_module(text)
    assert error.value.text is not None
    assert error.value.text.strip() in text


def test_ordinary_modules_are_parsed_without_libcst() -> None:
    code = "import sys, dllint.files.parsing as p; p.parse_module('x = 1'); sys.exit('libcst' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "text",
    [
        "type A = int\nx = " + "(" * 100_000,
        "type A = int\nx = " + "a + " * 50_000 + "\n",
        "type A = int\nx = " + "-" * 100_000 + "y z\n",
        "type A = int\nx = " + "not " * 100_000 + "y z\n",
        "type A = int\nx = " + "lambda: " * 50_000 + "y z\n",
        "type A = int\nx = y" + ".a" * 50_000 + " z\n",
        'x = f"' + "{" * 50_000 + "\n",
        "type A = int\nif a:\n    pass\n" + "elif b:\n    pass\n" * 900 + "y z\n",
        "type A = int\nif a:\n    pass\n" + "elif b:\n    pass\n" * 20_000 + "y z\n",
    ],
    ids=["brackets", "sum", "minus", "not", "lambda", "attributes", "fields", "branches", "more branches"],
)
def test_monsters_are_refused(text: str) -> None:
    code = (
        "import sys; from dllint.files.source import syntax_problem; sys.exit(syntax_problem(sys.stdin.read()) is None)"
    )
    subprocess.run([sys.executable, "-c", code], input=text, text=True, check=True)
