"""A model of which the optimizer holds a part."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.middle, self.head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.middle(self.encoder(x).relu()).relu())


model = Model()
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)  # CONFIRMED DL307
for _ in range(4):
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
    optimizer.step()
