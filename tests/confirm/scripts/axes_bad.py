"""Models that mix samples or see what comes later, as in ``loops_bad``."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
kept = []  # what is tried out at the end has to exist then
SAMPLES, TIME, WORDS = 8, 6, 30


def train(model, calls):
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(40, TIME, 12), torch.randint(0, 4, (40,))), batch_size=SAMPLES)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(calls(x), y).backward()
        optimizer.step()


class TimeForBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.LSTM(12, 16), nn.Linear(16, 4)

    def forward(self, x):
        steps, _ = self.encoder(x)  # CONFIRMED DL829, DL833
        return self.head(steps[:, -1])


class Heads(nn.Module):
    """Attention whose axes are exchanged by a view."""

    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(12, 12), nn.Linear(12, 4)

    def forward(self, x):
        batch, time, features = x.shape
        steps = self.mix(x).view(time, batch, features)  # CONFIRMED DL821, DL833
        return self.head(steps.mean(0))


class OverBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.head = nn.Linear(12, 1), nn.Linear(12, 4)

    def forward(self, x):
        weights = self.score(x).softmax(0)  # CONFIRMED DL823, DL833
        return self.head((weights * x).sum(1))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.mix, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, 48), nn.Linear(16, WORDS)

    def forward(self, ids):
        query, key, value = self.mix(self.tokens(ids)).chunk(3, -1)
        return self.head(F.scaled_dot_product_attention(query, key, value))


def seen_future(model):
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        text = torch.randint(0, WORDS, (4, 13))
        optimizer.zero_grad()
        scores = model(text[:, :-1])  # CONFIRMED DL832
        F.cross_entropy(scores.reshape(-1, WORDS), text[:, 1:].reshape(-1)).backward()
        optimizer.step()


if __name__ == "__main__":
    for model in (TimeForBatch(), Heads(), OverBatch()):
        train(model, model)
    seen_future(Language())
