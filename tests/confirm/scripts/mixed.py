"""One finding that a run bears out, one that it refutes, and one that it does not reach."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def train(epochs=1000):
    model = nn.Linear(10, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    data = TensorDataset(torch.randn(32, 10), torch.randint(0, 4, (32,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(F.softmax(model(x), dim=1), y)
            loss.backward()
            optimizer.step()
            scheduler.step()


def evaluate(model, x, y):
    return F.nll_loss(F.softmax(model(x), dim=1), y)


HANDLERS = {"evaluate": evaluate}  # for whoever imports this

print("ARGUMENTS", sys.argv[1:])
train()
