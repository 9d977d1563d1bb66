"""Trains with Lightning in epochs that are longer than a run has time for, with a schedule and a validation."""

import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.Dropout(0.2), nn.Linear(16, 4))

    def training_step(self, batch, number):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def validation_step(self, batch, number):
        x, y = batch
        self.net(x)
        print("VALIDATED", number, self.trainer.estimated_stepping_batches)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


data = TensorDataset(torch.randn(400, 10), torch.randint(0, 4, (400,)))
trainer = lightning.Trainer(
    accelerator="cpu", devices=1, max_epochs=3, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, num_sanity_val_steps=0,
)  # fmt: skip
trainer.fit(Classifier(), DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=20))
