"""The twins of missed_bad.py without their bugs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(0)


def mlp(*sizes):
    layers = [part for pair in zip(sizes, sizes[1:]) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def points(classes=2):
    return torch.randn(8, 4), torch.randint(0, classes, (8,))


def broken_loss():
    model = mlp(4, 8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)) - 1e3).square().sqrt().mean().backward()  # REFUTED loss-not-finite
        optimizer.step()  # REFUTED weights-not-finite


def no_rate():
    model = mlp(4, 8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # REFUTED learning-rate-zero


class Stream(IterableDataset):
    def __iter__(self):
        stored = torch.Generator().manual_seed(0)
        worker = torch.utils.data.get_worker_info()
        for index in range(worker.id, 48, worker.num_workers):
            yield torch.randn(4, generator=stored) + 0.1 * torch.randn(4), (7 * index) % 5


def changed_samples():
    model = mlp(4, 8, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(Stream(), batch_size=16, num_workers=2):  # REFUTED DL404
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 24)

    def forward(self, x):
        query, key, value = self.mix(x).chunk(3, -1)
        return F.scaled_dot_product_attention(query, key, value, dropout_p=0.2 if self.training else 0.0)  # REFUTED DL216


def dropping_attention():
    model = Attention()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model.train()
        optimizer.zero_grad()
        model(torch.randn(2, 3, 8)).square().mean().backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(2, 3, 8))


def labels_from_one():
    model = mlp(4, 8, 3)
    for _ in range(3):
        x, y = points()
        try:
            F.nll_loss(model(x).log_softmax(1), y)  # REFUTED DL514
        except IndexError:
            pass


def evaluation_first():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def validate():
        model.eval()
        with torch.no_grad():
            model(torch.randn(8, 4))

    for _ in range(3):
        validate()
        model.train()
        for _ in range(2):
            x, y = points()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # REFUTED DL208
            optimizer.step()


def broadcasting():
    model = mlp(4, 8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        ((model(torch.randn(8, 4)) - torch.randn(8, 1)) ** 2).mean().backward()  # REFUTED DL117
        optimizer.step()


def softmax_twice():
    model = mlp(4, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        x, y = points(3)
        optimizer.zero_grad()
        (-model(x).log_softmax(1)[torch.arange(8), y]).mean().backward()  # REFUTED DL101
        optimizer.step()


def learned_targets():
    model = mlp(4, 8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        target = torch.randn(8, 1) + 0.9 * model(torch.randn(8, 4)).detach()
        optimizer.zero_grad()
        (target - model(torch.randn(8, 4))).pow(2).mean().backward()  # NOT CONFIRMED DL956
        optimizer.step()
    for _ in range(4):
        target = torch.randn(8, 1) + 0.9 * model(torch.randn(8, 4)).detach()
        optimizer.zero_grad()
        F.mse_loss(target, model(torch.randn(8, 4))).backward()  # NOT CONFIRMED DL956
        optimizer.step()


def best_so_far():
    model = mlp(4, 8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max")
    x = torch.randn(64, 4)
    for best in (0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7):
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
            optimizer.step()
        scheduler.step(best)  # REFUTED DL315


def matrices_only():
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(10, 8), nn.Linear(8, 4)

    def forward(self, tokens, mask):
        return self.head((mask.softmax(-1) @ self.embed(tokens)).mean(1))


def attention_masks():
    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        mask = torch.full((6, 6), float("-inf")).triu(1)
        optimizer.zero_grad()
        scores = model(torch.randint(0, 10, (8, 6)), mask)  # NOT CONFIRMED input-not-finite, input-constant
        F.cross_entropy(scores, torch.randint(0, 4, (8,))).backward()
        optimizer.step()


def contrastive():
    model = mlp(4, 8, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        one, other = model(torch.randn(16, 4)), model(torch.randn(16, 4)).detach()
        scores = torch.cat([(one * other).sum(1, keepdim=True), one @ torch.randn(6, 32)], 1)
        optimizer.zero_grad()
        F.cross_entropy(scores, torch.zeros(16).long()).backward()  # NOT CONFIRMED labels-constant
        optimizer.step()


def indices_as_numbers():
    model = mlp(2, 8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(4):
        optimizer.zero_grad()
        scores = model(torch.randint(0, 900, (16, 2)).float())  # REFUTED input-range
        F.cross_entropy(scores, torch.randint(0, 2, (16,))).backward()
        optimizer.step()


def scheduled_per_epoch():
    model = mlp(4, 8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)
    for _ in range(5):
        for x, y in DataLoader([points() for _ in range(4)], batch_size=None):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        scheduler.step()  # NOT CONFIRMED DL304


if __name__ == "__main__":
    broken_loss()
    no_rate()
    changed_samples()
    dropping_attention()
    labels_from_one()
    evaluation_first()
    broadcasting()
    softmax_twice()
    learned_targets()
    best_so_far()
    matrices_only()
    attention_masks()
    contrastive()
    indices_as_numbers()
    scheduled_per_epoch()
