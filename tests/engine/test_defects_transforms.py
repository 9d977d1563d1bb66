"""Transforms that are assigned in both arms of an ``if``, and loops that clear gradients without computing any."""

from __future__ import annotations

import textwrap

from dllint.testing import check

HEAD = """
import argparse
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms as T
parser = argparse.ArgumentParser()
parser.add_argument("--gray", action="store_true")
args = parser.parse_args()
"""


def program(text: str) -> str:
    return HEAD + textwrap.dedent(text)


def test_a_normalize_that_is_chosen_in_both_arms() -> None:
    source = """
    if args.gray:
        normalize = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.255))  # DL507
    else:
        normalize = T.Normalize((0.5,), (0.5,))
    transform = T.Compose([T.ToTensor(), normalize])
    data = datasets.CIFAR10("data", transform=transform)
    """
    check("DL507", program(source), vary=())


def test_a_step_that_is_chosen_in_both_arms() -> None:
    source = """
    if args.gray:
        first = T.Grayscale(3)
    else:
        first = T.Normalize((0.5,), (0.5,))
    transform = T.Compose([first, T.ToTensor()])  # DL501
    """
    check("DL501", program(source), vary=())


def test_a_step_that_is_chosen_last() -> None:
    source = """
    if args.gray:
        steps = [T.ToTensor(), T.Normalize((0.5,), (0.5,))]
    else:
        steps = [T.Normalize((0.5,), (0.5,)), T.ToTensor()]
    transform = T.Compose(steps)  # DL501
    """
    check("DL501", program(source), vary=())


def test_steps_that_are_chosen_with_something_unknown() -> None:
    source = """
    if args.gray:
        steps = [T.Normalize((0.5,), (0.5,)), T.ToTensor()]
    else:
        steps = make_steps()
    transform = T.Compose(steps)  # DL501
    """
    check("DL501", program(source), vary=())


def test_conversion_in_one_arm_and_normalisation_in_the_other() -> None:
    source = """
    if args.gray:
        first, last = T.ToTensor(), T.Resize(4)
    else:
        first, last = T.Resize(4), T.Normalize((0.5,), (0.5,))
    transform = T.Compose([first, T.ToTensor(), last])
    """
    check("DL501", program(source), vary=())


def test_a_composition_that_is_chosen_in_both_arms() -> None:
    source = """
    if args.gray:
        transform = T.Compose([T.RandomCrop(8, 4), T.Grayscale(), T.ToTensor()])
    else:
        transform = T.Compose([T.RandomCrop(8, 4), T.ToTensor()])  # DL508
    test_set = datasets.CIFAR10("data", train=False, transform=transform)
    for x, y in DataLoader(test_set, batch_size=8):
        print(x)
    """
    check("DL508", program(source), vary=())


def test_a_composition_that_a_dataset_chooses() -> None:
    source = """
    class Images(Dataset):
        def __init__(self, split, gray):
            if gray:
                self.transform = T.Compose([T.RandomHorizontalFlip(), T.Grayscale(), T.ToTensor()])
            else:
                self.transform = T.Compose([T.RandomHorizontalFlip(), T.ToTensor()])  # DL508

        def __getitem__(self, index):
            return self.transform(self.load(index))

    for x in DataLoader(Images("val", args.gray)):
        print(x)
    """
    check("DL508", program(source), vary=())


def test_clearing_gradients_does_not_make_training() -> None:
    source = """
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    augment = T.Compose([T.RandomCrop(8, 4), T.ToTensor()])  # DL508
    held_out = datasets.CIFAR10("data", train=False, transform=augment)
    for x, y in DataLoader(held_out):
        optimizer.zero_grad()
        print(model(x))
    """
    check("DL508", program(source), vary=())
