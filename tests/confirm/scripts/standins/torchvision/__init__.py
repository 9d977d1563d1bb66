"""Stands in for torchvision."""
