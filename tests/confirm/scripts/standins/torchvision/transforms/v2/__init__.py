"""The second version of the transforms."""

from torchvision.transforms.v2._misc import Normalize as Normalize
