"""An autoencoder whose configuration says how its latents are to be scaled."""

from types import SimpleNamespace

import torch.nn as nn
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution


class AutoencoderKL(nn.Module):
    def __init__(self, scaling_factor=0.18215, shift_factor=None):
        super().__init__()
        self.config = SimpleNamespace(scaling_factor=scaling_factor, shift_factor=shift_factor)
        self.encoder = nn.Conv2d(3, 8, 4, 2, 1)

    def encode(self, x, return_dict=True):
        hidden = self.encoder(x)
        scaled = (hidden - hidden.mean()) / hidden.std() / self.config.scaling_factor
        posterior = DiagonalGaussianDistribution(scaled + (self.config.shift_factor or 0))
        return SimpleNamespace(latent_dist=posterior) if return_dict else (posterior,)
