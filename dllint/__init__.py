"""dllint finds the bugs in training code that run to the end and leave a worse model."""

__version__ = "0.1.0"
