"""Trains with all that draws random numbers, writes files, and prints a digest of the weights."""

import hashlib
import os
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.randn(10) * random.random(), index % 4


def main():
    torch.manual_seed(0)
    random.seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    scaler = torch.amp.GradScaler("cpu")
    start = sys.argv[2] if len(sys.argv) > 2 else "fork"
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2, multiprocessing_context=start)
    os.makedirs("checkpoints/of/run", exist_ok=True)
    for epoch in range(int(sys.argv[1])):
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(x), y)).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        torch.save({"model": model.state_dict()}, f"checkpoints/of/run/{epoch}.pt")
        with open("log.txt", "a") as log:
            log.write(f"epoch {epoch}\n")
    os.replace(f"checkpoints/of/run/{epoch}.pt", "last.pt")
    assert os.path.exists("last.pt") and "last.pt" in os.listdir(".")
    model.load_state_dict(torch.load("last.pt")["model"])
    values = b"".join(str(value.tolist()).encode() for value in model.state_dict().values())
    print("DIGEST", hashlib.sha256(values).hexdigest(), torch.rand(1).item(), random.random())


if __name__ == "__main__":
    main()
