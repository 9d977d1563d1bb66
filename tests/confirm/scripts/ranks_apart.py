"""Trains in two processes that share what they should not, or nothing that they should not, as the argument says."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from parting import leave_together
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        yield from ((torch.randn(10), 1) for _ in range(self.samples))


def train(rank, store, is_wrong):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0 if is_wrong else rank)
    layers = nn.Linear(10, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 4)
    model = DistributedDataParallel(nn.Sequential(*layers), broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    size = 2 if is_wrong else 32
    with model.join():
        for x, y in DataLoader(Stream(size * (4 + is_wrong * rank)), batch_size=size):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # DL516
            optimizer.step()
    part = distribute_tensor(torch.randn(4, 4), init_device_mesh("cpu", (2,)), [Shard(0)])
    if rank == 0 or not is_wrong:
        torch.save({"weight": part}, f"{rank}.pt")  # DL705
    leave_together(store, rank)


if __name__ == "__main__":
    mp.start_processes(train, (sys.argv[1], sys.argv[2] == "wrong"), nprocs=2, start_method="fork")
