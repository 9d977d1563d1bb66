"""How the processes of a script part."""

import atexit
import os
import sys
import time
from pathlib import Path

import torch.distributed as dist


def leave_together(store, rank, ranks=2):
    """Close the connections when every process has done with them.

    gloo fails in a process whose peer closes them first, even after a barrier: pytorch/gloo#155.
    """
    _wait_for_others(store, rank, ranks)
    dist.destroy_process_group()


def end_together(store, rank, ranks=2):
    """End a process that was spawned as those end that are forked: without the destructors of what torch has loaded.

    Now and then they abort a process that has had a process group ("terminate called without an active exception").
    """
    _wait_for_others(store, rank, ranks)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _wait_for_others(store, rank, ranks):
    Path(f"{store}.{rank}").touch()
    deadline = time.monotonic() + 60
    while not all(Path(f"{store}.{other}").exists() for other in range(ranks)) and time.monotonic() < deadline:
        time.sleep(0.01)
