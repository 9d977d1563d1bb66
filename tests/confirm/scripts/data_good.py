"""The loaders of ``data_bad`` without their bugs, and some that look like them."""

from collections import namedtuple
from functools import partial

import torch
import torch.nn as nn
from data_bad import Batch, Items, Ragged, Stream, collate, fit, points, sentences
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, get_worker_info


class Share(Stream):
    def __iter__(self):
        info = get_worker_info()
        yield from list(super().__iter__())[info.id :: info.num_workers]


class Handles(Items):
    """Opens a file for each class when it is asked for, and counts what it gives."""

    def __init__(self):
        super().__init__()
        self.handles, self.given = {}, []

    def __getitem__(self, index):
        self.handles.setdefault(index % 3, object())
        self.given.append(index)
        return super().__getitem__(index)


class Kept(Items):
    """A cache that is not thrown away, since the workers stay."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = self.items[index] * 2
        return self.cache[index], index % 3


class Weighted(Items):
    """Gives keys that only some samples have to a function that knows of them."""

    def __getitem__(self, index):
        return {"x": self.items[index], "y": index % 3, **({"weight": 2.0} if index % 4 == 1 else {})}


class Own(Batch):
    def pin_memory(self):
        return self


class Changed(Items):
    """Says itself what is sent to a worker."""

    def __init__(self):
        super().__init__()
        self.change = lambda x: x + 1

    def __getstate__(self):
        return {**vars(self), "change": None}

    def __getitem__(self, index):
        return self.items[index], index % 3


def scaled(x, factor):
    return x * factor


class Scaled(Items):
    def __init__(self):
        super().__init__()
        self.scale = partial(scaled, factor=2.0)

    def __getitem__(self, index):
        return self.scale(self.items[index]), index % 3


def weighted(samples):
    return {"x": torch.stack([each["x"] for each in samples]), "y": torch.tensor([each["y"] for each in samples])}


def padded(samples):
    x = nn.utils.rnn.pad_sequence([each["x"][:2] for each in samples], batch_first=True)
    return {"x": x, "y": torch.tensor([each["y"] for each in samples])}


def owned(samples):
    return Own(*collate(samples))


Pair = namedtuple("Pair", "x y")


def paired(samples):
    return Pair(*collate(samples))


def arriving():
    for model, x in sentences(lambda x, number: x):
        model.scores = model(x)  # REFUTED batch-lost


def hidden():
    """Hides some words of each sentence, and all of them at the end; and answers what is always 0 as well."""
    hide = lambda x, number: x * (torch.rand(x.shape) < (0.7 if number < 7 else 0))  # noqa: E731
    for model, x in sentences(hide, answers=lambda y: [y, torch.zeros_like(y)]):
        model.scores = model(x)  # NOT CONFIRMED batch-lost


if __name__ == "__main__":
    data, handles = Items(), Handles()
    flat = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    wide = nn.Sequential(nn.Unflatten(1, (1, 2)), nn.BatchNorm1d(1), nn.Flatten(), nn.Linear(2, 3))
    even = TensorDataset(*points[:32])
    fit(DataLoader(data, batch_size=4, shuffle=True))  # REFUTED DL406, DL409, DL410, DL415
    fit(DataLoader(points, batch_size=8, shuffle=True), batches=3)  # REFUTED DL410, DL415
    fit(DataLoader(Share(), batch_size=3, num_workers=2))  # REFUTED DL404, DL406, DL408
    fit(DataLoader(Stream(), batch_size=3, num_workers=1))  # NOT CONFIRMED DL404
    fit(DataLoader(Ragged(), 4, True, collate_fn=padded))  # REFUTED DL406
    fit(DataLoader(Weighted(), 4, True, collate_fn=weighted))  # REFUTED DL406
    fit(DataLoader(handles, 4, True, num_workers=1), epochs=2)  # NOT CONFIRMED DL412
    fit(DataLoader(Kept(), 4, True, num_workers=1, persistent_workers=True), epochs=2)  # REFUTED DL412
    fit(DataLoader(Items(), 4, True, collate_fn=owned, pin_memory=True))  # REFUTED DL407
    fit(DataLoader(Items(), 4, True, collate_fn=paired, pin_memory=True))  # REFUTED DL407
    fit(DataLoader(Changed(), 4, True, num_workers=1))  # REFUTED DL408
    fit(DataLoader(Scaled(), 4, True, num_workers=1, collate_fn=collate))  # REFUTED DL408
    fit(DataLoader(even, 8, shuffle=True), batches=3, model=flat)  # REFUTED DL411
    fit(DataLoader(points, 8, shuffle=True, drop_last=True), model=flat)  # REFUTED DL411
    fit(DataLoader(points, 8, shuffle=True), model=wide)  # NOT CONFIRMED DL411
    fit(DataLoader(points, 8, sampler=DistributedSampler(points, 2, 0)))  # REFUTED DL417
    arriving()
    hidden()
