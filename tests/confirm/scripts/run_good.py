"""The runs of ``run_bad`` without their bugs."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset, get_worker_info

torch.manual_seed(0)


class Noisy(Dataset):
    rng = None

    def __len__(self):
        return 32

    def __getitem__(self, index):
        if self.rng is None:
            self.rng = random.Random(get_worker_info().seed)
            self.rng.random()
        return torch.tensor([float(index), self.rng.random()]), index % 3


class Seeded(Dataset):
    def __init__(self):
        self.rng = random.Random()  # REFUTED DL401

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return torch.tensor([float(index), self.rng.random()]), index % 3


class Drawing(Dataset):
    def __len__(self):
        return 33

    def __getitem__(self, index):
        return torch.tensor([float(index), random.random() + torch.rand(1).item()]), index % 3  # REFUTED DL402, DL403


class Registered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))  # REFUTED DL308
        self.head = nn.Linear(2, 3)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def seed_generator(worker):
    get_worker_info().dataset.rng.seed(get_worker_info().seed)


def fit(model, loader, epochs, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        if isinstance(loader.sampler, DistributedSampler):
            next(iter(loader))  # a look at a batch, in the order of the epoch before, is no epoch
            loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


points = TensorDataset(torch.randn(32, 2), torch.randint(0, 3, (32,)))
plain = DataLoader(points, batch_size=8, shuffle=True)

fit(nn.Linear(2, 3), DataLoader(Noisy(), batch_size=8, num_workers=2), epochs=2)
fit(nn.Linear(2, 3), DataLoader(Seeded(), batch_size=8, num_workers=2, worker_init_fn=seed_generator), epochs=2)
fit(nn.Linear(2, 3), DataLoader(Drawing(), batch_size=8, num_workers=2), epochs=2)
fit(nn.Linear(2, 3), DataLoader(points, batch_size=8, sampler=DistributedSampler(points, 1, 0)), 2)  # REFUTED DL414
fit(Registered(), plain, epochs=1)

replaced = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 5))
replaced[2] = nn.Linear(4, 3)  # REFUTED DL306
fit(replaced, plain, 1, torch.optim.SGD(replaced.parameters(), lr=0.01))

frozen = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
frozen[0].requires_grad_(False)  # REFUTED DL309, DL601
fit(frozen, plain, 2, torch.optim.SGD(frozen.parameters(), lr=0.1, momentum=0.9))
