"""Models of different kinds that are given what they cannot use, each in a loop of its own."""

import os
import sys
import tempfile
from types import ModuleType, SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)


class DDPMScheduler:
    """A noise scheduler as libraries write them."""

    def __init__(self, beta_end=0.02, prediction_type="epsilon"):
        self.config = {"prediction_type": prediction_type, "beta_end": beta_end}
        self.alphas_cumprod = torch.cumprod(1 - torch.linspace(1e-4, beta_end, 100), 0)

    def add_noise(self, x, noise, t):
        kept = self.alphas_cumprod[t][:, None, None, None]
        return kept.sqrt() * x + (1 - kept).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.first, self.last = nn.Conv2d(channels, 8, 3, padding=1), nn.Conv2d(8, channels, 3, padding=1)
        self.time, self.condition = nn.Linear(1, 8), nn.Linear(6, 8)

    def forward(self, x, t, encoder_hidden_states=None):
        hidden = self.first(x) + self.time(t[:, None] / 100)[..., None, None]
        if encoder_hidden_states is not None:
            hidden = hidden + self.condition(encoder_hidden_states)[..., None, None]
        return self.last(hidden.relu())


class Detector(nn.Module):
    """Takes images and targets, as the detectors of torchvision do."""

    def __init__(self, threshold=0.05):
        super().__init__()
        self.body, self.roi_heads = nn.Conv2d(3, 5, 3), nn.Module()
        self.roi_heads.score_thresh = threshold

    def forward(self, images, targets=None):
        found = torch.stack([self.body(image[None]).mean((0, 2, 3)) for image in images])
        if targets is None:
            return found
        boxes = torch.stack([target["boxes"].mean(0) for target in targets])
        return F.smooth_l1_loss(found[:, :4], boxes / 64) + found[:, 4].square().mean()


class Speaking(nn.Module):
    """Looks at images and speaks."""

    def __init__(self, looks=True, scale=1.0):
        super().__init__()
        self.config = SimpleNamespace(image_token_id=29)
        self.vision_tower, self.multi_modal_projector = nn.Linear(12, 8), nn.Linear(8, 16)
        self.language_model = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 30))
        self.looks = looks
        with torch.no_grad():
            self.vision_tower.weight.mul_(scale)

    def forward(self, input_ids, pixel_values=None):
        hidden = self.language_model[0](input_ids)
        if pixel_values is not None and self.looks:
            seen = self.multi_modal_projector(self.vision_tower(pixel_values.flatten(1)).relu())
            hidden = torch.where((input_ids == 29)[..., None], seen[:, None], hidden)
        return self.language_model[1](hidden)


class Shown(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))

    def forward(self, x):
        return self.net(x)


library = ModuleType("torchvision.models.small")  # where a library would load weights
exec("def load(model, weights):\n    model.load_state_dict(weights)\n    return model", vars(library))
sys.modules[library.__name__] = library


def tokens():
    ids = torch.randint(0, 29, (4, 6))
    ids[:, 1] = 29
    return ids


def boxes(corners):
    first = torch.rand(3, 2) * 20
    return torch.cat([first, first + 10 + torch.rand(3, 2) * 20 if corners else 1 + torch.rand(3, 2) * 5], 1)


def denoise(noise_scheduler, size, rows, steps=4, shift=0.0):
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x, noise, t = torch.randn(8, 4, 8, 8) * size + shift, torch.randn(8, 4, 8, 8), torch.randint(0, 100, (8,))
        guess = model(noise_scheduler.add_noise(x, noise, t), t, encoder_hidden_states=rows())
        optimizer.zero_grad()
        yield model, guess, noise
        optimizer.step()


def raw_latents():
    for _, guess, noise in denoise(DDPMScheduler(), 5.5, lambda: None):
        F.mse_loss(guess, noise).backward()  # CONFIRMED DL942


def other_prediction():
    for _, guess, noise in denoise(DDPMScheduler(prediction_type="v_prediction"), 1.0, lambda: None):
        F.mse_loss(guess, noise).backward()  # CONFIRMED DL945


def other_schedule():
    own, sampler = DDPMScheduler(), DDPMScheduler(beta_end=0.2)
    for model, guess, noise in denoise(own, 1.0, lambda: torch.randn(8, 6), steps=26):
        F.mse_loss(guess, noise).backward()  # CONFIRMED DL946
    with torch.no_grad():
        model.eval()(torch.randn(2, 4, 8, 8), torch.full((2,), 99))  # CONFIRMED DL944
    return own, sampler


def detect(corners, threshold):
    model = Detector(threshold)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        images = [torch.rand(3, 40, 48) * 2 - 1 for _ in range(3)]
        optimizer.zero_grad()
        yield model, images, [{"boxes": boxes(corners), "labels": torch.ones(3)} for _ in images]
        optimizer.step()


def widths_for_corners():
    for model, images, targets in detect(corners=False, threshold=0.5):
        model(images, targets).backward()  # CONFIRMED DL512
    with torch.no_grad():
        model.eval()(images)  # CONFIRMED DL513


def speak(model, groups=None, steps=6):
    optimizer = torch.optim.SGD(groups or model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        ids = tokens()
        yield ids, torch.randn(4, 3, 2, 2)
        optimizer.step()


def lost_images():
    for ids, _ in speak(model := Speaking()):
        F.cross_entropy(model(input_ids=ids).transpose(1, 2), ids).backward()  # CONFIRMED DL961, DL963


def blind():
    for ids, pixels in speak(model := Speaking(looks=False)):
        scores = model(input_ids=ids, pixel_values=pixels)  # CONFIRMED DL961
        F.cross_entropy(scores.transpose(1, 2), ids).backward()


def one_rate():
    for ids, pixels in speak(model := Speaking(scale=1e5)):
        scores = model(input_ids=ids, pixel_values=pixels)  # CONFIRMED DL962
        (F.cross_entropy(scores.transpose(1, 2), ids) * 1e-2).backward()


def moved():
    model = DistributedDataParallel(nn.Linear(10, 4))  # CONFIRMED DL806
    model.double().float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 10)), torch.randint(0, 4, (8,))).backward()
        optimizer.step()


def show(model, make, classes=4, steps=4, labels=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        yield make(), torch.randint(0, classes, (16,)) if labels is None else labels()
        optimizer.step()


def tiny_batches():
    model = nn.Sequential(nn.Linear(10, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    for x, y in show(model, lambda: torch.randn(2, 10)):
        F.cross_entropy(model(x), y[:2]).backward()  # CONFIRMED DL515


def images_in_other_ranges():
    for x, y in show(model := Shown(), lambda: torch.randint(0, 256, (16, 3, 8, 8)).float()):
        F.cross_entropy(model(x), y).backward()  # CONFIRMED DL503
    for x, y in show(model := Shown(), lambda: torch.rand(16, 3, 8, 8) / 255):
        F.cross_entropy(model(x), y).backward()  # CONFIRMED DL504
    model = library.load(Shown(), Shown().state_dict())
    for x, y in show(model, lambda: torch.rand(16, 3, 8, 8)):
        F.cross_entropy(model(x), y).backward()  # CONFIRMED DL510


def counted_from_one():
    for x, y in show(model := nn.Linear(10, 4), lambda: torch.randn(16, 10)):
        try:
            F.cross_entropy(model(x), y + 1).backward()  # CONFIRMED DL514
        except IndexError:
            model(x).mean().backward()


def mostly_one_class():
    for x, _ in show(model := nn.Linear(10, 4), lambda: torch.randn(64, 10), steps=12):
        rare = torch.tensor([3] + [0] * 63)
        F.cross_entropy(model(x) + torch.tensor([9.0, 0, 0, 0]), rare).backward()  # CONFIRMED DL517


def average_in_vain():
    model = nn.Linear(10, 4)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for step, (x, y) in enumerate(show(model, lambda: torch.randn(16, 10), steps=16)):
        F.cross_entropy(model.train()(x), y).backward()
        average.update_parameters(model)
        if step % 4 == 3:
            with torch.no_grad():
                model.eval()(torch.randn(4, 10))  # CONFIRMED DL941


def scaled_for_nothing():
    model, scaler = nn.Linear(10, 4), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(torch.randn(16, 10)), torch.randint(0, 4, (16,)))  # CONFIRMED DL802
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def start_alone():
    store = os.path.join(tempfile.mkdtemp(), "store")
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=0, world_size=1)


if __name__ == "__main__":
    start_alone()
    for program in (
        raw_latents, other_prediction, other_schedule, widths_for_corners, lost_images, blind, one_rate, moved,
        tiny_batches, images_in_other_ranges, mostly_one_class, average_in_vain, scaled_for_nothing,
        counted_from_one,  # last, since a GPU fails for good
    ):  # fmt: skip
        program()
