"""Stands in for diffusers."""
