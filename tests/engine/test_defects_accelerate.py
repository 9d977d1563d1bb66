"""What Accelerate and Fabric do to a program: to the objects that they were given, and no others."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from interpreting import run

from dllint.testing import check
from dllint.values import External, Instance

SCHEDULED = """
import torch
from accelerate import Accelerator
from torch.optim.lr_scheduler import CosineAnnealingLR

def train(model, loader, epochs):
    accelerator = Accelerator()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    {prepare}
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            scheduler.step(){mark}
"""


def scheduled(prepare: str, mark: str = "") -> str:
    return SCHEDULED.replace("{prepare}", prepare).replace("{mark}", mark)


def test_a_scheduler_that_was_not_prepared() -> None:
    check("DL304", scheduled("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)", "  # DL304"),
          vary=())  # fmt: skip


@pytest.mark.parametrize(
    "prepare",
    [
        "model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)",
        "scheduler = accelerator.prepare_scheduler(scheduler)",
        "scheduler = accelerator.prepare(scheduler)",
        "parts = accelerator.prepare(*collect(model, optimizer, scheduler))",
    ],
)
def test_a_scheduler_that_may_have_been_prepared(prepare: str) -> None:
    check("DL304", scheduled(prepare), vary=())


CLIPPED = """
import torch
from accelerate import Accelerator
from lightning.fabric import Fabric

def train(model, optimizer, loader):
    helper = {made}
    for x, y in loader:
        optimizer.zero_grad()
        helper.backward(torch.nn.functional.cross_entropy(model(x), y))
        {clip}
        optimizer.step()
"""
PLAIN = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


@pytest.mark.parametrize(
    "made", ['Accelerator(mixed_precision="fp16")', 'Fabric(precision="16-mixed")', "Fabric(precision=16)"]
)
def test_what_goes_backward_in_half_precision_is_scaled(made: str) -> None:
    check("DL213", CLIPPED.format(made=made, clip=f"{PLAIN}  # DL213"), vary=())


@pytest.mark.parametrize(
    ("made", "clip"),
    [
        ('Accelerator(mixed_precision="fp16")', "helper.clip_grad_norm_(model.parameters(), 1.0)"),
        ('Accelerator(mixed_precision="fp16")', f"helper.unscale_gradients()\n        {PLAIN}"),
        ('Accelerator(mixed_precision="fp16")', f"helper.clip_grad_value_(model.parameters(), 9)\n        {PLAIN}"),
        ('Accelerator(mixed_precision="bf16")', PLAIN),
        ("Accelerator()", PLAIN),
        ("Accelerator(mixed_precision=read())", PLAIN),
        ('Fabric(precision="16-mixed")', "helper.clip_gradients(model, optimizer, clip_val=1.0)"),
        ('Fabric(precision="32-true")', PLAIN),
    ],
)
def test_what_is_not_scaled_or_unscaled_again(made: str, clip: str) -> None:
    check("DL213", CLIPPED.format(made=made, clip=clip), vary=())


COPY = """
class Accelerator:
    def __init__(self, mixed_precision=None):
        self.mixed_precision = mixed_precision

    def prepare(self, *args):
        return tuple(self._prepare_one(each) for each in args)

    def _prepare_one(self, each):
        return each
"""


@pytest.mark.parametrize("place", ["src/accelerate", "accelerate", "third_party/accelerate/src/accelerate"])
@pytest.mark.parametrize(
    "made",
    [
        "from accelerate import Accelerator\nmade = Accelerator()",
        "import accelerate\nmade = accelerate.Accelerator()",
        "from accelerate.accelerator import Accelerator as A\nmade = A()",
    ],
)
def test_a_copy_of_the_library_in_the_project(tmp_path: Path, place: str, made: str) -> None:
    package = tmp_path / place
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .accelerator import Accelerator\n", "utf-8")
    (package / "accelerator.py").write_text(COPY, "utf-8")
    files = {"main": f"import sys\nsys.path.insert(0, {place!r})\n{made}"}
    if place.startswith("third_party"):
        files["main"] = made.replace("accelerate.accelerator", "accelerate").replace("as A", "as A")
    found = run(tmp_path, files["main"]).variables["made"]
    assert isinstance(found, Instance) and found.library_name == "accelerate.Accelerator"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("accelerate.py", "from accelerate import Accelerator"),
        ("tools/accelerate.py", "from tools.accelerate import Accelerator"),
        ("tools/speed/__init__.py", "from tools.speed import Accelerator"),
    ],
)
def test_a_class_of_the_same_name_is_the_projects(tmp_path: Path, file: str, text: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "__init__.py").touch() if "/" in file else None
    path.write_text(COPY, "utf-8")
    found = run(tmp_path, f"{text}\nmade = Accelerator()").variables["made"]
    assert isinstance(found, Instance) and not found.library_name


def test_the_copy_itself_is_looked_at(tmp_path: Path) -> None:
    found = run(tmp_path, textwrap.dedent(COPY) + "made = Accelerator()").variables["made"]
    assert isinstance(found, Instance) and not isinstance(found.cls, (str, External))
