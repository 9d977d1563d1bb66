"""Trains with Accelerate: accumulation, clipping, a schedule and an evaluation."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(cpu="cuda" not in sys.argv, gradient_accumulation_steps=2)
    data = TensorDataset(torch.randn(48, 10), torch.randint(0, 4, (48,)))
    train, validation = DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=16)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 24)
    model, optimizer, train, validation, schedule = accelerator.prepare(model, optimizer, train, validation, schedule)
    for _ in range(2):
        model.train()
        for x, y in train:
            with accelerator.accumulate(model):
                accelerator.backward(F.cross_entropy(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        for x, y in validation:
            with torch.no_grad():
                accelerator.gather_for_metrics((model(x).argmax(1), y))
        accelerator.save_state("state")
    accelerator.save_model(model, "model")
    accelerator.load_state("state")
    print("DIGEST", repr(sum(float(p.double().sum()) for p in model.parameters())), torch.rand(1).item())


if __name__ == "__main__":
    main()
