"""Data sets of images that are made up, of the sizes and types that the real ones have."""

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


class _Images(Dataset):
    size: tuple = (28, 28)
    classes = [str(number) for number in range(10)]

    def __init__(self, root=None, train=True, transform=None, target_transform=None, download=False):
        self.transform, self.target_transform, self.train = transform, target_transform, train
        random = np.random.default_rng(0)
        patterns = random.integers(0, 256, (10, *self.size)) * (random.random((10, *self.size)) < 0.2)
        random = np.random.default_rng(1 + train)
        self.targets = torch.from_numpy(random.integers(0, 10, 1024 if train else 256))
        noise = random.integers(0, 64, (len(self.targets), *self.size))
        images = np.clip(patterns[self.targets.numpy()] + noise, 0, 255).astype(np.uint8)
        self.data = torch.from_numpy(images)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        image = Image.fromarray(self.data[index].numpy())
        label = int(self.targets[index])
        return (
            image if self.transform is None else self.transform(image),
            label if self.target_transform is None else self.target_transform(label),
        )


class MNIST(_Images):
    pass


class FashionMNIST(_Images):
    pass


class CIFAR10(_Images):
    size = (32, 32, 3)


class FakeData(_Images):
    size = (64, 64, 3)

    def __init__(self, size=1000, image_size=(3, 64, 64), num_classes=10, transform=None, target_transform=None):
        self.size = (*image_size[1:], image_size[0])
        super().__init__(None, True, transform, target_transform)
