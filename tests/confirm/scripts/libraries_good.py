"""The programs of ``libraries_bad`` without their bugs, and some that look like them."""

import libraries_bad as bad
import torch
import torch.nn as nn
from libraries_bad import DEVIATION, MEAN, TWO, AutoencoderKL, Images, Numbers, SFTTrainer, cv2, denoise, drawn, fit
from libraries_bad import DPOTrainer, F, GRPOTrainer, Normalize, Rows, options, texts, v2
from torch.utils.data import DataLoader


class Converted(Images):
    def read(self, path):
        return bad.tensor(cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB))


class Ordered(Images):
    """Has OpenCV put red first."""

    def read(self, path):
        return bad.tensor(cv2.imread(path, flags=cv2.IMREAD_COLOR_RGB))


class Decoded(Images):
    """Turns the channels by hand."""

    def read(self, path):
        return bad.tensor(cv2.imdecode(path.encode())[:, :, [2, 1, 0]])


class Masked(Converted):
    """Has a mask beside each image, which is read with colors as well."""

    def read(self, path):
        image, mask = super().read(path), cv2.imread("grey mask")
        return image, torch.from_numpy(mask[:, :, 0]).long() % 4


class Grey(Images):
    def read(self, path):
        return bad.tensor(cv2.imread(path)).mean(0, keepdim=True).repeat(3, 1, 1)


class Turned(Converted):
    """Turns images by a quarter, so that they lie upon theirs in no way that is looked for."""

    def read(self, path):
        return super().read(path).rot90(1, (1, 2))


def segment(loader):
    model = nn.Conv2d(3, 4, 3, padding=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def scaled():
    vae, shifted = AutoencoderKL(scaling_factor=0.13025), AutoencoderKL(scaling_factor=1.5305, shift_factor=0.0609)
    config = shifted.config
    denoise(lambda x: (drawn(shifted, x) - config.shift_factor) * config.scaling_factor)  # REFUTED DL943
    denoise(lambda x: drawn(vae, x) * vae.config.scaling_factor, "velocity")  # REFUTED DL943
    denoise(lambda x: drawn(vae, x) * vae.config.scaling_factor, "flow")  # REFUTED DL943
    denoise(lambda x: drawn(vae, x) * 0.13025)  # REFUTED DL943


def by_other_ways():
    vae = AutoencoderKL(scaling_factor=0.13025)
    deviation = torch.tensor([6.0, 8.0, 7.0, 9.0])[:, None, None]
    cached = [drawn(vae, torch.rand(8, 3, 16, 16)) * 0.13 for _ in range(5)]  # NOT CONFIRMED DL943
    denoise(lambda x: drawn(vae, x) / deviation)  # NOT CONFIRMED DL943
    denoise(lambda x: cached.pop(0), steps=4)
    denoise(lambda x: drawn(AutoencoderKL(scaling_factor=1.0), x))  # REFUTED DL943


def right_columns():
    SFTTrainer(nn.Linear(2, 1), options(64), texts(text=16)).train()  # REFUTED DL909
    SFTTrainer(nn.Linear(2, 1), options(64), texts(prompt=3, completion=9, id=1)).train()  # REFUTED DL909
    SFTTrainer(nn.Linear(2, 1), options(8, packing=True), texts(text=16)).train()  # REFUTED DL909
    DPOTrainer(nn.Linear(2, 1), options(64), texts(prompt=4, chosen=20, rejected=4)).train()  # REFUTED DL909
    GRPOTrainer(nn.Linear(2, 1), options(None), texts(prompt=4)).train()  # NOT CONFIRMED DL909
    few = Rows([{"text": "word " * (80 if index == 7 else 4)} for index in range(40)])
    SFTTrainer(nn.Linear(2, 1), options(64), few).train()  # REFUTED DL909


class Stumbling(SFTTrainer):
    """Fails for a key that the data has."""

    def prepared(self, rows):
        return {}["text"]


def of_another_cause():
    try:
        Stumbling(nn.Linear(2, 1), options(64), texts(text=9))  # NOT CONFIRMED DL909
    except KeyError:
        pass


def stretched():
    """One mean for all channels, as is allowed, and batches of images."""
    one = Normalize([0.5], [0.5])  # REFUTED DL509
    fit(DataLoader(Numbers(3, one), 8, shuffle=True, **TWO))
    both = v2.Normalize(MEAN, DEVIATION)  # REFUTED DL509
    for _ in range(4):
        both(torch.rand(4, 3, 8, 8), "a label")
    wrong = v2.Normalize([0.5, 0.5], [0.5, 0.5])  # NOT CONFIRMED DL509
    wrong("no image at all")


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(DataLoader(Converted("plain", bad.flipped), 8, shuffle=True))  # REFUTED DL505
    fit(DataLoader(Converted("known", bad.normalised), 8, shuffle=True, **TWO))  # REFUTED DL418, DL505
    fit(DataLoader(Decoded("decoded", bad.flipped), 8, shuffle=True))  # REFUTED DL505
    fit(DataLoader(Converted("cropped", bad.cropped), 16, shuffle=True))  # REFUTED DL505
    segment(DataLoader(Masked("masked", lambda pair: pair), 8, shuffle=True))  # REFUTED DL505
    fit(DataLoader(Grey("grey", bad.normalised), 8, shuffle=True))  # NOT CONFIRMED DL505
    fit(DataLoader(Grey("washed out", bad.normalised), 16, shuffle=True))  # NOT CONFIRMED DL505
    fit(DataLoader(Ordered("ordered", bad.normalised), 8, shuffle=True))  # NOT CONFIRMED DL505
    fit(DataLoader(Turned("turned", bad.normalised), 16, shuffle=True))  # REFUTED DL505
    fit(DataLoader(Numbers(3, Normalize(MEAN, DEVIATION)), 8, shuffle=True))  # REFUTED DL509
    stretched()
    scaled()
    by_other_ways()
    right_columns()
    of_another_cause()
