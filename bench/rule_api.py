"""The reference for authors of rules, ``docs/rule-api.md``, as the code says it: ``python bench/rule_api.py --write``.

Without ``--write`` it only tells (by its exit status) whether the page is current.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, get_args, get_origin

from dllint import api
from dllint.context import Context
from dllint.context.checkpoints import CheckpointView
from dllint.context.data import DataView
from dllint.interp.source.topics import Topic, topics

PAGE = Path(__file__).resolve().parent.parent / "docs" / "rule-api.md"
_MODULES = re.compile(r"\b(?:\w+\.)+(?=[A-Za-z])")
_ROLE = re.compile(r":\w+:(?=`)")

_INTRODUCTION = """\
# What a rule can ask and use

This page is written by `python bench/rule_api.py --write` from the docstrings of the code. How to write a rule is in
[writing-rules.md](writing-rules.md); here is all that it can ask (`ctx`, `ctx.data`, `ctx.checkpoints`) and import
(`dllint.api`).
"""


def page() -> str:
    """The text of the reference."""
    parts = [_INTRODUCTION, *_views(), *_exports(), *_topics()]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _views() -> Iterator[str]:
    for name, view in (("ctx", Context), ("ctx.data", DataView), ("ctx.checkpoints", CheckpointView)):
        for owner in reversed(view.__mro__):
            members = list(_members(owner, view))
            if members:
                module = sys.modules[owner.__module__]
                yield f"## `{name}`: {_heading(module)}\n"
                yield _table(("question", "answer"), ((f"`{name}.{call}`", answer) for call, answer in members))


def _members(owner: type, view: type) -> Iterator[tuple[str, str]]:
    """The public members that a class adds to a view, each as it is written and with what it says."""
    for name, member in vars(owner).items():
        if name.startswith("_") or getattr(view, name) is not member:
            continue
        if isinstance(member, property | cached_property):
            yield name, _says(member)
        elif isinstance(member, FunctionType):
            yield f"{name}({_parameters(member)})", _says(member)


def _parameters(function: FunctionType) -> str:
    """The parameters of a method without their types; those that can be left out with their default."""
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in _signature(function)[1:]]
    return str(inspect.Signature(parameters)).removeprefix("(").removesuffix(")")


def _signature(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _exports() -> Iterator[str]:
    """What a rule imports, by the module that it comes from."""
    yield "## What `dllint.api` exports\n"
    for module, names in _by_module().items():
        yield f"### {_heading(module)}\n"
        yield _table(("name", "is"), ((f"`{name}`", _says(getattr(api, name))) for name in names))


def _by_module() -> dict[ModuleType, list[str]]:
    found: dict[ModuleType, list[str]] = {}
    for name in api.__all__:
        module = sys.modules.get(getattr(getattr(api, name), "__module__", ""))
        if module is None or not module.__name__.startswith("dllint."):
            module = api
        found.setdefault(module, []).append(name)
    return dict(sorted(found.items(), key=lambda item: item[0].__name__))


def _topics() -> Iterator[str]:
    yield "## What names speak of (`ctx.speaks_of`)\n"
    yield _table(("topic", "words"), ((f"`{topic}`", _words(topic)) for topic in get_args(Topic)))


def _words(topic: str) -> str:
    entry = topics()[topic]
    return ", ".join(word for key, words in entry.items() if key != "joined" for word in words)


def _heading(module: ModuleType) -> str:
    return _first(module.__doc__ or module.__name__).rstrip(".")


def _says(thing: object) -> str:
    """The first paragraph of a docstring; constants and aliases have none, and say what they are."""
    if get_origin(thing) is None and (callable(thing) or isinstance(thing, property | cached_property)):
        return _first(inspect.getdoc(thing) or "")
    return f"`{_MODULES.sub('', repr(thing))}`"


def _first(text: str) -> str:
    """The first paragraph of a docstring on one line, with Markdown's marks for code."""
    return _ROLE.sub("", " ".join(text.partition("\n\n")[0].split())).replace("``", "`").replace("|", "\\|")


def _table(head: tuple[str, str], rows: Iterator[tuple[str, str]]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "| --- | --- |", *(f"| {' | '.join(row)} |" for row in rows)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/rule-api.md")
    if parser.parse_args().write:
        PAGE.write_text(page(), "utf-8")
    return 0 if PAGE.exists() and PAGE.read_text("utf-8") == page() else 1


if __name__ == "__main__":
    sys.exit(main())
