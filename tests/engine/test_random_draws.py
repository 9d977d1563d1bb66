"""Code of the project that flips, crops or turns images by numbers that it draws itself is random augmentation."""

from __future__ import annotations

import pytest

from dllint.testing import check

HEAD = """
import random

import numpy as np
import torch
import torchvision.transforms.functional as TF
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms


class Flip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, image):
        {change}
        return image


class Gray:
    def __call__(self, image):
        return image.convert("L")

"""
CHANGES = [
    "if random.random() < self.p:\n            image = TF.hflip(image)",
    "if np.random.rand() > 0.5:\n            image = image[:, ::-1]",
    "if torch.rand(1).item() < 0.5:\n            image = image.transpose(FLIP_LEFT_RIGHT)",
    "angle = random.uniform(-10, 10)\n        image = TF.rotate(image, angle)",
    "coin = np.random.uniform()\n        image = np.flipud(image) if coin < 0.5 else image",
    "image = TF.adjust_brightness(image, random.uniform(0.8, 1.2))",
]
HARMLESS = [
    "image = TF.hflip(image)",
    "if self.p > 0.9 and False:\n            image = TF.hflip(image)",
    "if random.random() < 0.001:\n            print(image.shape)",
    "image = image + np.random.randn(*image.shape)",
    "seed = random.randint(0, 10)\n        print(seed)",
]
IN_COMPOSE = """
data = datasets.ImageFolder("data/val", transforms.Compose([
    Flip(),{mark}
    transforms.ToTensor(),
]))
val_loader = DataLoader(data, batch_size=8)
"""
BY_ITSELF = """
val_set = datasets.ImageFolder("data/val", transform=Flip()){mark}
val_loader = DataLoader(val_set, batch_size=8)
"""
IN_DATASET = """
class Pictures(Dataset):
    def __init__(self, folder, augment=True):
        self.p = 0.5
        self.files = list_files(folder)
        self.augment = augment

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = load(self.files[index])
        if self.augment:
            image = self.change(image)
        return image

    def change(self, image):
        {change}
        return image


train_set = Pictures("data/train")
val_set = Pictures("data/val"{given}){mark}
train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
val_loader = DataLoader(val_set, batch_size=8)
"""
MARK = "  # DL508"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("use", [IN_COMPOSE, BY_ITSELF])
def test_a_transform_of_the_project_that_draws_is_random(change: str, use: str) -> None:
    check("DL508", HEAD.format(change=change) + use.format(mark=MARK), vary=())


@pytest.mark.parametrize("change", HARMLESS)
@pytest.mark.parametrize("use", [IN_COMPOSE, BY_ITSELF])
def test_a_transform_of_the_project_that_changes_nothing_at_random(change: str, use: str) -> None:
    check("DL508", HEAD.format(change=change) + use.format(mark=""), vary=())


@pytest.mark.parametrize("change", CHANGES)
def test_a_dataset_that_draws_is_random(change: str) -> None:
    head = HEAD.format(change="pass")
    check("DL508", head + IN_DATASET.format(change=change, mark=MARK, given=""), vary=())
    check("DL508", head + IN_DATASET.format(change=change, mark="", given=", augment=False"), vary=())


@pytest.mark.parametrize("change", HARMLESS)
def test_a_dataset_that_changes_nothing_at_random(change: str) -> None:
    check("DL508", HEAD.format(change="pass") + IN_DATASET.format(change=change, mark="", given=""), vary=())


def test_a_transform_of_the_project_that_draws_nothing_is_known() -> None:
    """Training data without random steps says that evaluation is meant to be the harder one."""
    source = (
        HEAD.format(change="pass")
        + """
train_set = datasets.ImageFolder("data/train", transforms.Compose([Gray(), transforms.ToTensor()]))
val_set = datasets.ImageFolder("data/val", transforms.Compose([transforms.RandomRotation(10), transforms.ToTensor()]))
train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
val_loader = DataLoader(val_set, batch_size=8)
"""
    )
    check("DL508", source, vary=())
