"""As much of torchvision as the scripts of ``confirm_injected.py`` use, with images that are made up.

No data has to be downloaded, and no library in C built: images are a pattern for each class under noise.
"""

from torchvision import datasets, transforms, utils

__all__ = ["datasets", "transforms", "utils"]
