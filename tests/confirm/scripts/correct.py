"""Programs of different kinds without a bug, each with the habits of its kind that could look like one."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
STEPS = 6


def mlp(*sizes, last=None):
    layers = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([last] if last else []))


def classifier():
    data = TensorDataset(torch.randn(64, 10), torch.randint(0, 4, (64,)))
    train, validation = DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=16)
    model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            for x, y in validation:
                model(x).softmax(1).argmax(1).eq(y).sum()
    return (model,)


def gan():
    generator, discriminator = mlp(4, 16, 8), mlp(8, 16, 1)
    g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for _ in range(STEPS):
        discriminator.zero_grad()
        real = F.binary_cross_entropy_with_logits(discriminator(torch.randn(8, 8)), torch.ones(8, 1))
        real.backward()
        fake = generator(torch.randn(8, 4))
        F.binary_cross_entropy_with_logits(discriminator(fake.detach()), torch.zeros(8, 1)).backward()
        d.step()
        generator.zero_grad()
        F.binary_cross_entropy_with_logits(discriminator(fake), torch.ones(8, 1)).backward()
        g.step()
    return generator, discriminator


def wasserstein_gan():
    generator, critic = mlp(4, 16, 8), mlp(8, 16, 1)
    g = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
    c = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
    for step in range(3 * STEPS):
        c.zero_grad()
        fake = generator(torch.randn(8, 4)).detach()
        (critic(fake).mean() - critic(torch.randn(8, 8)).mean()).backward()
        c.step()
        for p in critic.parameters():
            p.data.clamp_(-0.01, 0.01)
        if step % 3 == 0:
            g.zero_grad()
            (-critic(generator(torch.randn(8, 4))).mean()).backward()
            g.step()
    return generator, critic


def mixed_precision():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(torch.randn(8, 10)), torch.randint(0, 4, (8,)))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return (model,)


def accumulation():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4 * STEPS):
        (F.cross_entropy(model(torch.randn(8, 10)), torch.randint(0, 4, (8,))) / 4).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    return (model,)


def two_terms():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 10)), torch.randint(0, 4, (8,))).backward()
        F.mse_loss(model(torch.randn(8, 10)), torch.zeros(8, 4)).backward()
        optimizer.step()
    return (model,)


def closure():
    model = mlp(10, 16, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    x, y = torch.randn(32, 10), torch.randn(32, 1)

    def evaluate():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(evaluate)
    return (model,)


def q_learning():
    policy, memory = mlp(4, 16, 2), []
    target = copy.deepcopy(policy)
    optimizer = torch.optim.Adam(policy.parameters())
    for step in range(3 * STEPS):
        state = torch.randn(1, 4)
        with torch.no_grad():
            action = policy(state).argmax(1)
        memory.append((state, action, torch.randn(1), torch.randn(1, 4)))
        if len(memory) < 8:
            continue
        s, a, r, n = (torch.cat(part) for part in zip(*memory[-8:], strict=True))
        value = policy(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            wanted = r + 0.99 * target(n).max(1).values
        optimizer.zero_grad()
        F.smooth_l1_loss(value, wanted).backward()
        torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        if step % 4 == 0:
            target.load_state_dict(policy.state_dict())
    return (policy,)


def policy_gradient():
    actor, critic = mlp(4, 16, 3), mlp(4, 16, 1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)
    states = torch.randn(32, 4)
    with torch.no_grad():
        actions = torch.distributions.Categorical(logits=actor(states)).sample()
        old = torch.distributions.Categorical(logits=actor(states)).log_prob(actions)
    returns = torch.randn(32)
    for _ in range(STEPS):
        for part in torch.randperm(32).split(16):
            distribution = torch.distributions.Categorical(probs=torch.softmax(actor(states[part]), dim=-1))
            ratio = (distribution.log_prob(actions[part]) - old[part]).exp()
            value = critic(states[part]).squeeze(1)
            gain = returns[part] - value.detach()
            loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = loss + F.mse_loss(value, returns[part]) - 0.01 * distribution.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return actor, critic


def diffusion():
    model = mlp(9, 32, 8)
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 3))
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
    for _ in range(2 * STEPS):
        x, noise, t = torch.randn(16, 8), torch.randn(16, 8), torch.randint(0, 100, (16,))
        noisy = kept[t].sqrt()[:, None] * x + (1 - kept[t]).sqrt()[:, None] * noise
        loss = F.mse_loss(model(torch.cat([noisy, t[:, None] / 100], 1)), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters(), strict=True):
                a.lerp_(p, 0.1)
    return model, average


def autoencoder():
    encoder, decoder = mlp(20, 16, 8), mlp(4, 16, 20, last=nn.Sigmoid())
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    for _ in range(STEPS):
        x = torch.rand(8, 20)
        mean, spread = encoder(x).chunk(2, 1)
        output = decoder(mean + spread.mul(0.5).exp() * torch.randn_like(mean))
        kl = -0.5 * (1 + spread - mean**2 - spread.exp()).sum()
        optimizer.zero_grad()
        (F.binary_cross_entropy(output, x, reduction="sum") + kl).backward()
        optimizer.step()
    return encoder, decoder


def language_model():
    embedding, core, head = nn.Embedding(30, 16), nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 30)
    parameters = [p for part in (embedding, core, head) for p in part.parameters()]
    state = None
    for _ in range(STEPS):
        tokens = torch.randint(0, 30, (4, 13))
        output, state = core(embedding(tokens[:, :-1]), state)
        state = tuple(part.detach() for part in state)
        loss = F.cross_entropy(head(output).reshape(-1, 30), tokens[:, 1:].reshape(-1))
        for p in parameters:
            p.grad = None
        loss.backward()
        for p in parameters:
            p.data.add_(p.grad, alpha=-0.1)
    return embedding, core, head


def transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(30, 16), nn.TransformerEncoder(layer, 2), nn.Linear(16, 30))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=50)
    for step in range(2 * STEPS):
        tokens = torch.randint(0, 30, (4, 12))
        optimizer.zero_grad()
        F.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:]).backward()
        optimizer.step()
        scheduler.step()
        if step % 4 == 3:
            model.eval()
            with torch.inference_mode():
                model(tokens)
            model.train()
    return (model,)


def fixed_features():
    body, head = mlp(10, 16, 16), nn.Linear(16, 4)
    body.requires_grad_(False).eval()
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for _ in range(STEPS):
        with torch.no_grad():
            features = body(torch.randn(8, 10))
        optimizer.zero_grad()
        F.cross_entropy(head(features), torch.randint(0, 4, (8,))).backward()
        optimizer.step()
    return (head,)


def adversarial():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = torch.randn(8, 10, requires_grad=True), torch.randint(0, 4, (8,))
        F.cross_entropy(model(x), y).backward()
        attacked = (x + 0.1 * x.grad.sign()).detach()
        optimizer.zero_grad()
        F.cross_entropy(model(attacked), y).backward()
        optimizer.step()
    return (model,)


def style():
    features, image = mlp(64, 32).requires_grad_(False), torch.randn(1, 64, requires_grad=True)
    optimizer = torch.optim.Adam([image], lr=0.1)
    wanted = features(torch.randn(1, 64))
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.mse_loss(features(image), wanted).backward()
        optimizer.step()
    return (nn.ParameterList([image]),)


def sharpness_aware():
    model = mlp(10, 16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = torch.randn(8, 10), torch.randint(0, 4, (8,))
        F.cross_entropy(model(x), y).backward()
        length = math.sqrt(sum(float(p.grad.norm()) ** 2 for p in model.parameters()))
        moves = [p.grad * (0.05 / (length + 1e-12)) for p in model.parameters()]
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves, strict=True):
                p.add_(move)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves, strict=True):
                p.sub_(move)
        optimizer.step()
        optimizer.zero_grad()
    return (model,)


def distillation():
    teacher, student = mlp(10, 32, 4).eval(), mlp(10, 8, 4)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = torch.randn(8, 10), torch.randint(0, 4, (8,))
        with torch.no_grad():
            soft = F.softmax(teacher(x) / 2, dim=1)
        scores = student(x)
        loss = F.kl_div(F.log_softmax(scores / 2, dim=1), soft, reduction="batchmean") + F.cross_entropy(scores, soft)
        optimizer.zero_grad()
        (loss + F.cross_entropy(scores, y)).backward()
        optimizer.step()
    return (student,)


def perceptual():
    model, judge = mlp(10, 16, 10), mlp(10, 16, 4)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        x = torch.randn(8, 10)
        optimizer.zero_grad()
        F.l1_loss(judge(model(x)), judge(x)).backward()
        optimizer.step()
    return (model,)


def recomputed():
    """Layers that are computed again in the backward pass, with all that they draw and count."""
    body = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    kept = torch.tensor([1.0, 0.0] * 4)

    def losses(x, y):
        return F.cross_entropy(body(x), y, reduction="none") * kept

    for _ in range(STEPS):
        x, y = torch.randn(8, 10), torch.randint(0, 4, (8,))
        optimizer.zero_grad()
        checkpoint(losses, x, y, use_reentrant=False).mean().backward()
        optimizer.step()
    return body, nn.ParameterList([body[1].running_mean, body[1].num_batches_tracked.float()])


class Skipping(nn.Module):
    """Skips each of its layers in some steps."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(10, 16), nn.Linear(16, 10)
        self.layers = nn.ModuleList(mlp(16, 8, 8, 8, 8, 16) for _ in range(6))

    def forward(self, x):
        hidden = self.first(x)
        for layer in self.layers:
            if torch.rand(()) > 0.2:
                hidden = hidden + layer(hidden)
        return self.last(hidden)


def layer_drop():
    model = Skipping()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(6 * STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 10)), torch.randint(0, 4, (8,))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return (model,)


for program in (
    classifier, gan, wasserstein_gan, mixed_precision, accumulation, two_terms, closure, q_learning, policy_gradient,
    diffusion, autoencoder, language_model, transformer, fixed_features, adversarial, style, sharpness_aware,
    distillation, perceptual, recomputed, layer_drop,
):  # fmt: skip
    values = [p.double().sum() for model in program() for p in model.parameters()]
    print("DIGEST", program.__name__, repr(float(sum(values))), torch.rand(1).item())
