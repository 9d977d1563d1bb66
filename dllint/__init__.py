"""dllint finds the bugs in training code that run to the end and leave a worse model."""

__version__ = "0.1.0"

SITE = ""
"""The address of the documentation, with a slash at its end: findings link to the pages of their rules there. It is
set where a release is built; as long as it is empty, there are no links."""
