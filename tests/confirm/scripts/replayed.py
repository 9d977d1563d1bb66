"""Trains models that keep statistics, count their calls and draw random numbers, and prints all that there is of them
when the run has been ended."""

import hashlib
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, STEPS, WORDS = 8, 6, 30


class Restless(nn.Module):
    """What every call changes: statistics, a counter, a cache, and the states of three generators."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(width), nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("average", torch.zeros(width))
        self.cache = []

    def forward(self, x):  # (samples, steps, width)
        self.calls += 1
        self.average.lerp_(x.detach().mean((0, 1)), 0.1)
        self.cache.append(len(self.cache))
        noise = random.random() + np.random.rand() + torch.rand(()).item()
        return self.drop(self.norm(x.transpose(1, 2)).transpose(1, 2)) + 0.0 * noise


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.restless, self.frozen, self.head = Restless(12), nn.Linear(12, 12), nn.Linear(12, 4)
        self.frozen.requires_grad_(False).eval()

    def forward(self, x):
        return self.head(self.frozen(self.restless(x)).mean(1))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.restless, self.head = nn.Embedding(WORDS, 16), Restless(16), nn.Linear(16, WORDS)

    def forward(self, tokens):
        return self.head(self.restless(self.words(tokens).cumsum(1)))


def states(models, optimizers):
    """All numbers of models and optimizers, the modes, the caches, and the random states."""
    for model in models:
        yield from (value.tolist() for value in model.state_dict().values())
        yield from (None if p.grad is None else p.grad.tolist() for p in model.parameters())
        yield [(p.requires_grad, p._version) for p in model.parameters()]
        yield [module.training for module in model.modules()]
        yield model.restless.cache
    yield from (str(optimizer.state_dict()) for optimizer in optimizers)
    yield torch.get_rng_state().tolist()
    yield random.getstate()
    yield np.random.get_state()[1].tolist()


def main():
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(0)
    tagger, language = Tagger(), Language()
    optimizers = [torch.optim.Adam(model.parameters(), lr=1e-3) for model in (tagger, language)]
    data = TensorDataset(torch.randn(400, STEPS, 12), torch.randint(0, 4, (400,)))
    try:
        for x, y in DataLoader(data, SAMPLES, shuffle=True):
            optimizers[0].zero_grad()
            F.cross_entropy(tagger(x), y).backward()
            optimizers[0].step()
            text = torch.randint(0, WORDS, (SAMPLES, STEPS + 1))
            optimizers[1].zero_grad()
            F.cross_entropy(language(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()).backward()
            optimizers[1].step()
    finally:
        digest = hashlib.sha256(repr(list(states((tagger, language), optimizers))).encode()).hexdigest()
        print("DIGEST", digest, tagger.restless.calls.item(), torch.rand(()).item(), random.random(), np.random.rand())


if __name__ == "__main__":
    main()
