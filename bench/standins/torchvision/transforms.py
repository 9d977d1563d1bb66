"""Transforms of images, one sample at a time."""

import random

import numpy as np
import torch
from PIL import Image, ImageOps


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class ToTensor:
    def __call__(self, image):
        pixels = np.array(image)
        pixels = pixels[..., None] if pixels.ndim == 2 else pixels
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous().float().div(255)


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = mean, std

    def __call__(self, tensor):
        mean, std = (torch.as_tensor(each, dtype=tensor.dtype).view(-1, 1, 1) for each in (self.mean, self.std))
        return (tensor - mean) / std


class Resize:
    def __init__(self, size, interpolation=None):
        self.size = (size, size) if isinstance(size, int) else tuple(size)

    def __call__(self, image):
        return image.resize(self.size[::-1], Image.BILINEAR)


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        return ImageOps.fit(image, (self.size, self.size))


class Pad:
    def __init__(self, padding):
        self.padding = padding

    def __call__(self, image):
        return ImageOps.expand(image, self.padding)


class RandomCrop:
    def __init__(self, size, padding=0):
        self.size, self.padding = size, padding

    def __call__(self, image):
        image = ImageOps.expand(image, self.padding)
        left, top = (random.randint(0, most - self.size) for most in image.size)
        return image.crop((left, top, left + self.size, top + self.size))


class RandomHorizontalFlip:
    def __call__(self, image):
        return ImageOps.mirror(image) if random.random() < 0.5 else image
