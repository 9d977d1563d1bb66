"""The programs of ``training_bad`` without their bugs, and others that look like them."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical
from training_bad import Accuracy, fit, mlp, points, texts

torch.manual_seed(0)


def targets():
    model = mlp(10, 4)
    for _ in range(4):
        x, y = points()
        F.cross_entropy(model(x), F.one_hot(y, 4).float())  # REFUTED DL105
        F.cross_entropy(model(x), y)  # REFUTED DL105
        F.binary_cross_entropy_with_logits(model(x), F.one_hot(y, 4).float())  # REFUTED DL107


def means_over_what_counts():
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    for _ in range(4):
        tokens = texts()
        mask = (tokens != 0).float()
        scores = model(tokens).transpose(1, 2)
        loss = F.cross_entropy(scores, tokens, reduction="none")
        ((loss * mask).sum() / mask.sum()).backward(retain_graph=True)  # REFUTED DL109
        ((loss * mask).mean() / mask.mean()).backward(retain_graph=True)  # REFUTED DL109
        loss[tokens != 0].mean().backward(retain_graph=True)  # REFUTED DL109
        ((loss * mask).mean() * (mask.numel() / mask.sum().item())).backward(retain_graph=True)  # REFUTED DL109
        (loss * torch.rand(8, 12)).mean().backward()  # NOT CONFIRMED DL109


def masks_of_another_kind():
    """Half of the squares are dropped at random, and a mean over them is meant."""
    model = mlp(10, 16, 4)
    for _ in range(4):
        kept = torch.tensor([1.0] * 3 + [0.0])
        F.dropout((model(torch.randn(8, 10)) ** 2), 0.5).mean().backward()  # NOT CONFIRMED DL109
        (model(torch.randn(8, 10)) * kept).mean().backward()  # NOT CONFIRMED DL109


def metric_ignores_padding():
    model, accuracy = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20)), Accuracy(ignore_index=0)
    whole = Accuracy()
    for _ in range(4):
        tokens = texts()
        scores = model(tokens)
        F.cross_entropy(scores.transpose(1, 2), tokens, ignore_index=0).backward()
        accuracy(scores.argmax(-1), tokens)  # REFUTED DL110
        whole(scores.argmax(-1)[tokens != 0], tokens[tokens != 0])  # REFUTED DL110


def distributions():
    actor = mlp(4, 16, 3)
    for _ in range(4):
        Categorical(logits=actor(torch.randn(8, 4))).sample()  # REFUTED DL116
        Categorical(logits=actor(torch.randn(8, 4)).log_softmax(-1)).sample()  # REFUTED DL116
        Categorical(actor(torch.randn(8, 4)).softmax(-1)).sample()  # NOT CONFIRMED DL116


def stepped_in_order():
    model, other = mlp(10, 16, 4), mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        other(x)
        optimizer.step()  # REFUTED DL204


def stepped_a_step_later():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.step()  # NOT CONFIRMED DL204
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()


def half_precision():
    model = mlp(10, 16, 4).half()
    fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-5))  # REFUTED DL310, DL316
    model = mlp(10, 16, 4).half()
    fit(model, torch.optim.SGD(model.parameters(), lr=1e-2))  # NOT CONFIRMED DL310
    model = mlp(10, 16, 4)
    fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3))  # REFUTED DL310, DL316
    model = mlp(10, 16, 4).bfloat16()
    fit(model, torch.optim.AdamW(model.parameters(), lr=3e-2))  # REFUTED DL310, DL316


def warming_up_in_bfloat16():
    model = mlp(10, 16, 4).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 1000)
    for _ in range(8):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x.bfloat16()).float(), y).backward()
        optimizer.step()  # NOT CONFIRMED DL316
        schedule.step()


def targets_without_gradients():
    values = mlp(4, 16, 2)
    target = copy.deepcopy(values)
    optimizer = torch.optim.Adam(values.parameters())
    for _ in range(4):
        now, following, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)
        with torch.no_grad():
            wanted = reward + 0.99 * target(following).max(1).values
        other = reward + 0.99 * target(following).max(1).values  # of a network that no optimizer holds
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(values(now)[:, 0], wanted)  # REFUTED DL956
        loss = loss + F.smooth_l1_loss(values(now)[:, 1], other)  # NOT CONFIRMED DL956
        loss.backward()
        optimizer.step()


def both_sides_of_a_loss():
    """Views of the same samples that are to agree, and an equation that is to hold."""
    model, field = mlp(10, 16, 4), mlp(1, 16, 1)
    for _ in range(4):
        x, _ = points()
        F.mse_loss(model(x), model(x + 0.1 * torch.randn_like(x))).backward()  # NOT CONFIRMED DL956
        t = torch.rand(8, 1, requires_grad=True)
        slope = torch.autograd.grad(field(t).sum(), t, create_graph=True)[0]
        F.mse_loss(slope, torch.sin(t.detach()) + 0.9 * field(t)).backward()  # NOT CONFIRMED DL956


def advantages():
    policy = mlp(4, 16, 2)
    for reward in (torch.randn(5), torch.ones(4), torch.randn(4), torch.randn(2)):
        gains = (reward - reward.mean()) / (reward.std() + 1e-8)  # REFUTED DL951
        (-(policy(torch.randn(len(reward), 4)).log_softmax(1)[:, 0] * gains).mean()).backward()


def deviations_that_are_shown():
    model = mlp(10, 4)
    for size in (3, 1, 2):
        x, y = points(size)
        loss = F.cross_entropy(model(x), y, reduction="none")
        print(f"{loss.detach().mean():.3f} +- {loss.detach().std():.3f}")  # REFUTED DL951
        loss.mean().backward()


if __name__ == "__main__":
    for program in (
        targets, means_over_what_counts, masks_of_another_kind, metric_ignores_padding, distributions, stepped_in_order,
        stepped_a_step_later, half_precision, warming_up_in_bfloat16, targets_without_gradients, both_sides_of_a_loss,
        advantages, deviations_that_are_shown,
    ):  # fmt: skip
        program()
