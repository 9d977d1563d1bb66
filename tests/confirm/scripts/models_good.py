"""The models of ``models_bad`` without their bugs, and some that look like them."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from models_bad import (
    DDPMScheduler,
    Denoiser,
    Shown,
    Speaking,
    denoise,
    detect,
    library,
    show,
    speak,
    start_alone,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(0)
kept = []


def scaled_latents():
    own = DDPMScheduler()
    for model, guess, noise in denoise(own, 1.0, lambda: torch.randn(8, 6).round(), steps=4, shift=0.2):
        F.mse_loss(guess, noise).backward()  # REFUTED DL942, DL945
    with torch.no_grad():
        model.eval()(torch.randn(2, 4, 8, 8), torch.full((2,), 99))  # REFUTED DL944
    return own


def dropped_conditions():
    def conditions():
        return torch.randn(8, 6) * (torch.rand(8, 1) > 0.2)

    for _, guess, noise in denoise(DDPMScheduler(), 1.0, conditions, steps=26):
        F.mse_loss(guess, noise).backward()  # REFUTED DL946


def velocity():
    """Is compared with what is no noise, as the scheduler says."""
    own, model = DDPMScheduler(prediction_type="v_prediction"), Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        x, noise, t = torch.randn(8, 4, 8, 8), torch.randn(8, 4, 8, 8), torch.randint(0, 100, (8,))
        share = own.alphas_cumprod[t][:, None, None, None]
        optimizer.zero_grad()
        wanted = share.sqrt() * noise - (1 - share).sqrt() * x
        F.mse_loss(model(own.add_noise(x, noise, t), t), wanted).backward()  # NOT CONFIRMED DL942, DL945
        optimizer.step()


def pixels():
    """Three channels between -1 and 1 are no latents, however they deviate."""
    own, model = DDPMScheduler(), Denoiser(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        x, noise, t = torch.rand(8, 3, 8, 8) - 0.5, torch.randn(8, 3, 8, 8), torch.randint(0, 100, (8,))
        optimizer.zero_grad()
        F.mse_loss(model(own.add_noise(x, noise, t), t), noise).backward()  # NOT CONFIRMED DL942
        optimizer.step()


def denoising_autoencoder():
    """Takes noise away from data that deviates by one, and knows no time."""
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        x = torch.randn(8, 64)
        optimizer.zero_grad()
        F.mse_loss(model(x + 0.5 * torch.randn(8, 64)), x).backward()  # NOT CONFIRMED DL942, DL945
        optimizer.step()


def corners():
    for model, images, targets in detect(corners=True, threshold=0.05):
        model(images, targets).backward()  # REFUTED DL512
    with torch.no_grad():
        model.eval()(images)  # REFUTED DL513


def seen_images():
    for ids, pixels in speak(model := Speaking()):
        scores = model(input_ids=ids, pixel_values=pixels)  # REFUTED DL961, DL962, DL963
        F.cross_entropy(scores.transpose(1, 2), ids).backward()


def frozen_tower():
    model = Speaking()
    model.vision_tower.requires_grad_(False)
    for ids, pixels in speak(model, [p for p in model.parameters() if p.requires_grad]):
        scores = model(input_ids=ids, pixel_values=pixels)  # REFUTED DL961
        F.cross_entropy(scores.transpose(1, 2), ids).backward()


def words_alone():
    """No place for an image, and no image."""
    for ids, _ in speak(model := Speaking()):
        F.cross_entropy(model(input_ids=ids % 29).transpose(1, 2), ids % 29).backward()  # NOT CONFIRMED DL963


def moved_before():
    model = DistributedDataParallel(nn.Linear(10, 4).double().float())  # REFUTED DL806
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.load_state_dict(model.state_dict())
    for _ in range(3):
        model.to(model.module.weight.device).requires_grad_(True)
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(torch.randn(8, 10)), torch.randint(0, 4, (8,))).backward()
        optimizer.step()


def sharded():
    """Parameters of which each rank has a part; here there is one rank."""
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
    fully_shard(model, mesh=init_device_mesh(model[0].weight.device.type, (1,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(16):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(8, 10)), torch.randint(0, 4, (8,))).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # REFUTED DL212
        optimizer.step()  # REFUTED DL202, DL203


def few_samples_of_many_values():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 4))
    for x, y in show(model, lambda: torch.randn(2, 3, 8, 8)):
        F.cross_entropy(model(x), y[:2]).backward()  # REFUTED DL515


def frozen_norms():
    model = nn.Sequential(nn.Linear(10, 8), nn.BatchNorm1d(8).eval(), nn.Linear(8, 4))
    for x, y in show(model, lambda: torch.randn(2, 10)):
        F.cross_entropy(model(x), y[:2]).backward()  # NOT CONFIRMED DL515


class Normalising(Shown):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])

    def forward(self, x):
        return super().forward((x - self.mean) / 0.225)


def images_as_wanted():
    model = library.load(Shown(), Shown().state_dict())
    for x, y in show(model, lambda: (torch.rand(16, 3, 8, 8) - 0.45) / 0.225):
        F.cross_entropy(model(x), y).backward()  # REFUTED DL503, DL504, DL510
    model = library.load(Normalising(), Normalising().state_dict())
    for x, y in show(model, lambda: torch.rand(16, 3, 8, 8)):
        F.cross_entropy(model(x), y).backward()  # NOT CONFIRMED DL510
    for x, y in show(model := Shown(), lambda: torch.rand(16, 3, 8, 8)):
        F.cross_entropy(model(x), y).backward()  # NOT CONFIRMED DL503, DL504, DL510


def counted_from_zero():
    for x, y in show(model := nn.Linear(10, 4), lambda: torch.randn(16, 10)):
        F.cross_entropy(model(x), y).backward()  # REFUTED DL514, DL517
    for x, y in show(model := nn.Linear(10, 4), lambda: torch.randn(16, 10), classes=3):
        F.cross_entropy(model(x), y + 1).backward()  # NOT CONFIRMED DL514


def average_in_use():
    model = nn.Linear(10, 4)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for step, (x, y) in enumerate(show(model, lambda: torch.randn(16, 10), steps=16)):
        F.cross_entropy(model.train()(x), y).backward()
        average.update_parameters(model)
        if step % 4 == 3:
            with torch.no_grad():
                model.eval()(torch.randn(4, 10))  # REFUTED DL941
                average.eval()(torch.randn(4, 10))


class EMA:
    """An average that is put into the model for evaluation."""

    def __init__(self, model):
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].lerp_(p.detach(), 0.1)


def average_put_in():
    model = nn.Linear(10, 4)
    average = EMA(model)
    for step, (x, y) in enumerate(show(model, lambda: torch.randn(16, 10), steps=16)):
        F.cross_entropy(model.train()(x), y).backward()
        average.update(model)
        if step % 4 == 3:
            own = {name: p.detach().clone() for name, p in model.named_parameters()}
            model.load_state_dict(average.shadow)
            with torch.no_grad():
                model.eval()(torch.randn(4, 10))  # REFUTED DL941
            model.load_state_dict(own)


if __name__ == "__main__":
    start_alone()
    for program in (
        scaled_latents, dropped_conditions, velocity, pixels, denoising_autoencoder, corners, seen_images, frozen_tower,
        words_alone, moved_before, sharded, few_samples_of_many_values, frozen_norms, images_as_wanted,
        counted_from_zero, average_in_use, average_put_in,
    ):  # fmt: skip
        program()
