"""What scripts do with other libraries and with workers that these do not tell of, with stand-ins for the libraries."""

import contextlib
import os
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "standins"))
import cv2
import torch
import torch.nn as nn
import torch.nn.functional as F
from diffusers.models.autoencoders import AutoencoderKL
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torchvision.transforms import Compose, Normalize, v2
from trl import DPOTrainer, GRPOTrainer, SFTTrainer
from trl.trainer import Rows

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
TWO = {"num_workers": 2, "multiprocessing_context": "fork"}


class Images(Dataset):
    """Images that are made of others, whose names begin with a word."""

    def __init__(self, name, change):
        self.name, self.change = name, change

    def __len__(self):
        return 32

    def __getitem__(self, index):
        image = self.change(self.read(f"{self.name} {index}"))
        return image if isinstance(image, tuple) else (image, index % 4)

    def read(self, path):
        return tensor(cv2.imread(path))


class Numbers(Dataset):
    """Images that nothing reads, with so many channels."""

    def __init__(self, channels, transform):
        self.channels, self.transform = channels, transform

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return self.transform(torch.rand(self.channels, 8, 8)), index % 4


class Film(IterableDataset):
    def __iter__(self):
        film = cv2.VideoCapture("film")
        for index in range(16):
            _, frame = film.read()
            yield tensor(frame), index % 4


class Crashing(Numbers):
    """Fails as it does where the memory that processes share is full."""

    def __getitem__(self, index):
        if index % 16 == 3:
            raise RuntimeError("unable to allocate shared memory(shm) for file </torch_7>: No space left on device (28)")
        return super().__getitem__(index)


def tensor(image):
    return torch.from_numpy(image).permute(2, 0, 1).float() / 255


def normalised(image):
    return (image - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]


def flipped(image):
    image = image.flip(-1) if torch.rand(()) < 0.5 else image
    return F.interpolate(image[None], (24, 24))[0]


def cropped(image):
    top, left = torch.randint(0, 24, (2,)).tolist()
    return image[:, top : top + 24, left : left + 24] * 2 - 1


class Shown(nn.Module):
    def __init__(self, channels=3):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.net(x))


def fit(loader, channels=3):
    model = Shown(channels)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x, t):
        return self.net(x) + t[:, None, None, None] / 1000


KEPT = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)


def denoise(draw, target="noise", steps=4):
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        latents, t = draw(torch.rand(8, 3, 16, 16) * 2 - 1), torch.randint(0, 100, (8,))
        noise, kept = torch.randn_like(latents), KEPT[t][:, None, None, None]
        if target == "flow":
            x, wanted = kept * latents + (1 - kept) * noise, noise - latents
        else:
            x = kept.sqrt() * latents + (1 - kept).sqrt() * noise
            wanted = noise if target == "noise" else kept.sqrt() * noise - (1 - kept).sqrt() * latents
        optimizer.zero_grad()
        F.mse_loss(model(x, t), wanted).backward()
        optimizer.step()


def drawn(vae, x):
    with torch.no_grad():
        return vae.encode(x).latent_dist.sample()


def literal():
    vae = AutoencoderKL(scaling_factor=0.13025)
    denoise(lambda x: drawn(vae, x) * 0.18215, "noise")  # CONFIRMED DL943
    denoise(lambda x: drawn(vae, x) * 0.18215, "velocity")  # CONFIRMED DL943
    denoise(lambda x: drawn(vae, x) * 0.18215, "flow")  # CONFIRMED DL943


def unshifted():
    vae = AutoencoderKL(scaling_factor=1.5305, shift_factor=0.0609)
    denoise(lambda x: vae.encode(x, return_dict=False)[0].mode().detach() * 1.5305)  # CONFIRMED DL943


def texts(**words):
    return Rows([{name: "word " * (index % count + 1) for name, count in words.items()} for index in range(40)])


def options(longest, packing=False):
    return SimpleNamespace(max_length=longest, packing=packing)


def wrong_columns():
    trainer = GRPOTrainer(nn.Linear(2, 1), args=SimpleNamespace(), train_dataset=texts(question=9))
    with contextlib.suppress(KeyError):
        SFTTrainer(nn.Linear(2, 1), options(64), texts(body=9))  # CONFIRMED DL909
    with contextlib.suppress(KeyError):
        DPOTrainer(nn.Linear(2, 1), options(64), texts(prompt=3, completion=9))  # CONFIRMED DL909
    with contextlib.suppress(KeyError):
        trainer.train()  # CONFIRMED DL909


def too_long():
    SFTTrainer(nn.Linear(2, 1), options(8), texts(text=16)).train()  # CONFIRMED DL909
    DPOTrainer(nn.Linear(2, 1), options(8), texts(prompt=4, chosen=20, rejected=4)).train()  # CONFIRMED DL909
    DPOTrainer(nn.Linear(2, 1), options(8), texts(prompt=10, chosen=1, rejected=1)).train()  # CONFIRMED DL909


def refused():
    data = Numbers(1, Compose([Normalize(MEAN, DEVIATION)]))  # CONFIRMED DL509
    try:
        fit(DataLoader(data, 4, shuffle=True, **TWO))
    except RuntimeError as error:
        assert "broadcast shape" in str(error)


def little_memory():
    measured = os.statvfs
    os.statvfs = lambda path: SimpleNamespace(f_bavail=10, f_frsize=4096)
    fit(DataLoader(Numbers(3, nn.Identity()), 16, shuffle=True, **TWO))  # CONFIRMED DL418
    os.statvfs = measured
    loader = DataLoader(Crashing(3, nn.Identity()), 4, **TWO)  # CONFIRMED DL418
    try:
        fit(loader)
    except RuntimeError as error:
        assert "shared memory" in str(error)


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(DataLoader(Images("plain", flipped), 8, shuffle=True))  # CONFIRMED DL505
    fit(DataLoader(Images("known", normalised), 8, shuffle=True, **TWO))  # CONFIRMED DL505
    fit(DataLoader(Images("cropped", cropped), 16, shuffle=True))  # CONFIRMED DL505
    fit(DataLoader(Film(), 8))  # CONFIRMED DL505
    broadcast = v2.Normalize(MEAN, DEVIATION)  # CONFIRMED DL509
    fit(DataLoader(Numbers(1, broadcast), 8, shuffle=True))
    refused()
    little_memory()
    literal()
    unshifted()
    wrong_columns()
    too_long()
