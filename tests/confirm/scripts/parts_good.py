"""Models all of whose parts some optimizer holds, or that are not trained."""

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


def fit(model, *optimizers):
    for _ in range(4):
        for optimizer in optimizers:
            optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
        for optimizer in optimizers:
            optimizer.step()


model = Model()
head = torch.optim.SGD(model.head.parameters(), lr=0.1)  # REFUTED DL306, DL307
fit(model, torch.optim.Adam([*model.encoder.parameters(), *model.middle.parameters()]), head)

fixed = Model()
fixed.encoder.requires_grad_(False)
fixed.middle.requires_grad_(False)
fit(fixed, torch.optim.SGD(fixed.head.parameters(), lr=0.1))
