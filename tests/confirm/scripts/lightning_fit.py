"""Trains with Lightning: two optimizers by hand, and one in the usual way with a schedule and a validation."""

import sys

import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))

    def training_step(self, batch, number):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, number):
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


class Adversaries(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
        self.judge = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))

    def training_step(self, batch, number):
        x, _ = batch
        g, d = self.optimizers()
        fake = self.generator(torch.randn(len(x), 4, device=x.device))
        yes, no = x.new_ones(len(x), 1), x.new_zeros(len(x), 1)
        d.zero_grad()
        real = F.binary_cross_entropy_with_logits(self.judge(x), yes)
        self.manual_backward(real + F.binary_cross_entropy_with_logits(self.judge(fake.detach()), no))
        d.step()
        g.zero_grad()
        self.manual_backward(F.binary_cross_entropy_with_logits(self.judge(fake), yes))
        g.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.generator.parameters()), torch.optim.Adam(self.judge.parameters())


def trainer(**options):
    return lightning.Trainer(
        accelerator="gpu" if "cuda" in sys.argv else "cpu", devices=1, default_root_dir="runs", logger=CSVLogger("runs"), enable_progress_bar=False,
        enable_model_summary=False, max_epochs=2, **options,
    )  # fmt: skip


def main():
    lightning.seed_everything(0)
    data = TensorDataset(torch.randn(48, 10), torch.randint(0, 4, (48,)))
    train, validation = DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=16)
    first, second = Classifier(), Adversaries()
    fitting = trainer(gradient_clip_val=1.0, accumulate_grad_batches=2)
    fitting.fit(first, train, validation)
    fitting.validate(first, validation, ckpt_path="best", verbose=False)
    trainer().fit(second, train)
    total = sum(float(p.double().sum()) for model in (first, second) for p in model.parameters())
    print("DIGEST", repr(total), torch.rand(1).item())


if __name__ == "__main__":
    main()
    sys.stdout.flush()
