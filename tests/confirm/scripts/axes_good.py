"""The models of ``axes_bad`` without their bugs, and others that let samples or tokens meet as they should."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
kept = []
SAMPLES, TIME, WORDS = 8, 6, 30


def loader():
    return DataLoader(TensorDataset(torch.randn(40, TIME, 12), torch.randint(0, 4, (40,))), batch_size=SAMPLES)


class Encoder(nn.Module):
    """Its batch norm mixes samples in training alone."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(12, 16, batch_first=True)
        self.mix, self.norm, self.head = nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x):
        steps, _ = self.encoder(x)  # REFUTED DL829
        batch, time, _ = steps.shape
        heads = self.mix(steps).view(batch, time, 4, 4).transpose(1, 2)
        weights = torch.softmax(heads @ heads.transpose(2, 3), -1)
        joined = (weights @ heads).transpose(1, 2).reshape(batch * time, 16)
        return self.head(self.norm(joined).view(batch, time, 16).mean(1))


def apart():
    model = Encoder()
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # REFUTED DL833
        optimizer.step()


class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.GRU(12, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.encoder(x.transpose(0, 1))[0])


def time_first():
    """The samples are along the second axis of what it returns."""
    model = TimeFirst()
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader():
        optimizer.zero_grad()
        F.cross_entropy(model(x)[-1], y).backward()  # REFUTED DL833
        optimizer.step()


class Contrast(nn.Module):
    """Compares each sample with all others, which is what it is for."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(12, 8), nn.Linear(12, 8)

    def forward(self, x):
        return F.normalize(self.left(x[:, 0])) @ F.normalize(self.right(x[:, 1])).T


def in_batch_negatives():
    model = Contrast()
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, _ in loader():
        optimizer.zero_grad()
        F.cross_entropy(model(x), torch.arange(len(x))).backward()  # NOT CONFIRMED DL833
        optimizer.step()


class Language(nn.Module):
    """Sees what was before; of the first tokens, ``prefix`` see each other."""

    def __init__(self, prefix=0):
        super().__init__()
        self.tokens, self.mix, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, 48), nn.Linear(16, WORDS)
        self.prefix = prefix

    def forward(self, ids):
        query, key, value = self.mix(self.tokens(ids)).chunk(3, -1)
        allowed = torch.ones(ids.shape[1], ids.shape[1]).tril().bool()
        allowed[: self.prefix, : self.prefix] = True
        return self.head(F.scaled_dot_product_attention(query, key, value, attn_mask=allowed))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.steps, self.head = nn.Embedding(WORDS, 8), nn.LSTM(8, 8), nn.Linear(8, WORDS)

    def forward(self, ids):
        return self.head(self.steps(self.tokens(ids))[0])


def next_tokens():
    causal, prefix, recurrent, filling = Language(), Language(prefix=8), Recurrent(), Language(prefix=12)
    parameters = [each for model in (causal, prefix, recurrent, filling) for each in model.parameters()]
    kept.extend((causal, prefix, recurrent, filling))
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for _ in range(4):
        text = torch.randint(0, WORDS, (4, 13))
        given, wanted = text[:, :-1], text[:, 1:]
        optimizer.zero_grad()
        F.cross_entropy(causal(given).flatten(0, 1), wanted.flatten()).backward()  # REFUTED DL832
        late = torch.where(torch.arange(12) < 8, -100, wanted)
        F.cross_entropy(prefix(given).flatten(0, 1), late.flatten()).backward()  # REFUTED DL832
        F.cross_entropy(recurrent(given.T).flatten(0, 1), wanted.T.flatten()).backward()  # REFUTED DL832
        masked = torch.where(torch.rand(4, 12) < 0.3, 0, given)
        F.cross_entropy(filling(masked).flatten(0, 1), given.flatten()).backward()  # NOT CONFIRMED DL832
        optimizer.step()


if __name__ == "__main__":
    for program in (apart, time_first, in_batch_negatives, next_tokens):
        program()
