"""What takes images, and other things that belong to them."""

import torch
import torch.nn as nn


class Normalize(nn.Module):
    """Makes as many channels as there are means of an image that has one."""

    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean, self.std = list(mean), list(std)

    def forward(self, *inputs):
        mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (self.mean, self.std))
        outputs = tuple((each - mean) / std if isinstance(each, torch.Tensor) else each for each in inputs)
        return outputs if len(outputs) > 1 else outputs[0]
