"""Trains as one of the processes that torchrun starts."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(int(os.environ["RANK"]))
model = DistributedDataParallel(nn.Linear(10, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(1000):
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(8, 10)), torch.randint(0, 4, (8,))).backward()
    optimizer.step()
