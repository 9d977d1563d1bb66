"""Trains in two processes that exchange gradients."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from parting import end_together, leave_together
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(rank, store):  # a file, since a port that is free now may be taken a moment later
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4)))
    if "moved" in sys.argv:
        model = model.double().float()  # the reducer keeps to the tensors that it knew
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(64, 10), torch.randint(0, 4, (64,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=None if "shared" in sys.argv else sampler)
    dist.all_reduce(torch.zeros(3))
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    total = float(sum(p.double().sum() for p in model.parameters()))
    os.write(1, f"DIGEST {rank} {total!r} {torch.rand(1).item()!r}\n".encode())  # at once, as two processes write
    is_forked = "fork" in sys.argv or "by-hand" in sys.argv
    (leave_together if is_forked else end_together)(store, rank)


def fork_by_hand():
    """Two processes of which the modules of Python know nothing."""
    for rank in range(2):
        if os.fork() == 0:
            train(rank, sys.argv[1])
            sys.exit()
    for _ in range(2):
        os.wait()


if __name__ == "__main__":
    if "by-hand" in sys.argv:
        fork_by_hand()
    else:
        start = "fork" if "fork" in sys.argv else "spawn"
        mp.start_processes(train, (sys.argv[1],), nprocs=2, start_method=start)
