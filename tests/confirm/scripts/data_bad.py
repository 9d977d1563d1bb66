"""Datasets and loaders with bugs, each where its loader is made."""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, TensorDataset

torch.manual_seed(0)
points = TensorDataset(torch.randn(33, 2), torch.randint(0, 3, (33,)))


def fit(loader, epochs=1, batches=8, model=None):
    model = model or nn.Linear(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for number, batch in enumerate(loader):
            x, y = batch.values() if isinstance(batch, dict) else batch
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if number + 1 == batches:
                break


class Items(Dataset):
    def __init__(self, length=16):
        self.length = length
        self.items = [torch.randn(2) for _ in range(16)]

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.items[index], index % 3


class Stream(IterableDataset):
    def __iter__(self):
        for index in range(12):
            yield torch.tensor([float(index), 1.0]), index % 3


class Ragged(Items):
    def __getitem__(self, index):
        return {"x": torch.randn(2 + index % 2), "y": index % 3}


class Partly(Items):
    def __getitem__(self, index):
        return {"x": self.items[index], "y": index % 3, **({"weight": 2.0} if index % 4 == 1 else {})}


class Wrapping(Items):
    def __getitem__(self, index):
        return self.items[index % len(self.items)], index % len(self.items) % 3


class Caching(Items):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = self.items[index] * 2
        return self.cache[index], index % 3


@dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor

    def __iter__(self):
        return iter((self.x, self.y))


def collate(samples):
    return Batch(torch.stack([x for x, _ in samples]), torch.tensor([y for _, y in samples]))


class Changed(Items):
    def __init__(self):
        super().__init__()
        self.change = lambda x: x + 1

    def __getitem__(self, index):
        return self.change(self.items[index]), index % 3


class ShareOfBatches(BatchSampler):
    """Gives each process some of the batches of a sampler, as Accelerate does."""

    def __init__(self, sampler, num_processes):
        super().__init__(sampler, 2, False)
        self.num_processes = num_processes

    def __iter__(self):
        yield from list(super().__iter__())[:: self.num_processes]


def twice():
    share = DistributedSampler(points, num_replicas=2, rank=0)
    fit(DataLoader(points, batch_sampler=ShareOfBatches(share, 2)))  # CONFIRMED DL417


def ragged():
    loader = DataLoader(Ragged(), batch_size=4, shuffle=True)  # CONFIRMED DL406
    try:
        next(iter(loader))
    except RuntimeError as error:
        assert "equal size" in str(error)


def too_short():
    data = Items(length=20)
    loader = DataLoader(data, batch_size=4, shuffle=True)  # CONFIRMED DL410
    try:
        fit(loader)
    except IndexError:
        pass


def sentences(change, answers=lambda y: [y]):
    """Sentences of words, on their way from a loader to a model, which takes and answers them."""
    data = TensorDataset(torch.randint(1, 30, (64, 6)), torch.randint(1, 3, (64,)))
    model = nn.Sequential(nn.Embedding(30, 8), nn.Flatten(), nn.Linear(48, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(DataLoader(data, batch_size=8, shuffle=True)):
        yield model, change(x, number)
        optimizer.zero_grad()
        sum(F.cross_entropy(model.scores, answer) for answer in answers(y)).backward()
        optimizer.step()


def lost_on_the_way():
    for model, x in sentences(lambda x, number: x.zero_() if number == 4 else x):
        model.scores = model(x)  # CONFIRMED batch-lost


if __name__ == "__main__":
    wrapping, short = Wrapping(), Items(length=18)
    fit(DataLoader(points, batch_size=4))  # CONFIRMED DL415
    fit(DataLoader(Stream(), batch_size=3, num_workers=2))  # CONFIRMED DL404
    fit(DataLoader(Partly(), batch_size=4))  # CONFIRMED DL406, DL415
    fit(DataLoader(wrapping, batch_size=4, shuffle=True))  # CONFIRMED DL409
    fit(DataLoader(short, batch_size=4), batches=4)  # CONFIRMED DL410, DL415
    fit(DataLoader(Caching(), batch_size=4, shuffle=True, num_workers=1), epochs=2)  # CONFIRMED DL412
    fit(DataLoader(Items(), 4, shuffle=True, collate_fn=collate, pin_memory=True))  # CONFIRMED DL407
    fit(DataLoader(Changed(), batch_size=4, shuffle=True, num_workers=1))  # CONFIRMED DL408
    flat = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    fit(DataLoader(points, batch_size=8, shuffle=True), batches=4, model=flat)  # CONFIRMED DL411
    ragged()
    too_short()
    twice()
    lost_on_the_way()
