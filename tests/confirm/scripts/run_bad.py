"""Bugs that show in the run as a whole, and not at a line."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

torch.manual_seed(0)


class Noisy(Dataset):
    def __init__(self):
        self.rng = random.Random(0)  # CONFIRMED DL401

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.tensor([float(index), self.rng.random()]), index % 3


class Drawing(Dataset):
    def __len__(self):
        return 33

    def __getitem__(self, index):
        return torch.tensor([float(index), random.random() + torch.rand(1).item()]), index % 3


class Unregistered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2) for _ in range(2)]  # CONFIRMED DL308
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def seed_all(worker):
    random.seed(7)  # CONFIRMED DL402
    torch.manual_seed(7)  # CONFIRMED DL403


def fit(model, loader, epochs, optimizer=None, set_to_none=True):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad(set_to_none)
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


points = TensorDataset(torch.randn(32, 2), torch.randint(0, 3, (32,)))
plain = DataLoader(points, batch_size=8, shuffle=True)

fit(nn.Linear(2, 3), DataLoader(Noisy(), batch_size=8, num_workers=2), epochs=2)
fit(nn.Linear(2, 3), DataLoader(Drawing(), batch_size=8, num_workers=2, worker_init_fn=seed_all), epochs=2)
fit(nn.Linear(2, 3), DataLoader(points, batch_size=8, sampler=DistributedSampler(points, 1, 0)), 2)  # CONFIRMED DL414
fit(Unregistered(), plain, epochs=1)



def replace_head():
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model[2] = nn.Linear(4, 3)  # CONFIRMED DL306
    fit(model, plain, 1, optimizer)


replace_head()
vain = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
vain[0].requires_grad = False  # CONFIRMED DL309
fit(vain, plain, epochs=1)

frozen = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
momentum = torch.optim.SGD(frozen.parameters(), lr=0.1, momentum=0.9)
fit(frozen, plain, 1, momentum, set_to_none=False)
frozen[0].requires_grad_(False)  # CONFIRMED DL601
fit(frozen, plain, 1, momentum, set_to_none=False)
