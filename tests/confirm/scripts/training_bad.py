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


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.drop, self.head = nn.Linear(10, 16), nn.Dropout(0.3), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.drop(self.body(x).relu()))


def evaluated_for_good():
    model = Dropping()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for _ in range(4):
            x, y = points()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # CONFIRMED DL208
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(points()[0])


def evaluated_with_gradients():
    model, right = Dropping(), 0
    model.eval()
    for _ in range(4):
        x, y = points()
        right += int((model(x).argmax(1) == y).sum())  # CONFIRMED DL209


def summed_in_evaluation():
    model, total = Dropping().eval(), 0.0
    for _ in range(8):
        x, y = points()
        total = total + F.cross_entropy(model(x), y)  # CONFIRMED DL211
    return float(total)


def summed_in_training():
    model, history = mlp(10, 16, 4), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        x, y = points()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)  # CONFIRMED DL211
        loss.backward()
        optimizer.step()
        history.append(loss)


def made_in_each_step():
    model = mlp(10, 16, 4)
    for _ in range(4):
        x, y = points()
        optimizer = torch.optim.Adam(model.parameters())  # CONFIRMED DL217
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.core, self.head = nn.GRU(4, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.core(x)[0][:, -1])


def last_step_of_both_ways():
    model = Both()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        scores = model(torch.randn(8, 5, 4))  # CONFIRMED DL219
        F.cross_entropy(scores, torch.randint(0, 3, (8,))).backward()
        optimizer.step()


class Hasty(torch.optim.SGD):
    """Steps twice as far where it is fused."""

    def step(self, closure=None):
        for p in self.param_groups[0]["params"] if self.defaults["fused"] else ():
            p.grad.mul_(2)
        super().step()


def fused_otherwise():
    Hasty.__module__ = "torch.optim.hasty"
    model = mlp(10, 16, 4)
    fit(model, Hasty(model.parameters(), lr=0.1, fused=True))  # CONFIRMED DL311


def rate_of_the_next_step():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    for _ in range(4):
        fit(model, optimizer, 1)
        schedule.step()
        print(schedule.get_lr())  # CONFIRMED DL313


def plateau_of_accuracy():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=10)
    learn(model, optimizer, lambda loss, accuracy: schedule.step(accuracy))  # CONFIRMED DL315


def plateau_of_nothing():
    optimizer = torch.optim.SGD(mlp(10, 4).parameters(), lr=0.5)
    try:
        torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer).step()  # CONFIRMED DL315
    except TypeError as error:
        print(error)


def learn(model, optimizer, told):
    """Learn what can be learnt, so that the loss falls and the accuracy grows."""
    x = torch.randn(64, 10)
    y = x[:, :4].argmax(1)
    for _ in range(6):
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        told(loss.item(), (model(x).argmax(1) == y).float().mean().item())


def another_shape():
    try:
        mlp(10, 16, 4).load_state_dict(mlp(10, 16, 3).state_dict(), strict=False)  # CONFIRMED DL603
    except RuntimeError as error:
        print(error)


def other_names():
    state = {f"module.{name}": value for name, value in mlp(10, 16, 4).state_dict().items()}
    mlp(10, 16, 4).load_state_dict(state, strict=False)  # CONFIRMED DL604


def pretrained_and_forgotten():
    model, state = mlp(10, 16, 16, 4), mlp(10, 16, 16, 4).state_dict()
    model.load_state_dict({name: state[name] for name in state if name[0] != "4"}, strict=False)  # CONFIRMED DL607
    fit(model, torch.optim.SGD(model.parameters(), lr=20.0), 10)


if __name__ == "__main__":
    for program in (
        integer_one_hot, integer_targets, mean_over_masked, mean_over_ignored, metric_counts_padding,
        distribution_of_probabilities, stepped_before_backward, default_eps_in_float16, wild_steps_in_float16,
        lost_updates, gradients_through_the_target, advantages_of_one_sample, equal_rewards,
        evaluated_for_good, evaluated_with_gradients, summed_in_evaluation, summed_in_training, made_in_each_step,
        last_step_of_both_ways, fused_otherwise, rate_of_the_next_step, plateau_of_accuracy, plateau_of_nothing,
        another_shape, other_names, pretrained_and_forgotten,
    ):  # fmt: skip
        program()
