"""What an autoencoder makes of images."""

import torch


class DiagonalGaussianDistribution:
    def __init__(self, parameters):
        self.mean, self.std = parameters.chunk(2, 1)

    def sample(self, generator=None):
        return self.mean + 0.1 * self.std * torch.randn(self.mean.shape, generator=generator)

    def mode(self):
        return self.mean
