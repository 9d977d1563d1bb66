"""Trains with a criterion and a transform that are modules, by a package that is installed elsewhere; is warned of
many things, and would be of more if what probes compute were shown."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from stepping import step

torch.manual_seed(0)


class Scale(nn.Module):
    def forward(self, x):
        return 2.0 * x


model, scale, criterion = nn.Linear(4, 1), Scale(), nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
scheduler.step()
for _ in range(3):
    loss = F.mse_loss(model(scale(torch.randn(1, 4))), torch.randn(1))
    step(optimizer, loss + criterion(model(torch.randn(1, 4)), torch.randn(1, 1, 1)))
print("STD", torch.randn(1).std())
filters = nn.Conv2d(1, 1, 1)
optimizer = torch.optim.SGD(filters.parameters(), lr=0.1)
for _ in range(3):
    step(optimizer, filters(torch.randn(1, 1, 1, 1)).sum())
