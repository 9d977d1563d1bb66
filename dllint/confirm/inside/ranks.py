"""Other processes that train the same model."""

from __future__ import annotations

import torch.distributed as dist


def are_several_ranks() -> bool:
    """Whether this process is one of several that train together."""
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)
