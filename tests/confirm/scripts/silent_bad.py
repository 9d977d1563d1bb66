"""Bugs that only a run shows, each in a loop of its own."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

torch.manual_seed(0)
kept = []  # what is tried out at the end has to exist then


def mlp(*sizes):
    layers = [part for pair in zip(sizes, sizes[1:]) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def steps(model, optimizer, data, number=6, loss=F.cross_entropy):
    for _ in range(number):
        x, y = data()
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


def points(features=10, classes=4, batch=16):
    return torch.randn(batch, features), torch.randint(0, classes, (batch,))


class Forgetful(torch.optim.SGD):
    """Updates copies of its parameters."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.clone().add_(p.grad, alpha=-group["lr"])


def vain_steps():
    model = mlp(10, 16, 4)
    optimizer = Forgetful(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # CONFIRMED step-without-update


def frozen_head():
    model = nn.Sequential(nn.Linear(10, 16), nn.LayerNorm(16), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model[2].parameters(), lr=0.01)
    for name, p in model.named_parameters():
        p.requires_grad_(name.startswith("1."))
    for _ in range(4):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # CONFIRMED optimizer-trains-nothing


class Backward(nn.Module):
    """Takes the last step of an LSTM that runs both ways: its way back has seen one step only."""

    def __init__(self):
        super().__init__()
        self.core, self.head = nn.LSTM(4, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)
        self.spare = nn.Linear(8, 8)

    def forward(self, x):
        return self.head(self.core(x)[0][:, -1])


def unused_weights():
    model = Backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 5, 4)), torch.randint(0, 3, (8,))).backward()  # CONFIRMED DL219
        optimizer.step()  # CONFIRMED gradient-always-zero, gradient-never-comes


def wild_steps():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=2.0)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # CONFIRMED DL312


def tiny_steps():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for _ in range(21):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # CONFIRMED DL312


def dead_units():
    model = mlp(10, 32, 4)
    nn.init.constant_(model[0].bias, -20.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(18):
        x, y = points(batch=64)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # CONFIRMED dead-units
        optimizer.step()


def raw_pixels():
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        optimizer.zero_grad()
        scores = model(torch.randint(0, 256, (16, 3, 8, 8)).float())  # CONFIRMED DL503
        F.cross_entropy(scores, torch.randint(0, 4, (16,))).backward()  # CONFIRMED saturated-units
        optimizer.step()


def broken_inputs():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(6):
        x, _ = points()
        if step == 3:
            x[2, 3] = float("nan")
        optimizer.zero_grad()
        scores = model(x)  # CONFIRMED input-not-finite
        F.cross_entropy(scores, torch.zeros(16).long()).backward()  # CONFIRMED labels-constant, loss-not-finite
        optimizer.step()  # CONFIRMED weights-not-finite


def empty_inputs():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(6):
        optimizer.zero_grad()
        scores = model(torch.zeros(16, 10))  # CONFIRMED input-constant
        labels = torch.full((16,), -100) if step == 4 else torch.randint(0, 4, (16,))
        F.cross_entropy(scores, labels).backward()  # CONFIRMED labels-ignored
        optimizer.step()


def drifting_statistics():
    body = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU()).requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(16, 4)).train()
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(3 * x + 5), y).backward()  # CONFIRMED DL602
        optimizer.step()


def scale_collapse():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(14):
        x, y = points()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * (float("inf") if step % 4 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


class Aloof(nn.Module):
    """Computes in full precision whatever it is called under."""

    def __init__(self):
        super().__init__()
        self.body = mlp(10, 16, 4)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return self.body(x)


def idle_autocast():
    model = Aloof()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        x, y = points()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()  # CONFIRMED autocast-without-effect
        optimizer.step()


def same_order():
    model = mlp(2, 8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stored = TensorDataset(torch.randn(33, 2), torch.randint(0, 4, (33,)))
    drawn = TensorDataset(torch.randn(34, 2), torch.randint(0, 4, (34,)))
    loaders = DataLoader(stored, batch_size=8), DataLoader(drawn, batch_size=8, shuffle=True)
    for _ in range(2):
        for loader in loaders:
            torch.manual_seed(1)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()


def spectral_norm():
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(10, 16)), nn.ReLU(), nn.Linear(16, 4)).eval()
    with torch.no_grad():
        model(torch.randn(4, 10))  # CONFIRMED DL220
    steps(model.train(), torch.optim.SGD(model.parameters(), lr=0.1), points)


class Backbone(nn.Module):
    """Freezes its first stages when it is told to train, as some libraries do."""

    def __init__(self, frozen_stages):
        super().__init__()
        self.frozen_stages = frozen_stages
        self.stages = nn.ModuleList([nn.Linear(10, 10) for _ in range(3)])

    def train(self, mode=True):
        super().train(mode)
        for stage in self.stages[: self.frozen_stages]:
            stage.requires_grad_(False)
        return self

    def forward(self, x):
        for stage in self.stages:
            x = stage(x).relu()
        return x


def freezing_in_vain():
    model = nn.Sequential(Backbone(frozen_stages=1), nn.Linear(10, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # CONFIRMED freezing-not-applied
        optimizer.step()


class Stream(IterableDataset):
    def __iter__(self):
        for index in range(12):
            yield torch.tensor([float(index), 1.0]), index % 3


def workers():
    model = mlp(2, 8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(Stream(), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


class Conditional(nn.Module):
    """Is given a condition, and forgets it; drops whatever its mode is."""

    def __init__(self):
        super().__init__()
        self.body = mlp(10, 16, 4)

    def forward(self, x, condition):
        return self.body(x)


def ignored_condition():
    model = Conditional()
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x, condition=torch.randn(16, 3)), y).backward()  # CONFIRMED input-ignored
        optimizer.step()


class Partial(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp(9, 16, 4)

    def forward(self, x):
        return self.body(x[:, :9])


def ignored_feature():
    model = Partial()
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # CONFIRMED feature-ignored
        optimizer.step()


class Attention(nn.Module):
    """Attends to all that was before, documents or not, and drops in any mode where it is asked to."""

    def __init__(self, isolates=False, dropout=0.0):
        super().__init__()
        self.tokens, self.mix, self.head = nn.Embedding(30, 16), nn.Linear(16, 48), nn.Linear(16, 30)
        self.isolates, self.dropout = isolates, dropout

    def forward(self, ids, position_ids):
        query, key, value = self.mix(self.tokens(ids)).chunk(3, -1)
        document = (position_ids == 0).cumsum(1)
        allowed = torch.ones(ids.shape[1], ids.shape[1]).tril().bool()
        if self.isolates:
            allowed = allowed & (document[:, :, None] == document[:, None, :])
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, dropout_p=self.dropout)
        return self.head(mixed)


def packed():
    ids = torch.randint(2, 30, (4, 12))
    return ids, torch.cat([torch.arange(5), torch.arange(7)]).expand(4, 12)


def leaking_documents():
    model = Attention()
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        ids, positions = packed()
        optimizer.zero_grad()
        scores = model(ids, position_ids=positions)  # CONFIRMED DL905
        F.cross_entropy(scores[:, :-1].transpose(1, 2), ids[:, 1:]).backward()
        optimizer.step()


def dropping_attention():
    model = Attention(isolates=True, dropout=0.3)
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        ids, positions = packed()
        optimizer.zero_grad()
        scores = model(ids, position_ids=positions)  # CONFIRMED random-in-evaluation
        F.cross_entropy(scores[:, :-1].transpose(1, 2), ids[:, 1:]).backward()
        optimizer.step()


if __name__ == "__main__":
    for program in (
        ignored_condition, ignored_feature, leaking_documents, dropping_attention, vain_steps, frozen_head, unused_weights,
        wild_steps, tiny_steps, dead_units, raw_pixels, broken_inputs, empty_inputs, drifting_statistics,
        scale_collapse, idle_autocast, same_order, spectral_norm, freezing_in_vain, workers,
    ):  # fmt: skip
        program()
