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


def _loop_around(site: Site) -> Site:
    """The loop whose header a place is in."""
    return next(Site(site.module, node) for node in ast.walk(site.module.tree) if isinstance(node, ast.For))


def test_wrapping_a_statement() -> None:
    wrapped = _applied("if True:\n    x = torch.zeros(\n        3)\n", lambda site: wrap_in(site, "with a():"))
    assert wrapped == "if True:\n    with a():\n        x = torch.zeros(\n            3)\n"
    loop = _applied("for x in torch.zeros(3):\n    y = x\n", lambda site: wrap_in(_loop_around(site), "with a():"))
    assert loop == "with a():\n    for x in torch.zeros(3):\n        y = x\n"
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


USES = """\
import numpy as np
from torch.nn import functional as F
try:
    from yaml import load
except ImportError:
    load = None
best = np.Inf
def f(x, other):
    F.relu(x)
    other.Inf
    if hasattr(np, "NaN"):
        return np.NaN
    return load(x)
    return np.Inf
"""


def test_what_a_file_uses_of_libraries() -> None:
    names = {"numpy.Inf", "numpy.NaN", "yaml.load", "torch.nn.functional."}
    found = ask(USES, lambda ctx: [name for _, name in ctx.uses_of(names)])
    assert sorted(found) == ["numpy.Inf", "torch.nn.functional.relu", "torch.nn.functional.relu"]  # read, and called


def test_what_stands_as_a_statement() -> None:
    found = ask(USES, lambda ctx: [(ctx.source_of(site), name) for site, name in ctx.discarded()])
    assert found == [("F.relu(x)", "torch.nn.functional.relu"), ("other.Inf", "")]


IMAGES = """\
import cv2
import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision import transforms


class Photos(Dataset):
    def __getitem__(self, index):
        image = cv2.imread(self.files[index])
        return {made}


photos = Photos()
"""


@pytest.mark.parametrize(
    ("made", "order", "largest"),
    [
        ("image", "bgr", 255.0),
        ("cv2.cvtColor(image, cv2.COLOR_BGR2RGB)", "rgb", 255.0),
        ("cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)", "", 255.0),
        ("image[:, :, ::-1]", "rgb", 255.0),
        ("image[..., [2, 1, 0]][10:20, 10:20]", "rgb", 255.0),
        ("image[:, ::-1]", "", None),
        ("image.astype(np.float32) / 255", "bgr", 1.0),
        ("torch.from_numpy(image.transpose(2, 0, 1)).float() / 127.5 - 1", "bgr", None),
        ("transforms.ToTensor()(image)", "bgr", 1.0),
        ("transforms.ToTensor()(image.astype(np.float32))", "bgr", 255.0),
        ("transforms.ToTensor()(Image.fromarray(image)) / 255", "bgr", 1 / 255),
        ("Image.open(self.files[index]).convert('L')", "", 255.0),
    ],
)
def test_what_is_known_of_an_image(made: str, order: str, largest: float | None) -> None:
    found = ask(IMAGES.format(made=made), lambda ctx: [image for _, _, image in ctx.data.images])
    assert [(image.order, image.largest) for image in found[:1]] == ([(order, largest)] if found else [])
    assert bool(found) == (order != "" or largest is not None)


def test_versions_that_a_project_may_run_with() -> None:
    assert ask("x = 1", lambda ctx: ctx.may_run_with("numpy", "2.0"))
    assert ask("x = 1", lambda ctx: ctx.may_run_with("numpy", "1.24"), numpy="1.24")
    assert not ask("x = 1", lambda ctx: ctx.may_run_with("numpy", "2.0"), numpy="1.26.4")
    assert not ask("x = 1", lambda ctx: ctx.may_run_with("torch", "2.7"), numpy="1.14.4")  # which needs Python 3.8
    assert ask("x = 1", lambda ctx: ctx.may_run_with("torch", "2.7"), numpy="1.21")
