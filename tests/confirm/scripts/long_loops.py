"""Correct loops of so many short steps that observing rests."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
kept = []


def net(*sizes):
    layers = [layer for pair in zip(sizes, sizes[1:]) for layer in (nn.Linear(*pair), nn.ReLU(), nn.Dropout(0.1))]
    model = nn.Sequential(*layers[:-2])
    kept.append(model)
    return model


def accumulating():
    """Four backward passes to a step, an evaluation now and then, and a schedule."""
    model = net(8, 16, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1200)
    x = torch.randn(160, 8)
    data = TensorDataset(x, x[:, :3].argmax(1))
    train, test = DataLoader(data, 8, shuffle=True), DataLoader(data, 40)
    for epoch in range(240):
        model.train()
        for number, (inputs, labels) in enumerate(train):
            (F.cross_entropy(model(inputs), labels) / 4).backward()
            if number % 4 == 3:
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        if epoch % 20 == 0:
            model.eval()
            with torch.no_grad():
                for inputs, labels in test:
                    F.cross_entropy(model(inputs), labels)


def adversarial():
    """Two optimizers take turns: the gradients that one sends to the other's parameters are cleared later."""
    maker, judge = net(4, 16, 8), net(8, 16, 1)
    makers, judges = torch.optim.Adam(maker.parameters(), lr=1e-3), torch.optim.Adam(judge.parameters(), lr=1e-3)
    for _ in range(600):
        made, real = maker(torch.randn(16, 4)), torch.randn(16, 8)
        judges.zero_grad()
        F.softplus(judge(made.detach()) - judge(real)).mean().backward()
        judges.step()
        makers.zero_grad()
        kept.append(F.mse_loss(made, real).item())  # to be logged: it is no part of what goes backward
        F.softplus(-judge(made)).mean().backward()
        makers.step()


def by_hand():
    model = net(8, 16, 1)
    x = torch.randn(64, 8)
    for _ in range(1500):
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None


accumulating()
adversarial()
by_hand()
