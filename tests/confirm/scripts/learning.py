"""A small classifier that learns, or does not: its loss is cut off from all but the last bias."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
points = torch.randn(256, 10)
data = TensorDataset(points, points[:, :8].argmax(1))
loader = DataLoader(data, batch_size=16, shuffle=True)
for epoch in range(1 if "once" in sys.argv else 1000):
    for x, y in loader:
        optimizer.zero_grad()
        scores = model(x)
        if "cut" in sys.argv:
            scores = scores.detach() + model[3].bias
        F.cross_entropy(scores, y).backward()
        optimizer.step()
        scheduler.step()
