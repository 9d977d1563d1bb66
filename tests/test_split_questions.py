"""What rules about splits, options and padding ask: validations, parts of datasets, transforms, readers of options."""

from __future__ import annotations

import ast

import pytest
from asking import ask, last

from dllint.api import Backward, Context, LibraryCall, LossCall, Site

EPOCHS = """
for epoch in range(3):
    for x, y in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    {evaluation}
"""
PASS = "net.eval()\n    with torch.no_grad():\n        for x, y in {loader}:\n            F.cross_entropy(net(x), y)"


@pytest.mark.parametrize(
    ("evaluation", "is_validated"),
    [
        (PASS.format(loader="val_loader"), True),
        (PASS.format(loader="held_out"), True),
        (PASS.format(loader="test_loader"), False),
        ("print(epoch)", False),
    ],
)
def test_whether_a_loop_validates(evaluation: str, is_validated: bool) -> None:
    def question(ctx: Context) -> bool:
        return ctx.has_validation(ctx.loops_around(last(ctx, Backward)))

    assert ask(EPOCHS.format(evaluation=evaluation), question) == is_validated


def test_a_validation_after_the_epochs_is_not_in_their_loop() -> None:
    code = EPOCHS.format(evaluation="print(epoch)") + PASS.format(loader="val_loader").replace("\n    ", "\n")
    assert ask(code, lambda ctx: ctx.has_validation(ctx.loops_around(last(ctx, Backward)))) is False


def test_what_an_expression_is_made_of() -> None:
    code = "a = net(x)\nb = a * 2\nother = 3\nF.mse_loss(b + c, y)\nb = other\n"

    def question(ctx: Context) -> list[str]:
        site = last(ctx, LossCall).site
        return [ast.unparse(each) for each in ctx.made_of(Site(site.module, site.node.args[0]), site.node.args[0])]

    assert ask(code, question)[:3] == ["b + c", "a * 2", "net(x)"]
    assert "other" not in ask(code, question)


DATASET = """
from torch.utils.data import Dataset, random_split
from torchvision import transforms

class Images(Dataset):
    def __init__(self):
        self.turned = transforms.Compose([transforms.RandomHorizontalFlip({given}), transforms.ToTensor()])
        self.plain = transforms.ToTensor()
    def __len__(self):
        return 9
    def __getitem__(self, index):
        image = read(index)
        return {sample}

whole = Images()
first, second = random_split(whole, [6, 3])
loader = DataLoader(first, batch_size=2)
all_of_it = DataLoader(whole, batch_size=2)
"""


def dataset(sample: str, given: str = "") -> str:
    return DATASET.format(sample=sample, given=given)


def test_the_transforms_of_a_sample() -> None:
    def question(ctx: Context) -> int:
        (_, _, whole), *_ = ctx.data.random_parts()
        return len(ctx.data.transformed(whole))

    assert ask(dataset("self.turned(image)"), question) == 1
    assert ask(dataset("self.turned(image), self.plain(read(index + 1))"), question) == 2
    assert ask(dataset("image"), question) == 0


@pytest.mark.parametrize(
    ("sample", "given", "kind"),
    [
        ("self.turned(image)", "", "RandomHorizontalFlip"),
        ("self.turned(image)", "p=0", ""),
        ("self.turned(image)", "1", ""),
        ("self.plain(image)", "", ""),
    ],
)
def test_transforms_that_move_pixels(sample: str, given: str, kind: str) -> None:
    def question(ctx: Context) -> str:
        (_, _, whole), *_ = ctx.data.random_parts()
        (call,) = ctx.data.transformed(whole)
        step = next(filter(ctx.is_random, ctx.data.moving_pixels(call.transform)), None)
        return step.kind.rpartition(".")[2] if step is not None else ""

    assert ask(dataset(sample, given), question) == kind


def test_parts_that_a_random_split_drew() -> None:
    names = ask(dataset("image"), lambda ctx: [loader.loader.hint for loader, _, _ in ctx.data.random_parts()])
    assert names == ["loader"]


OPTIONS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--num-layers", type=int, default=1)
args = parser.parse_args()
{use}
"""


@pytest.mark.parametrize(
    ("use", "is_read"),
    [
        ("print(args.rate)", True),
        ("print(getattr(args, 'rate'))", True),
        ("launch(**vars(args))", True),
        ("print(args.epochs)", False),
        ("rate = 0.1", False),
    ],
)
def test_whether_an_option_is_read(use: str, is_read: bool) -> None:
    def question(ctx: Context) -> bool:
        return ctx.is_option_read("rate", ctx.program.module)

    assert ask(OPTIONS.format(use=use), question) == is_read


@pytest.mark.parametrize(("name", "default"), [("rate", 0.1), ("num_layers", 1), ("layers", None), ("num", None)])
def test_the_default_of_an_option(name: str, default: object) -> None:
    assert ask(OPTIONS.format(use=""), lambda ctx: ctx.default_of_option(name)) == default


TEXTS = """
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
{setting}
batch = tokenizer({given})
"""


@pytest.mark.parametrize(
    ("given", "setting", "batches"),
    [
        ("['a', 'b c'], padding=True", "", 1),
        ("texts, padding='longest'", "", 1),
        ("'one text', padding=True", "", 0),
        ("['a', 'b c']", "", 0),
        ("['a', 'b c'], padding=True", "tokenizer.padding_side = 'left'", 0),
    ],
)
def test_batches_that_are_padded_at_the_right(given: str, setting: str, batches: int) -> None:
    def question(ctx: Context) -> list[LibraryCall]:
        return [batch.call for batch in ctx.padded_right()]

    assert len(ask(TEXTS.format(given=given, setting=setting), question)) == batches
