"""The models of diffusers."""
