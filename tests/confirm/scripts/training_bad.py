"""Losses, optimizers and metrics with one bug each, as in ``loops_bad``."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

torch.manual_seed(0)


def mlp(*sizes):
    layers = [part for pair in zip(sizes, sizes[1:]) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def points(batch=8):
    return torch.randn(batch, 10), torch.randint(0, 4, (batch,))


def fit(model, optimizer, steps=6):
    for _ in range(steps):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x.to(model[0].weight.dtype)).float(), y).backward()
        optimizer.step()


def texts():
    tokens = torch.randint(1, 20, (8, 12))
    for row, length in enumerate(torch.randint(3, 9, (8,))):
        tokens[row, length:] = 0
    return tokens


class Accuracy(nn.Module):
    """A metric as those of torchmetrics are."""

    def __init__(self, ignore_index=None):
        super().__init__()
        self.ignore_index, self.right, self.total = ignore_index, 0, 0

    def update(self, preds, target):
        counts = target != (-1 if self.ignore_index is None else self.ignore_index)
        self.right += int((preds == target)[counts].sum())
        self.total += int(counts.sum())

    def compute(self):
        return self.right / self.total

    def forward(self, preds, target):
        self.update(preds, target)
        return self.compute()


def integer_one_hot():
    x, y = points()
    try:
        F.cross_entropy(mlp(10, 4)(x), F.one_hot(y, 4))  # CONFIRMED DL105
    except RuntimeError as error:
        print(error)


def integer_targets():
    x, y = points()
    try:
        F.binary_cross_entropy_with_logits(mlp(10, 4)(x), F.one_hot(y, 4))  # CONFIRMED DL107
    except RuntimeError as error:
        print(error)


def mean_over_masked():
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    for _ in range(4):
        tokens = texts()
        loss = F.cross_entropy(model(tokens).transpose(1, 2), tokens, reduction="none")
        (loss * (tokens != 0)).mean().backward()  # CONFIRMED DL109


def mean_over_ignored():
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    for _ in range(4):
        tokens = texts()
        loss = F.cross_entropy(model(tokens).view(-1, 20), tokens.view(-1), ignore_index=0, reduction="none")
        (loss.mean() / 4).backward()  # CONFIRMED DL109


def metric_counts_padding():
    model, accuracy = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20)), Accuracy(ignore_index=-100)
    for _ in range(4):
        tokens = texts()
        scores = model(tokens)
        F.cross_entropy(scores.transpose(1, 2), tokens, ignore_index=0).backward()
        accuracy(scores.argmax(-1), tokens)  # CONFIRMED DL110


def distribution_of_probabilities():
    actor = mlp(4, 16, 3)
    for _ in range(4):
        Categorical(logits=actor(torch.randn(8, 4)).softmax(-1)).sample()  # CONFIRMED DL116


def stepped_before_backward():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        optimizer.step()  # CONFIRMED DL204
        loss.backward()


def default_eps_in_float16():
    model = mlp(10, 16, 4).half()
    fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3))  # CONFIRMED DL310


def wild_steps_in_float16():
    model = mlp(10, 16, 4).half()
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7))  # CONFIRMED DL310


def lost_updates():
    model = mlp(10, 16, 4).bfloat16()
    fit(model, torch.optim.AdamW(model.parameters(), lr=1e-4))  # CONFIRMED DL316


def gradients_through_the_target():
    values = mlp(4, 16, 2)
    optimizer = torch.optim.Adam(values.parameters())
    for _ in range(4):
        now, following, reward, done = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8), torch.zeros(8)
        target = reward + 0.99 * (1 - done) * values(following).max(1).values
        optimizer.zero_grad()
        F.smooth_l1_loss(values(now)[:, 0], target).backward()  # CONFIRMED DL956
        optimizer.step()


def advantages_of_one_sample():
    policy = mlp(4, 16, 2)
    for steps in (5, 4, 1):
        returns = torch.randn(steps)
        gains = (returns - returns.mean()) / (returns.std() + 1e-8)  # CONFIRMED DL951
        (-(policy(torch.randn(steps, 4)).log_softmax(1)[:, 0] * gains).mean()).backward()


def equal_rewards():
    policy = mlp(4, 16, 2)
    for reward in (torch.randn(4), torch.ones(4)):
        gains = (reward - reward.mean()) / reward.std()  # CONFIRMED DL951
        (-(policy(torch.randn(4, 4)).log_softmax(1)[:, 0] * gains).mean()).backward()


if __name__ == "__main__":
    for program in (
        integer_one_hot, integer_targets, mean_over_masked, mean_over_ignored, metric_counts_padding,
        distribution_of_probabilities, stepped_before_backward, default_eps_in_float16, wild_steps_in_float16,
        lost_updates, gradients_through_the_target, advantages_of_one_sample, equal_rewards,
    ):  # fmt: skip
        program()
