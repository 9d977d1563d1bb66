"""What rules can ask about modules, data and sources, and the edits that know their file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dllint.api import (
    AttributeAssigned,
    Class,
    Context,
    Edits,
    Finding,
    Instance,
    LibraryCall,
    Program,
    Rule,
    Site,
    misspelled,
    rename_attribute,
    spelling_of,
    together,
    wrap_in,
)
from dllint.testing.linting import Setup, lint

IMPORTS = "import random\nimport torch\nimport torch.nn as nn\nfrom torch.utils.data import DataLoader, Dataset\n"


def ask(code: str, question: Callable[[Context], object], **versions: str) -> Any:
    """The answer to a question about a script."""
    answers: list[object] = []

    class Question(Rule):
        code = "DL998"
        name = "question"
        category = "correctness"

        def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
            if program.kind == "module":
                answers.append(question(ctx))
            return iter(())

    lint({"main.py": IMPORTS + code}, Setup([Question], versions))
    return answers[0]


def assigned(ctx: Context, name: str) -> Any:
    return next(event for event in ctx.all_of(AttributeAssigned) if event.attribute == name)


LAYERS = """\
class Net(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.part = {part}

    def forward(self, x):
        return self.part(x)


Net(unknown())
"""


@pytest.mark.parametrize(
    ("part", "answer"),
    [
        ("nn.Linear(2, 2)", True),
        ("nn.ReLU()", False),
        ("nn.Sequential(nn.ReLU(), nn.Conv2d(3, 3, 3))", True),
        ("nn.Sequential(nn.ReLU(), nn.Flatten())", False),
        ("[nn.Dropout(), nn.LazyLinear(3)]", True),
        ("nn.Sequential(*given)", None),
        ("given", None),
        ("nn.Parameter(torch.zeros(3))", True),
    ],
)
def test_what_has_parameters(part: str, answer: bool | None) -> None:
    code = LAYERS.format(part=part)
    assert ask(code, lambda ctx: ctx.has_parameters(assigned(ctx, "part").value)) is answer


def test_who_uses_an_attribute() -> None:
    def uses(ctx: Context) -> list[str]:
        owner = assigned(ctx, "part").target
        assert isinstance(owner, Instance) and isinstance(owner.cls, Class)
        return [use.method for use in ctx.attribute_uses(owner.cls, "part")]

    assert ask(LAYERS.format(part="nn.ReLU()"), uses) == ["forward"]


LOADER = """\
class Noisy(Dataset):
    def __getitem__(self, index):
        return self.images[index] + {noise}


loader = DataLoader(Noisy(), num_workers={workers})
{use}
"""


@pytest.mark.parametrize(
    ("use", "answer"),
    [("", False), ("for x in loader: print(x)", True), ("unknown(loader)", True), ("print(1)", False)],
)
def test_who_reads_a_loader(use: str, answer: bool) -> None:
    code = LOADER.format(noise="0", workers=0, use=use)
    assert ask(code, lambda ctx: ctx.data.is_read(ctx.data.loaders[0].loader)) is answer


def test_what_is_drawn_for_each_sample() -> None:
    drawn = ask(LOADER.format(noise="random.random()", workers=2, use=""), lambda ctx: _randomness(ctx))
    assert (drawn.families, drawn.is_known) == ({"random"}, True)
    unknown = ask(LOADER.format(noise="other(self)", workers=2, use=""), lambda ctx: _randomness(ctx))
    assert (unknown.families, unknown.is_known) == (set(), False)


def _randomness(ctx: Context) -> Any:
    return ctx.data.randomness(ctx.data.loaders[0])


@pytest.mark.parametrize(("workers", "count"), [("4", 4), ("0", None), ("False", None)])
def test_workers(workers: str, count: int | None) -> None:
    found = ask(LOADER.format(noise="0", workers=workers, use=""), lambda ctx: ctx.data.workers(ctx.data.loaders[0]))
    assert (found.count if found else None) == count


def test_versions_and_imports() -> None:
    assert ask("x = 1", lambda ctx: ctx.runs_before("torch", "1.9"), torch="1.8.1")
    assert not ask("x = 1", lambda ctx: ctx.runs_before("torch", "1.9"), torch="1.10")
    assert not ask("x = 1", lambda ctx: ctx.runs_before("torch", "1.9"))


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("for i in xrange(3):\n    pass", "1.5"),
        ("total += self.loss_G.data[0]", "0.5"),
        ("print('x')  # loss.data[0]", None),
        ("x = weights.data[0]", None),
        ("from six.moves import xrange\nxrange(3)", None),
        ("xrange = range\nxrange(3)", None),
        ("import sys\nif sys.version_info[0] < 3:\n    x = unicode(x)", None),
        ("async def run():\n    print('print x')", None),
    ],
)
def test_code_tells_of_early_releases(code: str, limit: str | None) -> None:
    assert ask(code, lambda ctx: ctx.limit_of("torch")) == limit
    assert ask(code, lambda ctx: ctx.may_run_with("torch", "2.6")) is (limit is None)
    assert ask(code, lambda ctx: ctx.runs_before("torch", "1.1")) is (limit == "0.5")
    assert ask(code, lambda ctx: ctx.limit_of("torch"), torch="2.1") == "2.1.0.1"
    assert ask("from dgl.nn import conv", lambda ctx: ctx.imports("dgl"))
    assert not ask("import dglike", lambda ctx: ctx.imports("dgl"))


def _place(ctx: Context) -> Site:
    return next(event.site for event in ctx.all_of(LibraryCall) if event.name == "torch.zeros")


def test_ancestors_are_innermost_first() -> None:
    code = "def f():\n    with torch.no_grad():\n        return -torch.zeros(3)\n\n\nf()\n"

    def names(ctx: Context) -> list[str]:
        kinds = (ast.FunctionDef, ast.With, ast.Return, ast.UnaryOp)
        return [type(node).__name__ for node in ctx.ancestors(_place(ctx), *kinds)]

    assert ask(code, names) == ["UnaryOp", "Return", "With", "FunctionDef"]


def _applied(code: str, edit: Callable[[Site], Edits]) -> str:
    """A script after some edits at its ``torch.zeros``."""

    def change(ctx: Context) -> str:
        text = ctx.text(_place(ctx))
        for each in sorted(edit(_place(ctx)), key=lambda each: -each.start):
            text = text[: each.start] + each.text + text[each.end :]
        return text.removeprefix(IMPORTS)

    return str(ask(code, change))


def test_wrapping_a_statement() -> None:
    wrapped = _applied("if True:\n    x = torch.zeros(\n        3)\n", lambda site: wrap_in(site, "with a():"))
    assert wrapped == "if True:\n    with a():\n        x = torch.zeros(\n            3)\n"
    shared = "x = torch.zeros(3); y = 1\n"
    assert _applied(shared, lambda site: wrap_in(site, "with a():")) == shared


def test_edits_of_several_files_are_none() -> None:
    def both(ctx: Context) -> tuple[int, int]:
        one, other = wrap_in(_place(ctx), "if a:"), Edits()
        return len(together(one, one)), len(together(one, other))

    assert ask("x = torch.zeros(3)\n", both) == (2, 0)


def test_spellings() -> None:
    def spelled(ctx: Context) -> tuple[str, str, str]:
        place = _place(ctx)
        return spelling_of("torch", place), spelling_of("torch.nn", place), spelling_of("numpy", place)

    assert ask("torch.zeros(3)", spelled) == ("torch", "nn", "")


def test_names_that_are_misspelled() -> None:
    assert misspelled("require_grad", ["requires_grad", "grad"]) == "requires_grad"
    assert misspelled("requires_grad", ["requires_grad"]) == ""

    def rename(ctx: Context) -> str:
        event = assigned(ctx, "require_grad")
        (edit,) = rename_attribute(event.site, "requires_grad")
        return ctx.text(event.site)[: edit.start] + edit.text

    code = "for p in nn.Linear(2, 2).parameters():\n    p.require_grad = False\n"
    assert ask(code, rename).endswith("    p.requires_grad")
