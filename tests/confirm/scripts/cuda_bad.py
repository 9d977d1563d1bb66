"""Training on a GPU with one bug in each loop."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda")


class Net(nn.Module):
    def __init__(self, last=None):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(16, 4)
        self.last = last or nn.Identity()

    def forward(self, x):
        return self.last(self.head(self.body(x).mean((2, 3))))


def images(samples=64):
    return TensorDataset(torch.randn(samples, 3, 8, 8), torch.randint(0, 4, (samples,)))


def batches(shuffle=True):
    for x, y in DataLoader(images(), 8, shuffle=shuffle, num_workers=2, pin_memory=True):
        yield x.to(device, non_blocking=True), y.to(device, non_blocking=True)


def softmax_under_autocast():
    model = Net(nn.Softmax(dim=1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(x), y)  # CONFIRMED DL101
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def gradients_never_cleared():
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches():
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)  # CONFIRMED DL202
        scaler.update()


def clipped_while_scaled():
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # CONFIRMED DL213
        scaler.step(optimizer)
        scaler.update()


def scaled_for_bfloat16():
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)  # CONFIRMED DL802
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def parameters_in_float16():
    model = Net().to(device).half()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # CONFIRMED DL310
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x.half()).float(), y).backward()
        optimizer.step()


def dropping_while_compiled():
    model = Net().to(device)
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for x, y in batches():
            optimizer.zero_grad()
            F.cross_entropy(compiled(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for x, y in batches(shuffle=False):
                F.cross_entropy(compiled(x), y)  # CONFIRMED DL207


def shapes_that_broadcast():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        x = torch.randn(8, 8, device=device)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.sum(1)).backward()  # CONFIRMED DL117
        optimizer.step()


softmax_under_autocast()
gradients_never_cleared()
clipped_while_scaled()
scaled_for_bfloat16()
parameters_in_float16()
dropping_while_compiled()
shapes_that_broadcast()
