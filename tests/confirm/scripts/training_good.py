"""The programs of ``training_bad`` without their bugs, and others that look like them."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical
from training_bad import Accuracy, Dropping, fit, learn, mlp, points, texts

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


def evaluated_between():
    model, copy_of = Dropping(), Dropping()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model.train()
        for _ in range(4):
            x, y = points()
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # REFUTED DL208
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                model(points()[0])  # REFUTED DL209
        copy_of.load_state_dict(model.state_dict())


def trained_in_evaluation_mode():
    """Without dropout from the beginning, and another time after a phase with it, at another line."""
    model = Dropping()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit_in(model, optimizer)
    model.eval()
    with torch.no_grad():
        model(points()[0])
    for _ in range(4):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # NOT CONFIRMED DL208, DL209
        optimizer.step()


def fit_in(model, optimizer):
    for _ in range(4):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # NOT CONFIRMED DL208
        optimizer.step()


def attacked_and_explained():
    """Gradients of inputs, of a model that is evaluated, which something else is optimised by."""
    model = Dropping()
    fit_in(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model.eval()
    for _ in range(4):
        x, y = points()
        x.requires_grad_(True)
        torch.autograd.grad(F.cross_entropy(model(x), y), x)  # NOT CONFIRMED DL209
    patch = nn.Parameter(torch.zeros(10))
    optimizer = torch.optim.Adam([patch])
    for _ in range(4):
        x, y = points()
        optimizer.zero_grad()
        (-F.cross_entropy(model(x + patch), y)).backward()  # NOT CONFIRMED DL208, DL209
        optimizer.step()


def losses_that_are_used():
    model, embed = nn.RNNCell(8, 8), nn.Embedding(20, 8)
    optimizer = torch.optim.SGD([*model.parameters(), *embed.parameters()], lr=0.1)
    shown = 0.0
    for _ in range(4):
        tokens, state, total = torch.randint(0, 8, (4, 12)), torch.zeros(4, 8), 0.0
        for step in range(11):
            state = model(embed(tokens[:, step]), state)
            total = total + F.cross_entropy(state, tokens[:, step + 1])  # REFUTED DL211
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        shown += total.item()
    with torch.no_grad():
        summed = sum(F.cross_entropy(torch.randn(4, 8), tokens[:, 0]) for _ in range(8))  # REFUTED DL211
    return shown, summed


def made_once():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.Adam(model.parameters())  # REFUTED DL217
    fit(model, optimizer)
    for seed in range(3):
        torch.manual_seed(seed)
        other = mlp(10, 16, 4)
        fit(other, torch.optim.Adam(other.parameters()))  # REFUTED DL217


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.core, self.head = nn.GRU(4, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.core(x)[1].transpose(0, 1).reshape(len(x), 16))


def last_states_of_both_ways():
    model = Both()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for length in (5, 4, 6, 5):
        optimizer.zero_grad()
        scores = model(torch.randn(8, length, 4))  # REFUTED DL219
        F.cross_entropy(scores, torch.randint(0, 3, (8,))).backward()
        optimizer.step()
    model = Both()
    for _ in range(4):
        optimizer.zero_grad()
        scores = model(torch.randn(8, 1, 4))  # NOT CONFIRMED DL219
        F.cross_entropy(scores, torch.randint(0, 3, (8,))).backward()
        optimizer.step()


def fused():
    model = mlp(10, 16, 4)
    fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True))  # REFUTED DL311
    model = mlp(10, 16, 4)
    fit(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True))  # REFUTED DL311


class Pooled(Both):
    def forward(self, x):
        return self.head(self.core(x)[0].mean(1))


def other_outputs_of_both_ways():
    model = Pooled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        scores = model(torch.randn(8, 5, 4))  # REFUTED DL219
        F.cross_entropy(scores, torch.randint(0, 3, (8,))).backward()
        optimizer.step()


class Halving(torch.optim.lr_scheduler.ExponentialLR):
    def get_lr(self):
        return [max(rate, 0.01) for rate in super().get_lr()]  # NOT CONFIRMED DL313


def rates_in_use():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedules = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step), Halving(optimizer, 1.0)
    for _ in range(4):
        fit(model, optimizer, 1)
        for schedule in schedules:
            schedule.step()
        print(schedules[0].get_last_lr(), schedules[0].get_lr())  # REFUTED DL313


def plateaus():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    falling = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=10)
    growing = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=10)

    def told(loss, accuracy):
        falling.step(loss)  # REFUTED DL315
        growing.step(accuracy)  # REFUTED DL315

    learn(model, optimizer, told)


def plateau_of_what_grows_too_large():
    """The loss of validation grows while that of training falls: what such a scheduler is for."""
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=10)
    losses = iter((1.4, 1.3, 1.6, 90.0, 120.0, 160.0))
    learn(model, optimizer, lambda *_: schedule.step(next(losses)))  # NOT CONFIRMED DL315


def loaded_at_the_second_try():
    model, state = mlp(10, 16, 4), mlp(10, 16, 4).state_dict()
    wrapped = {f"module.{name}": value for name, value in state.items()}
    missing, _ = model.load_state_dict(wrapped, strict=False)  # REFUTED DL604
    if missing:
        model.load_state_dict({name.removeprefix("module."): value for name, value in wrapped.items()})


def resumed_far_away():
    model = mlp(10, 16, 4)
    model.load_state_dict(mlp(10, 16, 4).state_dict(), strict=False)  # NOT CONFIRMED DL607
    fit(model, torch.optim.SGD(model.parameters(), lr=20.0), 4)


def loaded():
    state = mlp(10, 16, 4).state_dict()
    del state["2.weight"], state["2.bias"]
    mlp(10, 16, 4).load_state_dict(state, strict=False)  # REFUTED DL603, DL604
    adapter = {"2.weight": torch.zeros(4, 16)}
    mlp(10, 16, 4).load_state_dict(adapter, strict=False)  # REFUTED DL604


def pretrained_and_kept():
    model, state = mlp(10, 16, 16, 4), mlp(10, 16, 16, 4).state_dict()
    model.load_state_dict({name: state[name] for name in state if name[0] != "4"}, strict=False)  # REFUTED DL607
    fit(model, torch.optim.SGD(model.parameters(), lr=1e-3), 120)


if __name__ == "__main__":
    for program in (
        targets, means_over_what_counts, masks_of_another_kind, metric_ignores_padding, distributions, stepped_in_order,
        stepped_a_step_later, half_precision, warming_up_in_bfloat16, targets_without_gradients, both_sides_of_a_loss,
        advantages, deviations_that_are_shown, evaluated_between, trained_in_evaluation_mode, attacked_and_explained,
        losses_that_are_used, made_once, last_states_of_both_ways, other_outputs_of_both_ways, fused, rates_in_use, plateaus,
        plateau_of_what_grows_too_large, loaded_at_the_second_try, resumed_far_away, loaded, pretrained_and_kept,
    ):  # fmt: skip
        program()
