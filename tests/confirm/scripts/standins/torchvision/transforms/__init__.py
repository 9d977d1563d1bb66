"""Stands in for the transforms of torchvision."""

from torchvision.transforms.transforms import Compose as Compose
from torchvision.transforms.transforms import Normalize as Normalize
