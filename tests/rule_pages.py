"""Reading the page of a rule: its headings and sections, and its examples as programs that can be linted."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from dllint.rule import Rule
from dllint.testing.linting import Setup, lint

PRELUDE = (Path(__file__).resolve().parent / "data" / "example_prelude.py").read_text("utf-8")

CLASS = """
class Example(Net):
    def __init__(self):
        super().__init__()
        self.model, self.loader, self.criterion = model, loader, criterion
        self.optimizer, self.scheduler = optimizer, scheduler

"""


def page_of(rule: type[Rule]) -> str:
    assert rule.__doc__, f"{rule.code} has no docstring"
    return textwrap.dedent(rule.__doc__)


def section(page: str, heading: str) -> str:
    """The text below a heading of a page."""
    found = re.search(rf"^## {heading}[^\n]*\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def examples(page: str, heading: str) -> Iterator[str]:
    """The indented blocks below a heading."""
    for block in re.findall(r"(?:^    .*\n?|^[ \t]*\n)+", section(page, heading), re.MULTILINE):
        if block.strip():
            yield textwrap.dedent(block).strip("\n") + "\n"


def count_findings(example: str, rule: type[Rule]) -> tuple[int, int]:
    """How often a rule reports an example below the common prelude: alone, and with training before and after it."""
    training = "train(model, loader, optimizer)\n"
    code, *others = re.split(r"^# file: (\S+)\n", example, flags=re.MULTILINE)
    notes = {
        name: re.sub(r"^# ?", "", text, flags=re.MULTILINE) for name, text in zip(*[iter(others)] * 2, strict=True)
    }
    programs = (completed(code), f"{training}\n{completed(code)}\n{training}")
    setup = Setup([rule], explicit=True, notes=notes)
    alone, amid = (lint({"main.py": f"{PRELUDE}\n\n{text}"}, setup) for text in programs)
    return sum(len(file.findings) for file in alone), sum(len(file.findings) for file in amid)


def completed(example: str) -> str:
    """An example as a program: what speaks of ``self`` is put into a class, and what is only defined is called.

    A function is called with what the prelude has under the names of its parameters.
    """
    tree = ast.parse(example)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    parameters = {node.name: [part.arg for part in node.args.args] for node in functions}
    if functions and all(names[:1] == ["self"] for names in parameters.values()):
        return CLASS + textwrap.indent(example, "    ") + "\nloss = criterion(Example()(x), y)\n"
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if "self" in read and not any(isinstance(node, ast.ClassDef) for node in tree.body):
        return f"{CLASS}    def example(self, x, y, target):\n" + textwrap.indent(example, "        ")
    calls = [f"{name}({', '.join(names)})\n" for name, names in parameters.items() if name not in read]
    return example + "".join(calls)


def headings(page: str) -> list[str]:
    """The headings of a page, in order."""
    return re.findall(r"^## (.*)$", page, re.MULTILINE)


def measurements(page: str) -> list[str]:
    """What stands behind the word `measured` in each paragraph above the examples, where there is a number in it."""
    paragraphs = re.split(r"\n\s*\n", page.partition("## Bad")[0])
    behind = [text.lower().partition("measured")[2] for text in paragraphs]
    return [text for text in behind if re.search(r"\d", text)]
