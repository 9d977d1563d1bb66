"""The autoencoders of diffusers."""

from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL as AutoencoderKL
