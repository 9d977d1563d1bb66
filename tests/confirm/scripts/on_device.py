"""Runs a script that names no device on one: ``python on_device.py DEVICE SCRIPT [ARGUMENT...]``."""

import runpy
import sys

import torch

permuted = torch.randperm


def randperm(*arguments, generator=None, **named):
    """As samplers call it, whose generators are those of the CPU."""
    if generator is not None:
        named.setdefault("device", generator.device)
    return permuted(*arguments, generator=generator, **named)


torch.randperm = randperm
torch.set_default_device(sys.argv[1])
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
