"""Training scripts of any length, as people write them: a few helpers, then experiments until the lines are full."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

HEADER = '''\
"""Experiments on small images."""

import argparse
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Average:
    def __init__(self):
        self.sum = 0.0
        self.count = 0

    def update(self, value, count=1):
        self.sum += value * count
        self.count += count

    def result(self):
        return self.sum / max(1, self.count)


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--experiment", default="0")
    parser.add_argument("--data", default="data")
    parser.add_argument("--out", default="runs")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--resume", default="")
    return parser.parse_args()


def save_checkpoint(path, model, optimizer, scheduler, epoch):
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": epoch,
    }
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def accuracy(logits, labels):
    return (logits.argmax(dim=1) == labels).float().mean().item()

'''

MODEL = """
class Block{n}(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class Net{n}(nn.Module):
    def __init__(self, classes=10, width={width}, depth={depth}, dropout=0.1):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        layers = []
        for i in range(depth):
            layers.append(Block{n}(width, width, stride=1))
        self.layers = nn.ModuleList(layers)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, classes)

    def features(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return x.mean(dim=(2, 3))

    def forward(self, x, return_features=False):
        features = self.features(x)
        logits = self.head(self.dropout(features))
        if return_features:
            return logits, features
        return logits

"""

DATA = """
class Images{n}(Dataset):
    def __init__(self, root, train=True, size={size}):
        self.files = sorted(os.listdir(os.path.join(root, "train" if train else "val")))
        self.size = size
        steps = [transforms.ToPILImage()]
        if train:
            steps += [transforms.RandomCrop(size, padding=4), transforms.RandomHorizontalFlip()]
        steps += [transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]
        self.transform = transforms.Compose(steps)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = np.load(self.files[index])
        label = int(self.files[index].split("_")[0])
        return self.transform(image), label


def loaders{n}(args):
    train_set = Images{n}(args.data, train=True)
    val_set = Images{n}(args.data, train=False)
    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True
    )
    val_loader = DataLoader(val_set, batch_size=args.batch_size, num_workers=args.workers)
    return train_loader, val_loader

"""

LOSS = """
def objective{n}(logits, labels, features=None, weight={weight}):
    loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
    if features is not None:
        normed = F.normalize(features, dim=1)
        similarity = normed @ normed.t()
        same = (labels[:, None] == labels[None, :]).float()
        loss = loss + weight * F.mse_loss(similarity, same)
    return loss


def schedule{n}(step, warmup={warmup}, total={total}):
    if step < warmup:
        return step / max(1, warmup)
    progress = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

"""

LOOP = """
def train_epoch{n}(args, model, loader, optimizer, scheduler, scaler, device):
    model.train()
    meter = Average()
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        with torch.autocast(device_type=device.type, dtype=torch.float16):
            logits, features = model(images, return_features=True)
            loss = objective{n}(logits, labels, features)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        meter.update(loss.item(), images.size(0))
        if step % 100 == 0:
            print(f"step {{step}}: {{meter.result():.4f}}")
    return meter.result()


@torch.no_grad()
def evaluate{n}(model, loader, device):
    model.eval()
    meter = Average()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        logits = model(images)
        meter.update(accuracy(logits, labels), images.size(0))
    return meter.result()


def experiment{n}(args):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader, val_loader = loaders{n}(args)
    model = Net{n}(classes={classes}).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    scheduler = lr_scheduler.LambdaLR(optimizer, schedule{n})
    scaler = torch.amp.GradScaler()
    start, best = 0, 0.0
    if args.resume:
        state = torch.load(args.resume, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["epoch"] + 1
    for epoch in range(start, args.epochs):
        began = time.time()
        loss = train_epoch{n}(args, model, train_loader, optimizer, scheduler, scaler, device)
        score = evaluate{n}(model, val_loader, device)
        print(f"epoch {{epoch}}: loss {{loss:.4f}} accuracy {{score:.4f}} in {{time.time() - began:.0f}} s")
        if score > best:
            best = score
            save_checkpoint(os.path.join(args.out, "best{n}.pt"), model, optimizer, scheduler, epoch)
    return best

"""

FOOTER = """

def main():
    args = parse_args()
    seed_everything(args.seed)
    experiments = {{{table}}}
    print(experiments[args.experiment](args))


if __name__ == "__main__":
    main()
"""

HELPER = """
def summarize{n}(history, window={size}):
    values = [value for value in history[-window:] if not math.isnan(value)]
    if not values:
        return 0.0
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return mean if spread < {weight} else min(values)

"""


def script(lines: int) -> str:
    """A training script of about so many lines, always the same one.

    Experiments are added while they fit, then small helpers, so that the length is met within a helper's.
    """
    chance = random.Random(0)
    parts = [HEADER]
    count = 0
    for experiment in _experiments(chance):
        if _length(parts) + experiment.count("\n") > lines - 12 and count:
            break
        parts.append(experiment)
        count += 1
    helper = 0
    while _length(parts) + HELPER.count("\n") <= lines - 12:
        parts.append(HELPER.format(n=helper, **_numbers(chance)))
        helper += 1
    table = ", ".join(f'"{n}": experiment{n}' for n in range(count))
    return "".join((*parts, FOOTER.format(table=table)))


def _experiments(chance: random.Random) -> Iterator[str]:
    number = 0
    while True:
        numbers = _numbers(chance)
        yield "".join(part.format(n=number, **numbers) for part in (MODEL, DATA, LOSS, LOOP))
        number += 1


def _numbers(chance: random.Random) -> dict[str, object]:
    return {
        "width": chance.choice((32, 64, 96)),
        "depth": chance.randint(2, 6),
        "size": chance.choice((32, 64)),
        "weight": chance.choice((0.1, 0.25, 0.5)),
        "warmup": chance.choice((100, 500)),
        "total": chance.choice((10_000, 20_000)),
        "classes": chance.choice((10, 100)),
    }


def _length(parts: list[str]) -> int:
    return sum(part.count("\n") for part in parts)


if __name__ == "__main__":
    sys.stdout.write(script(int(sys.argv[1])))
