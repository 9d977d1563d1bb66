"""The loops of ``silent_bad`` without their bugs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from silent_bad import Attention, Backbone, mlp, packed, points
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info

torch.manual_seed(0)
kept = []


def updates():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(21):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # REFUTED step-without-update, gradient-always-zero, gradient-never-comes, DL312


def warming_up():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 1000)
    for _ in range(21):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # NOT CONFIRMED step-without-update, DL312
        scheduler.step()


def gradients_by_hand():
    """Takes its gradients from copies that are trained in another precision."""
    model = mlp(10, 16, 4)
    masters = [p.detach().double() for p in model.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1)
    for _ in range(6):
        x, y = points()
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        for master, p in zip(masters, model.parameters()):
            master.grad = p.grad.double()
        optimizer.step()  # NOT CONFIRMED optimizer-trains-nothing, step-without-update
        for master, p in zip(masters, model.parameters()):
            p.data.copy_(master)


def living_units():
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(18):
        x, y = points(batch=64)
        optimizer.zero_grad()
        scores = model(x)  # REFUTED input-range, input-not-finite, input-constant
        F.cross_entropy(scores, y).backward()  # REFUTED dead-units, saturated-units, labels-constant, labels-ignored
        optimizer.step()


def frozen_statistics():
    body = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU()).requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(16, 4)).train()
    body.eval()
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.01)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(3 * x + 5), y).backward()  # REFUTED DL602
        optimizer.step()


def judged_by_a_frozen_critic():
    """The critic of a GAN is frozen while the generator learns, and only then."""
    generator, critic = mlp(4, 16, 10), nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.Linear(16, 1))
    g, c = (torch.optim.Adam(model.parameters(), lr=1e-3) for model in (generator, critic))
    for _ in range(6):
        critic.requires_grad_(True)
        c.zero_grad()
        (critic(generator(torch.randn(8, 4)).detach()).mean() - critic(torch.randn(8, 10)).mean()).backward()
        c.step()
        critic.requires_grad_(False)
        g.zero_grad()
        (-critic(generator(torch.randn(8, 4))).mean()).backward()
        g.step()


def scaling():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    for step in range(30):
        x, y = points()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)  # REFUTED DL802
        if step < 2:
            loss = loss * float("inf")
        scaler.scale(loss).backward()  # REFUTED autocast-without-effect
        scaler.step(optimizer)
        scaler.update()


def shuffled_orders():
    model = mlp(2, 8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(33, 2), torch.randint(0, 4, (33,))), batch_size=8, shuffle=True)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


def spectral_norm():
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(10, 16)), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # REFUTED DL220
        optimizer.step()
    again = nn.Sequential(nn.utils.spectral_norm(nn.Linear(10, 16)), nn.ReLU(), nn.Linear(16, 4))
    again.load_state_dict(model.state_dict())
    with torch.no_grad():
        again.eval()(torch.randn(4, 10))  # REFUTED DL220


def freezing():
    model = nn.Sequential(Backbone(frozen_stages=1), nn.Linear(10, 4)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # REFUTED freezing-not-applied
        optimizer.step()


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for index in range(info.id, 12, info.num_workers):
            yield torch.tensor([float(index), 1.0]), index % 3


def workers():
    model = mlp(2, 8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(Stream(), batch_size=4, num_workers=2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


class Conditional(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.dropout = mlp(13, 16, 4), nn.Dropout(0.3)

    def forward(self, x, condition):
        return self.dropout(self.body(torch.cat([x, condition], 1)))


def condition():
    model = Conditional()
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = points()
        optimizer.zero_grad()
        scores = model(x, condition=torch.randn(16, 3))  # REFUTED input-ignored, feature-ignored, random-in-evaluation
        F.cross_entropy(scores, y).backward()
        optimizer.step()


def isolated_documents():
    model = Attention(isolates=True)
    kept.append(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        ids, positions = packed()
        optimizer.zero_grad()
        scores = model(ids, position_ids=positions)  # REFUTED DL905, random-in-evaluation
        F.cross_entropy(scores[:, :-1].transpose(1, 2), ids[:, 1:]).backward()
        optimizer.step()


def variational():
    """Draws in evaluation mode, too, as it is meant to."""
    encoder, decoder = mlp(20, 16, 8), mlp(4, 16, 20)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = encoder, decoder

        def forward(self, x):
            mean, spread = self.encoder(x).chunk(2, 1)
            return self.decoder(mean + spread.exp() * torch.randn_like(mean))

    model = Model()
    kept.append(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(6):
        x = torch.randn(8, 20)
        optimizer.zero_grad()
        F.mse_loss(model(x), x).backward()  # NOT CONFIRMED random-in-evaluation
        optimizer.step()


if __name__ == "__main__":
    for program in (
        condition, isolated_documents, variational, updates, warming_up, gradients_by_hand, living_units, frozen_statistics,
        judged_by_a_frozen_critic, scaling, shuffled_orders, spectral_norm, freezing, workers,
    ):  # fmt: skip
        program()
